"""Estimate of the time left in a campaign, from the time that finished jobs took."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from harness.campaign.jobs import Job


@dataclass
class TimeRatio:
    """Seconds that jobs took relative to the seconds of their limits."""

    taken: float = 0.0
    limit: float = 0.0

    def add(self, taken: float, limit: float) -> None:
        """Count a job."""
        self.taken += taken
        self.limit += limit

    def estimate(self, limit: float, default: float) -> float:
        """Return the seconds that jobs with this sum of limits will take; ``default`` if no job was counted."""
        return limit * self.taken / self.limit if self.limit else default


class Eta:
    """Estimates the time left in a campaign.

    A job is expected to take the same share of its limit as finished jobs of the same cell (solver and instance), else
    of the same solver, else of any solver, else its whole limit. An update takes a time proportional to the number of
    solvers, not of jobs.
    """

    def __init__(self, jobs: Sequence[Job]) -> None:
        self.left = len(jobs)
        self.all = TimeRatio()
        self.solvers: dict[tuple[str, ...], TimeRatio] = {}
        self.cells: dict[tuple[str, ...], TimeRatio] = {}
        self.cell_left: dict[tuple[str, ...], float] = {}  # seconds of the limits of the jobs left
        self.fresh: dict[tuple[str, ...], float] = {}  # the same in cells without a finished job, by solver
        self.known = 0.0  # seconds that the jobs left in other cells will take
        for job in jobs:
            solver, cell = _solver(job), _cell(job)
            self.cell_left[cell] = self.cell_left.get(cell, 0.0) + job.limits.timeout_s
            self.fresh[solver] = self.fresh.get(solver, 0.0) + job.limits.timeout_s

    def ended(self, job: Job, taken: float) -> None:
        """Count a job that took ``taken`` seconds."""
        solver, cell, limit = _solver(job), _cell(job), job.limits.timeout_s
        if cell in self.cells:
            self.known -= self.cells[cell].estimate(self.cell_left[cell], 0.0)
        else:
            self.cells[cell] = TimeRatio()
            self.fresh[solver] -= self.cell_left[cell]
        self.left -= 1
        self.cell_left[cell] -= limit
        for ratio in (self.all, self.solvers.setdefault(solver, TimeRatio()), self.cells[cell]):
            ratio.add(taken, limit)
        self.known += self.cells[cell].estimate(self.cell_left[cell], 0.0)

    def expected(self, job: Job) -> float:
        """Return the seconds that a job is expected to take."""
        limit = job.limits.timeout_s
        return self.cells.get(_cell(job), TimeRatio()).estimate(limit, self._by_solver(_solver(job), limit))

    def seconds_left(self, running: Sequence[tuple[Job, float]], slots: int) -> float:
        """Return the seconds until all jobs are done; ``running`` has each job under way and its seconds so far."""
        if not self.left:
            return 0.0
        work = self.known + sum(self._by_solver(solver, limit) for solver, limit in self.fresh.items())
        rest = [self._rest(job, since) for job, since in running]
        work += sum(rest) - sum(self.expected(job) for job, _ in running)
        return max(0.0, work / max(1, min(slots, self.left)), *rest)

    def _rest(self, job: Job, since: float) -> float:
        """Return the seconds left of a job under way; if it is late, as long again, at most up to its limit."""
        expected = self.expected(job)
        return expected - since if since < expected else max(0.0, min(since, job.limits.timeout_s - since))

    def _by_solver(self, solver: tuple[str, ...], limit: float) -> float:
        return self.solvers.get(solver, TimeRatio()).estimate(limit, self.all.estimate(limit, limit))


def _solver(job: Job) -> tuple[str, ...]:
    return job.solver.track, job.solver.name


def _cell(job: Job) -> tuple[str, ...]:
    return job.solver.track, job.solver.name, job.problem.checksum
