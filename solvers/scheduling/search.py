"""Search for devices and orders: vertices are removed from a schedule and reinserted, or moved and simulated."""

from __future__ import annotations

from shardmark.instances.scheduling import Instance
from shardmark.solvers.registry import Run, solver
from shardmark.solvers.scheduling._kernels import Simulator
from shardmark.solvers.scheduling.schedules.annealing import begin, improve
from shardmark.solvers.scheduling.schedules.deadline import Deadline


@solver(
    track="scheduling", source="ours: moves of what is critical, annealed", deterministic=False, proves_bounds=False
)
def search(instance: Instance, run: Run) -> None:
    """Anneal HEFT's schedule by moving critical vertices; simulates moves if links are shared or memory is limited."""
    deadline = Deadline(run)
    best = begin(Simulator(instance), run)
    improve(best, deadline.remaining())
