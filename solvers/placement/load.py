"""Lower bound on throughput: all work spread evenly, within the memory of all accelerators."""

from __future__ import annotations

import numpy as np

from instances.placement import Instance, greatest
from solvers.registry import Declined, Run, bound


@bound(track="placement", source="linear relaxation of Tarnawski et al. 2020, Figure 7, without transfers")
def load(instance: Instance, run: Run) -> None:
    """Spread the work over accelerators and CPUs as if it could be cut, within the memory of all accelerators."""
    if instance.objective != "throughput":
        raise Declined("for latency CPUs do any number of nodes at once")
    run.bound(instance.load_bound())
    if instance.accelerators and instance.cpus and instance.allreduce is None:
        run.bound(_within_memory(instance))


def _within_memory(instance: Instance) -> float:
    """The dual of the relaxation, with prices for time on accelerators, time on CPUs and memory.

    min T subject to sum a x <= k T, sum c (1 - x) <= l T, sum m x <= k M, 0 <= x <= 1 has, for a share s of time on
    accelerators and a price p of memory, the bound sum min(s a / k + p m, (1 - s) c / l) - p k M, concave in both.
    A price above all CPU times a size can stand for none: it only sends everything to the CPUs. Both sums are rounded
    towards safety before their difference is taken.
    """
    accelerator, cpu = instance.unit_times()
    size = instance.of_units(instance.size)
    room = instance.accelerators * instance.capacity
    accelerator, cpu = accelerator / instance.accelerators, cpu / instance.cpus
    smallest = size[size > 0].min(initial=np.inf)
    highest = float(cpu.max(initial=0.0)) / smallest if smallest < np.inf else 0.0

    def priced(share: float, price: float) -> float:
        least = np.minimum(share * accelerator + price * size, (1 - share) * cpu).sum()
        return float(least * (1 - 1e-12) - price * room * (1 + 1e-12))

    return greatest(lambda share: max(priced(share, 0.0), greatest(lambda part: priced(share, part**4 * highest))))
