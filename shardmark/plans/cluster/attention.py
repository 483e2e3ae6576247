"""Joins attention to one operator, as kernels compute it: scores are never stored (Dao et al., NeurIPS 2022).

Attention is a product of two activations, operators that are no products and lead to one other such product, and that
product, if the scores between are larger than what enters and leaves. Arithmetic is the sum, traffic that of what
crosses the border.
"""

from __future__ import annotations

from collections.abc import Sequence

from shardmark.instances.models.fuse import join
from shardmark.instances.models.model import Model


def with_kernels(model: Model) -> Model:
    """The model with one operator for each attention."""
    group_of = list(range(len(model.operators)))
    readers = model.readers()
    for index in range(len(model.operators)):
        members = _attention(model, readers, index) if group_of[index] == index else []
        if all(group_of[member] == member for member in members):
            for member in members:
                group_of[member] = index
    groups: dict[int, list[int]] = {}
    for index, group in enumerate(group_of):
        groups.setdefault(group, []).append(index)
    return model if len(groups) == len(model.operators) else join(model, groups.values())[0]


def _attention(model: Model, readers: Sequence[Sequence[int]], first: int) -> list[int]:
    """The operators of the attention that begins with a product; none if there is no such attention."""
    if not _of_activations(model, first):
        return []
    outputs, found, last = set(model.outputs), [first], set[int]()
    for index in found:  # grows
        for access in model.operators[index].writes:
            if access.tensor in outputs or not readers[access.tensor]:
                return []
            for reader in readers[access.tensor]:
                if model.operators[reader].multiply_adds:
                    last.add(reader)
                elif reader not in found:
                    found.append(reader)
    if len(last) != 1 or not _of_activations(model, max(last)):
        return []
    ends = [*model.operators[first].reads, *model.operators[max(last)].writes]
    scores = max(model.tensors[access.tensor].numbers for access in model.operators[first].writes)
    large = scores > max(model.tensors[access.tensor].numbers for access in ends)
    return [*found, *last] if large else []


def _of_activations(model: Model, index: int) -> bool:
    """True for a product that reads no parameter."""
    operator = model.operators[index]
    return operator.multiply_adds > 0 and not model.parameters(index)
