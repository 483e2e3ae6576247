"""Placements of items in an order: each device is filled up to its memory or its share of the work."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from shardmark.instances.files.columns import Floats, Ints
from shardmark.instances.graph import Graph, Index
from shardmark.solvers.placement.kernels.loads import Devices
from shardmark.solvers.placement.throughput.moves import Space

#: Relative difference up to which work counts as equal.
TOLERANCE = 1e-9


def fill(devices: Devices, order: Sequence[int], choose: Callable[[Ints, Floats], int]) -> Index | None:
    """A placement, shape (items,), of items in an order, each on a chosen accelerator with room, else on a chosen CPU.

    ``choose`` gets the possible devices and the work of all devices so far. None if an item fits nowhere.
    """
    k, work = devices.accelerators, np.zeros(devices.accelerators + devices.cpus)
    room, device = np.full(k, devices.memory), np.zeros(len(devices.size), dtype=np.int32)
    cpus = np.arange(k, k + devices.cpus)
    for v in order:
        fitting = np.flatnonzero(room >= devices.size[v]) if math.isfinite(devices.accelerator_time[v]) else cpus
        fitting = fitting if len(fitting) else cpus
        if not len(fitting):
            return None
        device[v] = there = choose(fitting, work)
        work[there] += devices.accelerator_time[v] if there < k else devices.cpu_time[v]
        room[there : there + 1] -= devices.size[v]  # CPUs have no memory limit
    return device


def least_work(fitting: Ints, work: Floats) -> int:
    """The device with least work."""
    return int(fitting[np.argmin(work[fitting])])


def first_below(share: float, fitting: Ints, work: Floats) -> int:
    """The first device with less work than a share, else the one with least work."""
    below = fitting[work[fitting] < share]
    return int(below[0]) if len(below) else least_work(fitting, work)


def fill_by_shares(devices: Devices, order: Sequence[int], weight: Floats) -> Index | None:
    """A placement, shape (items,), of items in an order: accelerators in turn, each full or with its share of weight.

    ``weight`` has shape (items,) and is not negative. None if items are left over, or not supported.
    """
    device, there, room, k = np.zeros(len(devices.size), dtype=np.int32), 0, devices.memory, devices.accelerators
    work, share = 0.0, float(weight.sum()) / max(k, 1)
    if not (devices.accelerator_time < np.inf).all():
        return None
    for v in order:
        size = float(devices.size[v])
        work += weight[v]
        if room < size or (work > (there + 1) * share * (1 + TOLERANCE) and there + 1 < k):
            there, room = there + 1, devices.memory
        if there >= k or room < size:
            return None
        device[v], room = there, room - size
    return device


def random_order(space: Space, rng: np.random.Generator) -> list[int]:
    """The items in a random order, a topological one if devices have an order."""
    key = rng.random(len(space.first))
    if space.rules.order is None:
        return np.argsort(key).tolist()
    rank = np.argsort(np.argsort(key))
    order = Graph(len(key), rank[space.rules.order.tail], rank[space.rules.order.head]).topological_order
    return np.argsort(rank)[order].tolist()
