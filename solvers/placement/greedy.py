"""One accelerator after another is filled in topological order; the baseline for latency of the paper."""

from __future__ import annotations

import numpy as np

from instances.files.columns import Ints
from instances.placement import Instance
from solvers.placement.ideals.blocks import blocks
from solvers.registry import Declined, Run, solver


@solver(track="placement", source="Tarnawski et al. 2020, Appendix F, greedy")
def greedy(instance: Instance, run: Run) -> None:
    """Fill the memory of one accelerator after another in topological order; what is left goes to CPUs."""
    block = blocks(instance)
    device = _Filling(instance, block).device()
    if device is None:
        raise Declined("the accelerators are full before all nodes are placed, and there are no CPUs")
    run.report(np.array(device, dtype=np.int64)[block])


class _Filling:
    """Blocks in their order, each with its size, and whether an accelerator can hold it."""

    def __init__(self, instance: Instance, block: Ints) -> None:
        count = int(block.max(initial=-1)) + 1
        self.instance = instance
        self.size = np.bincount(block, weights=instance.size, minlength=count).tolist()
        unsupported = np.bincount(block, weights=~instance.supported, minlength=count) > 0
        self.fits = (~unsupported & (np.array(self.size) <= instance.capacity)).tolist()
        self.time = np.bincount(block, weights=instance.cpu_time, minlength=count).tolist()

    def device(self) -> list[int] | None:
        """The device of each block, next fit; None if no CPU is there for what does not fit.

        A device is left for good, so that all are contiguous; the last CPU therefore keeps all that follows. Where
        that need not be, as one pool of CPUs does them or any set will do, CPUs take only what accelerators do not.
        """
        instance, k, most = self.instance, self.instance.accelerators, self.instance.cpus
        pool = instance.objective == "latency" or instance.contiguity == "free"
        used, cpus, room, on_cpu = 0, 0, 0.0, True
        device = []
        for size, fits in zip(self.size, self.fits, strict=True):
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
