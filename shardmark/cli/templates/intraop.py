"""NAME: say in one line what the method is."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from shardmark import Run, solver
from shardmark.instances.intraop import Instance


@solver(track="intraop", source="where the method is described")
def name(instance: Instance, run: Run) -> None:
    """Say in one line what it does; tables show it."""
    start = instance.strategy_start.tolist()
    frugal = [int(np.argmin(instance.usage[a:b])) for a, b in pairwise(start)]  # least memory, whatever the cost
    run.report(frugal)  # report every better solution, as it is found, until run.remaining() is 0
