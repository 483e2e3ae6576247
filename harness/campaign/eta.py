"""Estimates the time left in a campaign from the times of finished jobs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from shardmark.harness.campaign.jobs import Job


Key = tuple[str, ...]  # of a cell (track, solver, instance), a solver (track, solver), or all jobs ()


class Eta:
    """Estimates the time left in a campaign.

    A job is expected to take the same share of its limit as finished jobs of the same cell (solver and instance), else
    of the same solver, else of any solver, else its whole limit. An update takes time proportional to the number of
    solvers, not of jobs.
    """

    def __init__(self, jobs: Sequence[Job]) -> None:
        self.left = len(jobs)
        self.taken = defaultdict[Key, float](float)  # seconds that the finished jobs took
        self.limits = defaultdict[Key, float](float)  # seconds of their limits
        self.cell_left = defaultdict[Key, float](float)  # seconds of the limits of the jobs left
        self.fresh = defaultdict[Key, float](float)  # the same in cells without a finished job, by solver
        self.known = 0.0  # seconds that the jobs left in other cells will take
        for job in jobs:
            self.cell_left[_cell(job)] += job.limits.timeout_s
            self.fresh[_solver(job)] += job.limits.timeout_s

    def ended(self, job: Job, taken: float) -> None:
        """Count a job that took ``taken`` seconds."""
        solver, cell, limit = _solver(job), _cell(job), job.limits.timeout_s
        if cell in self.taken:
            self.known -= self._estimate(self.cell_left[cell], cell)
        else:
            self.fresh[solver] -= self.cell_left[cell]
        self.left -= 1
        self.cell_left[cell] -= limit
        for key in ((), solver, cell):
            self.taken[key] += taken
            self.limits[key] += limit
        self.known += self._estimate(self.cell_left[cell], cell)

    def expected(self, job: Job) -> float:
        """Return the seconds that a job is expected to take."""
        return self._estimate(job.limits.timeout_s, _cell(job), _solver(job), ())

    def seconds_left(self, running: Sequence[tuple[Job, float]], slots: int) -> float:
        """Return the seconds until all jobs are done; ``running`` has each job under way and its seconds so far."""
        if not self.left:
            return 0.0
        work = self.known + sum(self._estimate(limit, solver, ()) for solver, limit in self.fresh.items())
        rest = [self._rest(job, elapsed) for job, elapsed in running]
        work += sum(rest) - sum(self.expected(job) for job, _ in running)
        return max(0.0, work / max(1, min(slots, self.left)), *rest)

    def _rest(self, job: Job, elapsed: float) -> float:
        """Return the seconds left of a job under way; if it is late, as long again, at most up to its limit."""
        expected = self.expected(job)
        return expected - elapsed if elapsed < expected else max(0.0, min(elapsed, job.limits.timeout_s - elapsed))

    def _estimate(self, limit: float, *keys: Key) -> float:
        """Return the seconds expected for a sum of limits, from the first of the keys with finished jobs."""
        known = next((key for key in keys if key in self.taken), None)
        return limit if known is None else limit * self.taken[known] / self.limits[known]


def _solver(job: Job) -> Key:
    return job.solver.track, job.solver.name


def _cell(job: Job) -> Key:
    return (*_solver(job), job.problem.checksum)
