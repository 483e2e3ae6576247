"""A mesh of devices: times of collectives along its axes, and of the change from one layout of a tensor to another."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from shardmark.instances.errors import InputError
from shardmark.instances.files.columns import Floats, Ints

#: Shape (strategies, axes): the dimension of a tensor, or the loop of an operator, that each mesh axis splits, or -1.
Splits = NDArray[np.int64]


#: Most axes of a mesh. Each multiplies the strategies of an operator: five give about 1,000, and 10^6 per pair.
MAX_AXES = 5


def mesh_sizes(text: str, source: str) -> tuple[int, ...]:
    """The sizes of the axes in a text such as "2x4".

    InputError unless each is an integer from 2 to 65,535, or if there are more than `MAX_AXES`.
    """
    sizes = text.split("x")
    if len(sizes) > MAX_AXES:
        raise InputError(source, "mesh", f"expected at most {MAX_AXES} axes, such as 2x4, found {len(sizes)}")
    if not all(re.fullmatch("[0-9]{1,5}", size) and 1 < int(size) < 2**16 for size in sizes):
        raise InputError(source, "mesh", f"expected axis sizes of at least 2, such as 2x4, found {text!r}")
    return tuple(map(int, sizes))


@dataclass(frozen=True)
class Mesh:
    """Devices in a grid.

    ``sizes``      devices along each axis
    ``bandwidth``  bytes per nanosecond along each axis
    ``latency``    nanoseconds that a collective takes, however little it moves
    """

    sizes: tuple[int, ...]
    bandwidth: tuple[float, ...]
    latency: float

    def parts(self, splits: Splits) -> Ints:
        """Number of parts that each split makes: shape (strategies,)."""
        return np.where(splits >= 0, np.array(self.sizes), 1).prod(axis=-1)

    def all_reduce(self, axis: int, size: Floats) -> Floats:
        """Time to sum ``size`` bytes, any shape, over the devices along an axis (all-reduce)."""
        k = self.sizes[axis]
        return self.latency + 2 * (k - 1) / k * size / self.bandwidth[axis]

    def reshard(self, source: Splits, target: Splits, size: int) -> tuple[Floats, Floats]:
        """Latency and transfer time to change the layout of a tensor of ``size`` bytes.

        ``source`` and ``target`` are layouts, shapes (..., axes) that broadcast; the times have the shape without the
        last axis. Splitting a replicated tensor is free; gathering sends all parts to all devices along an axis;
        moving the split from one dimension to another exchanges all but a device's own part.
        """
        shape = np.broadcast_shapes(source.shape, target.shape)[:-1]
        latency, transfer = np.zeros(shape), np.zeros(shape)
        part = size / self.parts(source)
        for axis, k in enumerate(self.sizes):
            before, after = source[..., axis], target[..., axis]
            moved = np.where(after < 0, part * (k - 1), part * (k - 1) / k)
            pays = (before != after) & (before >= 0)
            latency[pays] = self.latency
            transfer += np.where(pays, moved / self.bandwidth[axis], 0.0)
        return latency, transfer
