"""Lower bound on throughput: the cheapest set that a device can hold with a colocation class, where that is most."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from instances.columns import Floats
from instances.graph import Index
from instances.placement import Instance
from solvers.native import Longs, anchor
from solvers.placement._ideals import deadline, rounding
from solvers.placement._spaces import Space, spaces
from solvers.registry import Declined, Run, bound

#: All work and transfers together become less than 2 to this power, as integers; the price of what cannot be.
BITS, NEVER = 49, 2**51

#: Share of the time after which the last cut begins.
SHARE = 0.9

#: Weights of computation, and of transfers each way, that no load is less than the sum with: the larger of two or three
#: times is no less than any mean of them.
WEIGHTS = {
    "none": ((1.0, 1.0),),
    "half": ((1.0, 0.0), (0.75, 0.25), (0.5, 0.5), (0.25, 0.75)),
    "full": ((1.0, 0.0), (0.6, 0.2), (1 / 3, 1 / 3), (0.2, 0.4)),
}


@bound(track="placement", source="our own: minimum cuts, as loads of accelerators are submodular")
def anchored(instance: Instance, run: Run) -> None:
    """Bound the device of each class by its time on a CPU, or the load of the best set with it on an accelerator.

    An accelerator with the class has some set of nodes; the one with the least load, of any shape and size, is a
    minimum cut. Classes come in the order of the most that their bound can be, until no other can be greater.
    """
    if instance.objective != "throughput":
        raise Declined("a device is not the bottleneck of a single sample")
    if instance.allreduce is not None and instance.overlap != "none":
        raise Declined("anchored bounds replicated stages for overlap none only")
    with deadline(run, SHARE) as stop:
        for weights in WEIGHTS[instance.overlap]:
            run.bound(min(_anchored(instance, space, *weights, stop) for space in _spaces(instance)) * (1 - 1e-12))


def _spaces(instance: Instance) -> list[Space]:
    """What devices cannot part; contiguous placements need not have devices that follow one another."""
    return spaces(instance if instance.contiguity == "acyclic" else replace(instance, contiguity="free"))


def _anchored(instance: Instance, space: Space, computing: float, moving: float, stop: Index) -> float:
    """The bound for the items of a space, from weights of their time on accelerators and of their transfers."""
    accelerator, cpu = _times(instance, space)
    work, cost = computing * accelerator, moving * space.devices.nets.cost
    if instance.allreduce is not None:
        cost /= max(instance.accelerators, 1)
    scale = _scale(float(work[np.isfinite(work)].sum() + cost.sum()))
    whole = _whole(cost, scale, 0), _whole(work, scale, -1), _whole(cpu, scale, NEVER)
    return anchor(space.devices.nets, *whole, stop) / scale


def _times(instance: Instance, space: Space) -> tuple[Floats, Floats]:
    """Time of each item on an accelerator and on a CPU, infinite where it cannot be; of its stage, with replicas.

    A stage of r devices takes L / r + (1 - 1 / r) Z, for a load L and Z to synchronise it with any number of replicas:
    no less than for the most devices, with the lesser of L and Z in the place of Z, and each item's share of that.
    """
    devices = space.devices
    unfit = (devices.size > instance.capacity * (1 + rounding(instance))) | (instance.accelerators == 0)
    times = np.where(unfit, np.inf, devices.accelerator_time), devices.cpu_time + (0.0 if instance.cpus else np.inf)
    if instance.allreduce is None:
        return times
    whole = devices.size / instance.allreduce
    shares = (1 / max(count, 1) for count in (instance.accelerators, instance.cpus))
    on_accelerator, on_cpu = (
        time * share + (1 - share) * np.minimum(time, whole) for time, share in zip(times, shares, strict=True)
    )
    return on_accelerator, on_cpu


def _scale(total: float) -> float:
    """A power of two that makes a total less than 2^BITS, or one that makes very little of a tiny one."""
    return 2.0 ** min(BITS - math.frexp(total)[1], 1000) if total else 1.0


def _whole(value: Floats, scale: float, otherwise: int) -> Longs:
    """Values as integers, rounded down, none above NEVER; ``otherwise`` where they are infinite."""
    with np.errstate(over="ignore"):
        whole = np.minimum(value * scale, NEVER).astype(np.int64)
    return np.where(np.isfinite(value), whole, otherwise)
