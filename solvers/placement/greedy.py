"""Accelerators are filled one after another in topological order: the paper's baseline for latency."""

from __future__ import annotations

import numpy as np

from shardmark.instances.files.columns import Ints
from shardmark.instances.placement import Instance
from shardmark.solvers.placement.ideals.blocks import blocks
from shardmark.solvers.registry import Declined, Run, solver


@solver(track="placement", source="Tarnawski et al. 2020, Appendix F, greedy", proves_bounds=False)
def greedy(instance: Instance, run: Run) -> None:
    """Fill one accelerator's memory after another in topological order; CPUs take the rest."""
    block = blocks(instance)
    device = _next_fit(instance, block)
    if device is None:
        raise Declined("the accelerators are full before all nodes are placed, and there are no CPUs")
    run.report(np.array(device, dtype=np.int64)[block])


def _next_fit(instance: Instance, block: Ints) -> list[int] | None:
    """The device of each block, next fit; None if there is no CPU for a block that does not fit.

    Devices are contiguous: a device that was left gets no further blocks, so the last CPU takes all remaining ones. If
    CPUs form one pool, or sets need not be contiguous, CPUs take only the blocks that accelerators do not.
    """
    k, most = instance.accelerators, instance.cpus
    sizes = np.bincount(block, weights=instance.size)
    fitting = (np.bincount(block, weights=~instance.supported) == 0) & (sizes <= instance.capacity)
    pool = instance.objective == "latency" or instance.contiguity == "free"
    used, cpus, room, on_cpu = 0, 0, 0.0, True
    device = []
    for size, fits in zip(sizes.tolist(), fitting.tolist(), strict=True):
        stuck = on_cpu and cpus == most > 0 and not pool
        if fits and not stuck and not on_cpu and size <= room:
            room -= size
        elif fits and not stuck and used < k:
            used, on_cpu, room = used + 1, False, instance.capacity - size
        elif not most:
            return None
        else:
            cpus += not on_cpu or not cpus
            on_cpu = True
        device.append(k + min(cpus, most) - 1 if on_cpu else used - 1)
    return device
