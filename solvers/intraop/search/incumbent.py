"""The incumbent of a run: every improvement is reported; a feasible solution beats any infeasible one."""

from __future__ import annotations

import math

from shardmark.instances.files.columns import Ints
from shardmark.instances.intraop import Instance
from shardmark.solvers.intraop.network.memory import Timeline
from shardmark.solvers.intraop.network.model import exact_cost
from shardmark.solvers.registry import Run


class Incumbent:
    """The best solution of a run: ``excess``, its memory above the limit at the worst time, and ``cost``, exact."""

    def __init__(self, instance: Instance, run: Run, timeline: Timeline) -> None:
        self._instance, self._run, self._timeline = instance, run, timeline
        self.excess: float = math.inf
        self.cost = 0

    def offer(self, strategy: Ints) -> bool:
        """Report strategies, shape (n,), if they improve the incumbent; return True if they do."""
        excess = self._excess(self._instance.strategy_start[:-1] + strategy)
        cost = exact_cost(self._instance, strategy)
        if (excess, cost) >= (self.excess, self.cost):
            return False
        self.excess, self.cost = excess, cost
        self._run.report(strategy.tolist())
        return True

    def _excess(self, row: Ints) -> int:
        """Memory of the chosen rows, shape (n,), above the limit; computed without the timeline if that is rounded."""
        timeline, instance = self._timeline, self._instance
        if not timeline.exact and instance.usage_limit is not None:
            return max(0, instance.peak(instance.usage[row]) - instance.usage_limit)
        return max(0, int(timeline.profile(timeline.usage[row]).max(initial=0)) - timeline.limit)
