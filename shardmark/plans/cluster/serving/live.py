"""The activations of a block that serves at one time: what enters and leaves it, and what lies between."""

from __future__ import annotations

from collections.abc import Callable

from shardmark.instances.models.model import Model, Tensor


def peak_bytes(block: Model, share: Callable[[Tensor], float]) -> float:
    """Most bytes of activations at one time, if the operators of a block run in their order.

    ``share`` has the bytes of a tensor on a device. A tensor is freed once all its readers have run, outputs are not. A
    view is the tensor that it shows.
    """
    shown = list(range(len(block.tensors)))
    for operator in block.operators:
        if operator.view and operator.reads:
            for access in operator.writes:
                shown[access.tensor] = shown[operator.reads[0].tensor]
    last = dict.fromkeys((shown[tensor] for tensor in block.outputs), len(block.operators))
    for index, operator in enumerate(block.operators):
        for access in (*operator.reads, *operator.writes):
            last[shown[access.tensor]] = max(last.get(shown[access.tensor], 0), index)
    change = [0.0] * (len(block.operators) + 2)
    for tensor in (tensor for tensor in last if not block.tensors[tensor].parameter):
        born, size = block.tensors[tensor].producer or 0, share(block.tensors[tensor])
        change[born] += size
        change[last[tensor] + 1] -= size
    live = most = 0.0
    for size in change:
        live += size
        most = max(most, live)
    return most
