"""The passes of a training step: which operators belong to the backward pass, and to which operator of the forward.

An operator whose location has ``transpose(...)`` is of the backward pass, and so is what needs its results. Its
``forward`` is the operator of the same scope and line of the program, else, if rematerialised, of the same scope and
kind, else one of the same round of a loop, else that of the operator it reads from; that of an optimiser's update is
the first one that reads the parameter.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from shardmark.instances.models.model import Model
from shardmark.instances.models.stablehlo import scopes


def mark_passes(model: Model, keys: Sequence[tuple[str, Any]]) -> None:
    """Mark the operators of the backward pass, and what needs them, with the operator each belongs to.

    ``keys`` has the name of every operator's location, and the line of the program.
    """
    operators = model.operators
    marked = [scopes.is_backward(name) for name, _ in keys]
    needs = _needing(model, marked)
    forward = _counterparts(model, keys, marked, needs)
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


def _counterparts(
    model: Model, keys: Sequence[tuple[str, Any]], marked: Sequence[bool], late: Sequence[bool]
) -> Mapping[int, int]:
    """For operators of the backward pass and updates, the operator of the forward pass that they belong to."""
    places = defaultdict[Any, list[int]](list)
    for index, (name, lines) in enumerate(keys):
        if not late[index]:
            places[scopes.scope(name), lines].append(index)
            places[scopes.scope(name)].append(index)
            if scopes.scope(name):
                places[scopes.scope(name), model.operators[index].kind].append(index)
    found = dict[int, int]()
    for index, (name, lines) in enumerate(keys):
        if not marked[index]:
            continue
        scope, kind = scopes.scope(name), model.operators[index].kind
        candidates = places.get((scope, lines), ())
        if not candidates and scopes.is_rematerialised(name):  # JAX writes other lines
            candidates = places.get((scope, kind), ())
        if not candidates and any(map(str.isdecimal, scope)):
            candidates = places.get(scope, ())
        producers = (model.tensors[access.tensor].producer for access in model.operators[index].reads)
        inherited = [found[producer] for producer in producers if producer in found]
        if candidates:
            found[index] = _closest(model, index, candidates)
        elif inherited:  # JAX writes another line for some gradients, as of poolings
            found[index] = inherited[0]
    return {**_updates(model, marked, late), **found}


def _closest(model: Model, index: int, candidates: Sequence[int]) -> int:
    """The candidate that has most tensors in common with an operator, then the one of its kind, then the greatest."""
    operators = model.operators
    own = {access.tensor for access in operators[index].reads}

    def likeness(other: int) -> tuple[int, bool, int, int]:
        used = {access.tensor for access in (*operators[other].reads, *operators[other].writes)}
        return len(used & own), operators[other].kind == operators[index].kind, operators[other].flops, -other

    return max(candidates, key=likeness)


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
