"""A constructive heuristic under several prices of memory, each result improved by single moves."""

from __future__ import annotations

from shardmark.instances.intraop import Instance
from shardmark.solvers.intraop.network.memory import Footprint, Timeline
from shardmark.solvers.intraop.network.ragged import argmin
from shardmark.solvers.intraop.network.reduction import prepare
from shardmark.solvers.intraop.search.attempt import reserve
from shardmark.solvers.intraop.search.greedy import assignments
from shardmark.solvers.intraop.search.incumbent import Incumbent
from shardmark.solvers.registry import Run, solver


@solver(track="intraop", source="steepest regret construction, first-improvement descent", proves_bounds=False)
def greedy(instance: Instance, run: Run) -> None:
    """Greedy by largest regret, then local descent, over several memory prices."""
    end = run.deadline - reserve(run)
    timeline = Timeline.of(instance)
    incumbent = Incumbent(instance, run, timeline)
    incumbent.offer(argmin(instance.usage, instance.strategy_start))
    model = prepare(instance, timeline, until=end) or prepare(instance, timeline, tolerant=True, until=end)
    assert model is not None, "a tolerant model forbids no table entry"
    for value in assignments(Footprint(instance, timeline, model), end):
        incumbent.offer(model.lift(instance, value))
