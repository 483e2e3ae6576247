"""Searching devices and orders: vertices are taken out of a schedule and put back, or moved and simulated."""

from __future__ import annotations

from instances.scheduling import Instance
from solvers.registry import Run, solver
from solvers.scheduling._kernels import Simulator
from solvers.scheduling.schedules.annealing import begin, improve
from solvers.scheduling.schedules.deadline import Deadline


@solver(
    track="scheduling", source="ours: moves of what is critical, annealed", deterministic=False, proves_bounds=False
)
def search(instance: Instance, run: Run) -> None:
    """Begin with HEFT, put critical vertices where paths are shortest; simulate moves where links or memory count."""
    deadline = Deadline(run)
    best = begin(Simulator(instance), run)
    improve(best, deadline.remaining())
