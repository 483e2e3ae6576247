"""The least that a class costs an accelerator, with whatever it has beside it, and what that means for throughput."""

from __future__ import annotations

import math
import time
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from instances.files.columns import Floats, Ints
from instances.graph import Index
from instances.placement import Instance
from instances.rounding import safely
from solvers.placement.kernels.loads import cheapest_with
from solvers.placement.throughput.moves import Space, spaces
from solvers.placement.throughput.simple_bounds import load_bound

#: All work and transfers together become less than 2 to this power, as integers.
BITS = 49

#: Weights of computation, and of transfers each way, that no load is less than the sum with: the larger of two or three
#: times is no less than any mean of them.
WEIGHTS = {
    "none": ((1.0, 1.0),),
    "half": ((1.0, 0.0), (0.75, 0.25), (0.5, 0.5), (0.25, 0.75)),
    "full": ((1.0, 0.0), (0.6, 0.2), (1 / 3, 1 / 3), (0.2, 0.4)),
}


def anchored_bound(instance: Instance, spread: float, end: float, stop: Index) -> float:
    """No throughput is better: `load_bound`, which is ``spread``, with classes on CPUs that cost accelerators too much.

    An accelerator that holds a class has some set of nodes with it; of all these sets, of any shape and size, the one
    with the least load is a minimum cut. If that load is above a bound, then the class is on a CPU or the bound is not
    met; the least bound where what is left can be spread holds. It is a lesser one if ``stop``, shape (1,), int32, ends
    the cuts, or ``end``, on `time.monotonic`, the spreading. Not for replicas that overlap.
    """
    if not instance.accelerators:
        return spread
    found = []
    for space in _spaces(instance):
        least = _cheapest(instance, space, spread, stop)
        found.append(_settled(instance, space, least, spread, end))
    return min(found)


def _spaces(instance: Instance) -> list[Space]:
    """Return the spaces whose items no device splits; devices of contiguous placements need not have an order."""
    return spaces(instance if instance.contiguity == "acyclic" else replace(instance, contiguity="free"))


def _cheapest(instance: Instance, space: Space, floor: float, stop: Index) -> Floats:
    """Least load of an accelerator with each item, shape (items,); 0 if it is unknown or not above the floor."""
    nets, work = space.devices.nets, _work(instance, space)
    least = np.zeros(len(work))
    for computing, moving in WEIGHTS[instance.overlap]:
        times, cost = computing * work, moving * nets.cost / _replicas(instance)
        total = float(times[np.isfinite(times)].sum() + cost.sum())
        if floor >= total:
            continue  # no set has more, and as an integer the floor may be too large
        scale = _scale(total)
        whole = (cost * scale).astype(np.int64), _whole(times, scale), int(floor * scale)
        least = np.maximum(least, safely(cheapest_with(nets, *whole, stop) / scale, instance.nodes + instance.edges))
    return least


def _settled(instance: Instance, space: Space, least: Floats, spread: float, end: float) -> float:
    """The bound of a space: any placement costs no less than the loads of the items that it has on accelerators.

    Of the items in the order of these loads, those before some place are on CPUs, and the next is not: then the cost is
    at least the load of that one, and what spreading takes. One of both falls along the order, the other one rises. By
    ``end``, on `time.monotonic`, places that have not been looked at count as their ends do.
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
    """Time of each item on an accelerator, infinite where it cannot be; with replicas, its share of a stage.

    A stage of r devices takes L / r + (1 - 1 / r) Z, for a load L and Z to synchronise it with any number of replicas:
    no less than for the most devices, with the lesser of L and Z in the place of Z, and each item's share of that.
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


def _scale(total: float) -> float:
    """A power of two that makes a total less than 2^BITS, or less where that is tiny."""
    return 2.0 ** min(BITS - math.frexp(total)[1], 1000)


def _whole(times: Floats, scale: float) -> Ints:
    """Times as integers, rounded down; -1 where they are infinite."""
    finite = np.isfinite(times)
    return np.where(finite, np.where(finite, times, 0.0) * scale, -1).astype(np.int64)
