"""A bound on throughput from the least load of any accelerator that holds a class."""

from __future__ import annotations

import math
import time
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from shardmark.instances.files.columns import Floats, Ints
from shardmark.instances.graph import Index
from shardmark.instances.placement import Instance
from shardmark.instances.rounding import safely
from shardmark.solvers.placement.kernels.loads import cheapest_with
from shardmark.solvers.placement.throughput.moves import Space, spaces
from shardmark.solvers.placement.throughput.simple_bounds import load_bound

#: All work and transfers together become integers below 2 to this power.
BITS = 49

#: Weights of computation and of transfers in each direction, whose weighted sums bound a load: the maximum of two or
#: three times is at least any mean of them.
WEIGHTS = {
    "none": ((1.0, 1.0),),
    "half": ((1.0, 0.0), (0.75, 0.25), (0.5, 0.5), (0.25, 0.75)),
    "full": ((1.0, 0.0), (0.6, 0.2), (1 / 3, 1 / 3), (0.2, 0.4)),
}


def anchored_bound(instance: Instance, spread: float, end: float, stop: Index) -> float:
    """Lower bound: `load_bound`, given as ``spread``, with classes moved to CPUs that overload any accelerator.

    Of all sets of nodes, of any shape and size, that contain a class, a minimum cut gives the one of least load on an
    accelerator. If that load exceeds a target, the class must be on a CPU. The bound is the least target for which the
    remaining work can still be balanced. It is lower if ``stop``, shape (1,), int32, ends the cuts, or ``end``, on
    `time.monotonic`, the balancing. Not valid for replicas that overlap.
    """
    if not instance.accelerators:
        return spread
    # No device splits items of these spaces; for contiguous placements the order of devices is ignored.
    found = spaces(instance if instance.contiguity == "acyclic" else replace(instance, contiguity="free"))
    least = [_cheapest(instance, space, spread, stop) for space in found]
    return min(_settled(instance, *each, spread, end) for each in zip(found, least, strict=True))


def _cheapest(instance: Instance, space: Space, floor: float, stop: Index) -> Floats:
    """Least load of an accelerator with each item, shape (items,); 0 if unknown or not above the floor."""
    nets, work = space.devices.nets, _work(instance, space)
    least = np.zeros(len(work))
    for computing, moving in WEIGHTS[instance.overlap]:
        times, cost = computing * work, moving * nets.cost / _replicas(instance)
        total = float(times[np.isfinite(times)].sum() + cost.sum())
        if floor >= total:
            continue  # no set exceeds the floor, which may be too large for an integer
        scale = 2.0 ** min(BITS - math.frexp(total)[1], 1000)
        whole = (cost * scale).astype(np.int64), _whole(times, scale), int(floor * scale)
        least = np.maximum(least, safely(cheapest_with(nets, *whole, stop) / scale, instance.nodes + instance.edges))
    return least


def _settled(instance: Instance, space: Space, least: Floats, spread: float, end: float) -> float:
    """The bound of a space: a placement costs at least the ``least`` load of every item that it has on accelerators.

    Sort items by these loads, descending, and let the first items be on CPUs and the next one not. The cost is at least
    the load of that item, which falls along the order, and the balanced work, which rises. A binary search finds the
    least maximum of the two; after ``end``, on `time.monotonic`, the worse end of the remaining interval counts.
    """
    order = np.argsort(-least, kind="stable")[: np.count_nonzero(least)]
    falling = np.append(least[order], 0.0)
    low, high, rising, best = 0, len(order), spread, math.inf
    while low <= high and time.monotonic() < end:
        count = (low + high) // 2
        value = _spread(instance, np.isin(space.item, order[:count])) if count else spread
        best = min(best, max(value, float(falling[count])))
        if value >= falling[count]:
            high = count - 1
        else:
            low, rising = count + 1, value
    return min(best, max(rising, float(falling[high]))) if low <= high else best


def _spread(instance: Instance, on_cpu: NDArray[np.bool_]) -> float:
    """The bound by work if these nodes, shape (n,), bool, are on CPUs."""
    return load_bound(replace(instance, supported=instance.supported & ~on_cpu)) if instance.cpus else math.inf


def _work(instance: Instance, space: Space) -> Floats:
    """Time of each item on an accelerator, infinite if it cannot be there; with replicas, its share of a stage.

    A stage of r devices takes L / r + (1 - 1 / r) Z, for a load L and a synchronisation time Z. A lower bound is its
    value at the greatest r with min(L, Z) instead of Z. An item has its share of that.
    """
    devices, count = space.devices, _replicas(instance)
    unfit = devices.size > instance.room
    alone = np.where(unfit, np.inf, devices.accelerator_time)
    if instance.allreduce is None:
        return alone
    return alone / count + (1 - 1 / count) * np.minimum(alone, devices.size / instance.allreduce)


def _replicas(instance: Instance) -> int:
    """The most devices of a stage of accelerators."""
    return 1 if instance.allreduce is None else max(instance.accelerators, 1)


def _whole(times: Floats, scale: float) -> Ints:
    """Times as integers, rounded down; -1 if they are infinite."""
    finite = np.isfinite(times)
    return np.where(finite, np.where(finite, times, 0.0) * scale, -1).astype(np.int64)
