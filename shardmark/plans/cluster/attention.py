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
    groups = attentions(model)
    inside = {index for group in groups for index in group}
    alone = ([index] for index in range(len(model.operators)) if index not in inside)
    return join(model, [*groups, *alone])[0] if groups else model


def attentions(model: Model) -> list[list[int]]:
    """The operators of each attention of the forward pass, ascending; its two products are the first and the last."""
    found, inside = list[list[int]](), set[int]()
    readers = [[reader for reader in by if not model.operators[reader].backward] for by in model.readers()]
    for index, operator in enumerate(model.operators):
        members = [] if operator.backward or index in inside else _attention(model, readers, index)
        if members and inside.isdisjoint(members):
            found.append(members)
            inside.update(members)
    return found


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
    return sorted([*found, *last]) if large else []


def _of_activations(model: Model, index: int) -> bool:
    """True for a product that reads no parameter."""
    operator = model.operators[index]
    return operator.multiply_adds > 0 and not model.parameters(index)
