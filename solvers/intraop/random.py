"""Uniformly random strategies, sampled until time is up: the baseline of all solvers."""

from __future__ import annotations

import time

from shardmark.instances.intraop import Instance
from shardmark.solvers.intraop.network.memory import Timeline
from shardmark.solvers.intraop.search.attempt import reserve
from shardmark.solvers.intraop.search.incumbent import Incumbent
from shardmark.solvers.registry import Run, solver


@solver(track="intraop", source="uniform sampling", deterministic=False, proves_bounds=False)
def random(instance: Instance, run: Run) -> None:
    """Sample strategies uniformly at random until time is up; keep the best.

    While nothing fits, the sample that exceeds the memory limit least is the best.
    """
    end = run.deadline - reserve(run, share=0.05, least=0.1)
    incumbent = Incumbent(instance, run, Timeline.of(instance))
    incumbent.offer(run.rng.integers(instance.strategies))
    while time.monotonic() < end and (instance.strategies > 1).any():
        incumbent.offer(run.rng.integers(instance.strategies))
