"""NAME: say in one line what the method is."""

from __future__ import annotations

import numpy as np

from instances.placement import Instance
from solvers.registry import Run, solver


@solver(track="placement", source="where the method is described")
def name(instance: Instance, run: Run) -> None:
    """Say in one line what it does; tables show it."""
    device = np.zeros(instance.nodes, dtype=int)  # accelerators are 0 to k - 1, the CPUs come after them
    if instance.cpus:
        device[:] = instance.accelerators  # the first CPU takes everything: any graph, any size
    run.report(device)  # report every better solution, as it is found, until run.remaining() is 0
