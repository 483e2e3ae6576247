"""The memory that the tensors of a split model take on each device, and when."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from shardmark.instances.files.columns import Ints
from shardmark.instances.models.model import Model
from shardmark.instances.models.sharding.groups import Group
from shardmark.instances.models.sharding.mesh import Mesh
from shardmark.instances.models.sharding.splits import Nest, Use

TRAINING_STATE = 8  # bytes kept for each byte of a parameter: itself, gradient, master copy and two moments


@dataclass(eq=False)
class Buffer:
    """Memory for tensors of one group: ``usages`` bytes, shape (strategies,), in the time steps [begin, end).

    ``given``  True for an input of the model or a parameter, which no operator writes over
    """

    begin: int
    end: int
    usages: Ints
    given: bool = False


def buffers(
    model: Model, nests: Sequence[Nest], groups: Sequence[Group], mesh: Mesh, *, training: bool
) -> list[list[Buffer]]:
    """The buffers of every group; `shardmark.instances.models.as_intraop` has the rules."""
    steps = len(nests) * (2 if training else 1)
    last = _last_use(model)
    found: list[list[Buffer]] = [[] for _ in groups]
    for group, own in zip(groups, found, strict=True):
        of: dict[int, Buffer] = {}
        for tensor in group.layouts:
            if model.tensors[tensor].producer is None:
                kept = model.tensors[tensor].parameter and tensor not in model.updates
                end = steps if training or kept else last[tensor] + 1
                of[tensor] = Buffer(0, end, _usages(model, tensor, group, mesh, training), given=True)
                own.append(of[tensor])
        for index in sorted(group.splits):
            reused = None if training and not model.operators[index].view else _reused(model, nests, index, of)
            for use in nests[index].writes:
                end = steps - index if training else last[use.tensor] + 1
                usages = _usages(model, use.tensor, group, mesh, training)
                if reused is None:
                    of[use.tensor] = Buffer(index, end, usages)
                    own.append(of[use.tensor])
                else:
                    reused.end, reused.usages = max(reused.end, end), np.maximum(reused.usages, usages)
                    of[use.tensor] = reused
    return found


def _last_use(model: Model) -> list[int]:
    """The last operator that reads each tensor; of a tensor that none reads its producer, of an output the last one."""
    last = [tensor.producer or 0 for tensor in model.tensors]
    for index, operator in enumerate(model.operators):
        for access in operator.reads:
            last[access.tensor] = index
    for tensor in model.outputs:
        last[tensor] = len(model.operators) - 1
    return last


def _usages(model: Model, tensor: int, group: Group, mesh: Mesh, training: bool) -> Ints:
    state = TRAINING_STATE if training and model.tensors[tensor].parameter else 1
    return np.ceil(state * model.tensors[tensor].bytes / mesh.parts(group.layouts[tensor])).astype(np.int64)


def _reused(model: Model, nests: Sequence[Nest], index: int, of: Mapping[int, Buffer]) -> Buffer | None:
    """The buffer of a read tensor that holds an operator's output too: of a view, or written over, else None."""
    operator, nest = model.operators[index], nests[index]
    if operator.view:
        return of.get(nest.reads[0].tensor)
    if not operator.known or len(nest.writes) != 1:
        return None
    for use in nest.reads:
        buffer = of.get(use.tensor)
        if buffer and not buffer.given and buffer.end == index + 1 and _alike(model, use, nest.writes[0]):
            return buffer
    return None


def _alike(model: Model, read: Use, written: Use) -> bool:
    """True if an operator reads one tensor number by number as it writes the other."""
    a, b = model.tensors[read.tensor], model.tensors[written.tensor]
    whole = all(loop >= 0 or size == 1 for loop, size in zip(written.loop_of, b.shape, strict=True))
    return whole and (a.shape, a.bytes) == (b.shape, b.bytes) and np.array_equal(read.loop_of, written.loop_of)
