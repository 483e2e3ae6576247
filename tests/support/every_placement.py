"""What every placement of a small throughput instance costs, all of them at once."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from instances.placement import Instance

Places = NDArray[np.int64]
Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]


def all_placements(instance: Instance, devices: int | None = None) -> Places:
    """Shape (placements, n): every placement on so many devices that keeps colour classes together."""
    units = int(instance.unit.max()) + 1
    count = instance.accelerators + instance.cpus if devices is None else devices
    grid = np.indices((count,) * units)
    return grid.reshape(units, -1).T[:, instance.unit]


def costs(instance: Instance, device: Places, groups: list[list[int]] | None = None) -> Floats:
    """Shape (placements,): the greatest load of each row of devices; infinite where it is no acyclic placement.

    With ``groups`` the rows hold stages, and these are the devices of each.
    """
    if groups is None:
        groups = [[d] for d in range(instance.accelerators + instance.cpus)]
    k, none = instance.accelerators, -1
    homes = [group[0] // (instance.cluster or k) if group[0] < k else none for group in groups]
    cluster = np.array(homes)[device]
    far = (cluster[:, instance.graph.tail] != cluster[:, instance.graph.head]) & (instance.slowdown > 1)
    far &= (cluster[:, instance.graph.tail] != none) & (cluster[:, instance.graph.head] != none)
    worst = np.where(acyclic(instance, device, len(groups)), 0.0, np.inf)
    for d, group in enumerate(groups):
        mine, on = device == d, group[0] < k
        work = mine @ (instance.accelerator_time if on else instance.cpu_time)
        parts = (*_transfers(instance, mine, far), work) if on else (0.0, 0.0, work)
        load = _shared(instance, _overlapped(instance.overlap, *parts), mine @ instance.size, len(group))
        unfit = mine[:, ~instance.supported].any(axis=1) | (mine @ instance.size > instance.capacity)
        worst = np.maximum(worst, np.where(unfit & on, np.inf, load))
    return worst


def _transfers(instance: Instance, mine: Flags, far: Flags) -> tuple[Floats, Floats]:
    """What an accelerator with these nodes takes in, and what it sends out."""
    into, out = np.zeros(len(mine)), np.zeros(len(mine))
    real = ~instance.artificial
    for u in range(instance.nodes):
        edges = np.flatnonzero((instance.graph.tail == u) & real)
        here = mine[:, instance.graph.head[edges]]
        for total, crossing in ((into, ~mine[:, [u]] & here), (out, mine[:, [u]] & ~here)):
            rate = np.where((crossing & far[:, edges]).any(axis=1), instance.slowdown, 1.0)
            total += instance.transfer[u] * rate * crossing.any(axis=1)
    return into, out


def _overlapped(overlap: str, into: Floats | float, out: Floats | float, work: Floats) -> Floats:
    if overlap == "none":
        return work + into + out
    return np.maximum(work, into + out if overlap == "half" else np.maximum(into, out))


def _shared(instance: Instance, load: Floats, size: Floats, count: int) -> Floats:
    if count == 1:
        return load
    assert instance.allreduce
    sync = (count - 1) * size / (count * instance.allreduce)
    return load / count + sync if instance.overlap == "none" else np.maximum(load / count, sync)


def groupings(instance: Instance) -> Iterator[list[list[int]]]:
    """Every way to form groups of devices of a kind, up to numbering, in no more than one order of their sizes."""
    k = instance.accelerators
    for first in _partitions(k, k):
        for second in _partitions(instance.cpus, instance.cpus):
            edges = np.cumsum([0, *first, *second]).tolist()
            yield [list(range(a, b)) for a, b in pairwise(edges)]


def _partitions(total: int, most: int) -> Iterator[list[int]]:
    if not total:
        yield []
    for first in range(1, min(total, most) + 1):
        for others in _partitions(total - first, first):
            yield [first, *others]


def optimum(instance: Instance) -> float:
    """The least cost of any acyclic placement, replicated stages included; infinite if there is none."""
    if not instance.allreduce:
        return float(costs(instance, all_placements(instance)).min())
    return min(
        float(costs(instance, all_placements(instance, len(groups)), groups).min()) for groups in groupings(instance)
    )


def acyclic(instance: Instance, device: Places, count: int | None = None) -> Flags:
    """Whether some order of the devices suits forward edges, and backward edges all reversed or all as they are."""
    count = instance.accelerators + instance.cpus if count is None else count
    ends = list(zip(instance.graph.tail.tolist(), instance.graph.head.tolist(), strict=True))
    forward = [(u, v) for u, v in ends if not instance.backward[v]]
    backward = [(u, v) for u, v in ends if instance.backward[u]]
    turned = [(v, u) for u, v in backward]
    return ~_has_cycle(device, forward + turned, count) | ~_has_cycle(device, forward + backward, count)


def _has_cycle(device: Places, ends: list[tuple[int, int]], count: int) -> Flags:
    reach = np.zeros((len(device), count, count), dtype=bool)
    rows = np.arange(len(device))
    for u, v in ends:
        reach[rows, device[:, u], device[:, v]] |= device[:, u] != device[:, v]
    for d in range(count):
        reach |= reach[:, :, d, None] & reach[:, d, None, :]
    return np.einsum("pdd->pd", reach).any(axis=1)
