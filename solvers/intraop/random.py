"""Uniformly random strategies, as many samples as time allows: what any other solver has to beat."""

from __future__ import annotations

from instances.intraop import Instance
from solvers.intraop._memory import Timeline
from solvers.intraop._record import Record
from solvers.registry import Run, solver

#: Seconds kept back at the end for the sample in hand.
RESERVE = 0.1


@solver(track="intraop", source="uniform sampling", deterministic=False)
def random(instance: Instance, run: Run) -> None:
    """Sample strategies until time is up; before anything fits, report what exceeds the limit least."""
    record = Record(instance, run, Timeline.of(instance))
    record.offer(run.rng.integers(instance.strategies))
    while run.remaining() > RESERVE and (instance.strategies > 1).any():
        record.offer(run.rng.integers(instance.strategies))
