"""How long what is left of a campaign will take, from the pace of what is done."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from harness.campaign.jobs import Job


@dataclass
class TimeRatio:
    """Seconds that jobs took, beside the seconds that their limits gave them."""

    taken: float = 0.0
    given: float = 0.0

    def add(self, taken: float, given: float) -> None:
        """Count a job."""
        self.taken += taken
        self.given += given

    def of(self, given: float, otherwise: float) -> float:
        """Seconds that jobs with these limits will take; ``otherwise`` as long as nothing is known."""
        return given * self.taken / self.given if self.given else otherwise


class Eta:
    """The seconds that the jobs of a campaign will take.

    A job takes the share of its limit that its solver took before: on its instance; else on any; else that all jobs
    took; else all of it. Every job that ends costs a time that grows with the number of solvers, not of jobs.
    """

    def __init__(self, jobs: Sequence[Job]) -> None:
        self.left = len(jobs)
        self.all = TimeRatio()
        self.solvers: dict[tuple[str, ...], TimeRatio] = {}
        self.cells: dict[tuple[str, ...], TimeRatio] = {}
        self.cell_left: dict[tuple[str, ...], float] = {}  # limits of the jobs that are left
        self.fresh: dict[tuple[str, ...], float] = {}  # those in cells without a job that ended, by solver
        self.known = 0.0  # what those in other cells will take
        for job in jobs:
            solver, cell = _solver(job), _cell(job)
            self.cell_left[cell] = self.cell_left.get(cell, 0.0) + job.limits.timeout_s
            self.fresh[solver] = self.fresh.get(solver, 0.0) + job.limits.timeout_s

    def ended(self, job: Job, taken: float) -> None:
        """Count a job that took so many seconds."""
        solver, cell, given = _solver(job), _cell(job), job.limits.timeout_s
        if cell in self.cells:
            self.known -= self.cells[cell].of(self.cell_left[cell], 0.0)
        else:
            self.cells[cell] = TimeRatio()
            self.fresh[solver] -= self.cell_left[cell]
        self.left -= 1
        self.cell_left[cell] -= given
        for share in (self.all, self.solvers.setdefault(solver, TimeRatio()), self.cells[cell]):
            share.add(taken, given)
        self.known += self.cells[cell].of(self.cell_left[cell], 0.0)

    def expected(self, job: Job) -> float:
        """Seconds that a job will take."""
        given = job.limits.timeout_s
        return self.cells.get(_cell(job), TimeRatio()).of(given, self._by_solver(_solver(job), given))

    def seconds_left(self, running: Sequence[tuple[Job, float]], slots: int) -> float:
        """Seconds until all is done in so many slots; ``running`` has each job under way and for how long it was."""
        if not self.left:
            return 0.0
        work = self.known + sum(self._by_solver(solver, given) for solver, given in self.fresh.items())
        rest = [self._rest(job, since) for job, since in running]
        work += sum(rest) - sum(self.expected(job) for job, _ in running)
        return max(0.0, work / max(1, min(slots, self.left)), *rest)

    def _rest(self, job: Job, since: float) -> float:
        """Seconds that a job under way will still take; one that is late as long again, at most up to its limit."""
        expected = self.expected(job)
        return expected - since if since < expected else max(0.0, min(since, job.limits.timeout_s - since))

    def _by_solver(self, solver: tuple[str, ...], given: float) -> float:
        return self.solvers.get(solver, TimeRatio()).of(given, self.all.of(given, given))


def _solver(job: Job) -> tuple[str, ...]:
    return job.solver.track, job.solver.name


def _cell(job: Job) -> tuple[str, ...]:
    return job.solver.track, job.solver.name, job.problem.checksum
