"""The passes of a training step: which operators belong to the backward pass, and to which operator of the forward.

An operator whose location has ``transpose(...)`` is of the backward pass, and so is what needs its results. The
``forward`` of an optimiser's update is the first operator that reads the parameter.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from shardmark.instances.models.model import Model
from shardmark.instances.models.stablehlo import scopes
from shardmark.instances.models.stablehlo.counterparts import counterparts


def mark_passes(model: Model, keys: Sequence[tuple[str, Any]]) -> None:
    """Mark the operators of the backward pass, and what needs them, with the operator each belongs to.

    ``keys`` has the name of every operator's location, and the line of the program.
    """
    operators = model.operators
    marked = [scopes.is_backward(name) for name, _ in keys]
    needs = _needing(model, marked)
    forward = {**_updates(model, marked, needs), **counterparts(model, keys, marked, needs)}
    for index, late in enumerate(needs):
        if late:
            operators[index] = replace(operators[index], backward=True, forward=forward.get(index))


def _needing(model: Model, marked: Sequence[bool]) -> list[bool]:
    """True for operators that are marked or need what a marked one writes."""
    late = [False] * len(model.tensors)
    found = []
    for operator, mark in zip(model.operators, marked, strict=True):
        found.append(mark or any(late[access.tensor] for access in operator.reads))
        for access in operator.writes:
            late[access.tensor] = found[-1]
    return found


def _updates(model: Model, marked: Sequence[bool], late: Sequence[bool]) -> Mapping[int, int]:
    """For operators after the backward pass, the first operator of the forward pass that reads the same parameter.

    Operators that exchange more than a single number belong to the same update.
    """
    leader = list(range(len(model.operators)))

    def find(index: int) -> int:
        while leader[index] != index:
            leader[index] = leader[leader[index]]
            index = leader[index]
        return index

    first = dict[int, int]()  # parameter to the first operator that reads it
    after = [late[index] and not marked[index] for index in range(len(model.operators))]
    owners = dict[int, int]()
    for index, operator in enumerate(model.operators):
        for access in operator.reads:
            tensor = model.tensors[access.tensor]
            if not late[index]:
                first.setdefault(access.tensor, index)
            elif after[index] and tensor.producer is not None and after[tensor.producer] and tensor.numbers > 1:
                leader[find(index)] = find(tensor.producer)
    for index in (index for index, is_after in enumerate(after) if is_after):
        for parameter in model.parameters(index):
            if parameter in first and model.tensors[parameter].numbers > 1:
                owners.setdefault(find(index), first[parameter])
    return {index: owners[find(index)] for index, is_after in enumerate(after) if is_after and find(index) in owners}
