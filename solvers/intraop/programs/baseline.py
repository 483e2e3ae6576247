"""Common frame of the exact baselines: a first solution, then the solutions and bounds of an engine."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterable
from itertools import chain
from threading import Lock

import numpy as np

from shardmark.instances.files.columns import Ints
from shardmark.instances.intraop import Instance
from shardmark.solvers.intraop.certificates.bound_as_cutoff import certify_best
from shardmark.solvers.intraop.certificates.moved_costs import AFTER_ENGINE, end_before_proof
from shardmark.solvers.intraop.network.memory import Timeline
from shardmark.solvers.intraop.network.model import build
from shardmark.solvers.intraop.network.reduced_problem import Problem
from shardmark.solvers.intraop.network.reduction import prepare
from shardmark.solvers.intraop.programs.integer_program import IntegerProgram
from shardmark.solvers.intraop.search.assignment import Search
from shardmark.solvers.intraop.search.attempt import (
    BestBound,
    attempt_or_decline,
    decline_without_memory,
    first_incumbent,
    reserve,
)
from shardmark.solvers.intraop.search.greedy import assignments
from shardmark.solvers.intraop.search.incumbent import Incumbent
from shardmark.solvers.registry import Run

#: Time reserved at the end, see `reserve`.
RESERVE = {"share": 0.03, "least": 0.6, "most": 3.0}
#: Largest fraction of the time for the first solution.
FIRST = 0.2
#: Largest fraction of the remaining time for writing an engine's program.
WRITING = 0.5
#: Columns or rows written between two checks of the clock.
CLOCK = 1000
#: An engine ends early if more than this fraction of its time is left.
EARLY = 0.1


class Task:
    """A problem for an engine, and the receiver of its results; thread-safe.

    ``start``  shape (v,): an assignment that fits and has no forbidden entry, None if none is known
    ``top``    the cost of ``start`` in the model, else ``model.forbidden``
    ``until``  value of `time.monotonic` by which the engine must end
    ``ended``  the final status of the engine; "" before the end
    """

    def __init__(
        self,
        run: Run,
        incumbent: Incumbent | None,
        best_bound: BestBound,
        problem: Problem,
        start: Ints | None,
        until: float,
    ) -> None:
        self.run, self.problem, self.start, self.until = run, problem, start, until
        self.top = problem.model.forbidden if start is None else problem.model.cost(start)
        self._incumbent, self._best_bound, self._lock, self.ended = incumbent, best_bound, Lock(), ""
        self._seconds = self.remaining()
        self._written_by = time.monotonic() + WRITING * self._seconds

    def remaining(self) -> float:
        """Seconds left."""
        return max(0.0, self.until - time.monotonic())

    def offer(self, value: Ints) -> None:
        """Report an assignment, shape (v,), repaired if it violates the limit within the engine's tolerances.

        Ignored if the method is a bound, which reports no solutions.
        """
        if self._incumbent is None:
            return
        if (self.problem.overload(value) > 0).any():
            search = Search(self.problem.footprint, value)
            search.repair(self.until)
            value = search.value
        with self._lock:
            self._incumbent.offer(self.problem.model.lift(self.problem.instance, value))

    def prove(self, bound: int) -> None:
        """Report a bound, in costs of the model, on fitting assignments that cost less than ``top``.

        Ignored if memory is rounded up, or if the bound is the forbidden cost.
        """
        model, bound = self.problem.model, min(bound, self.top)
        if self.problem.timeline.exact and bound < model.forbidden:
            with self._lock:
                self._best_bound.offer(bound << model.shift)

    def program(self, bytes_an_entry: int) -> IntegerProgram | None:
        """The program; None, with a line on stderr, if it exceeds memory or there is no time to write it."""
        if self.late():
            return None
        program = IntegerProgram.of(self.problem)
        if program.entries * bytes_an_entry <= self.run.memory * 2**20:
            return program
        print(f"a program of {program.entries} entries does not fit into {self.run.memory:.0f} MiB", file=sys.stderr)
        return None

    def explain(self) -> None:
        """Explain on stderr why an engine ended early without proving an optimum."""
        open_ = self._incumbent is not None and self._best_bound.best < self._incumbent.cost
        if self.ended and open_ and self.remaining() > EARLY * self._seconds:
            early = f"ended {self.remaining():.1f} s early without a proof"
            print(f"{early}, the engine's word for it: {self.ended}", file=sys.stderr)

    def late(self) -> bool:
        """True, with a line on stderr, if writing the program takes too long."""
        if time.monotonic() < self._written_by:
            return False
        print("the program takes too long to write: not solved", file=sys.stderr)
        return True

    def write(self, *parts: Iterable[object]) -> bool:
        """Exhaust iterators that write a column or row each; False if that takes too long."""
        return not any(number % CLOCK == 0 and self.late() for number, _ in enumerate(chain(*parts)))


Engine = Callable[[Task], bool]


def solve(instance: Instance, run: Run, engine: Engine, *, reduced: bool) -> None:
    """Report a greedy solution, then the results of an engine on the instance, reduced or not.

    The engine returns False if it has proved that every fitting assignment has a forbidden entry: one of 10^17 or more
    if all others together cost less. Such instances, and those that lack memory, are declined, naming the edge or the
    time step, after a search for the least bad assignment. If an assignment is known, that claim of the engine is
    ignored.
    """
    deadline = run.deadline - reserve(run, **RESERVE)
    until = end_before_proof(run, deadline, AFTER_ENGINE)
    timeline = Timeline.of(instance)
    incumbent = first_incumbent(instance, run, timeline)
    best_bound = BestBound(run, instance.cheapest_parts())

    def attempt(*, tolerant: bool) -> bool:
        small = prepare(instance, timeline, tolerant=tolerant, until=until)
        if small is None:
            return False
        problem = Problem(instance, timeline, small)
        start = _first(problem, until, lambda value: incumbent.offer(small.lift(instance, value)))
        if time.monotonic() >= until:
            return True
        if not reduced:
            start = small.lift(instance, start)
            known = None if incumbent.excess else incumbent.cost
            whole = build(instance, np.zeros(len(timeline.usage), dtype=bool), tolerant=tolerant, known=known)
            problem = Problem(instance, timeline, whole)
        task = Task(run, incumbent, best_bound, problem, start if _fits(problem, start) else None, until)
        possible = engine(task) or task.start is not None
        task.explain()
        if possible:
            certify_best(run, best_bound, instance, timeline, deadline)
        return possible

    attempt_or_decline(instance, run, timeline, best_bound, attempt, least_bad=True)


def prove(instance: Instance, run: Run, engine: Engine) -> None:
    """Report the bounds of an engine on the reduced network; a greedy solution only provides its cutoff.

    Instances that lack memory, or whose forbidden entries cannot be avoided, are declined as by `solve`.
    """
    deadline = run.deadline - reserve(run, **RESERVE)
    until = end_before_proof(run, deadline, AFTER_ENGINE)
    timeline = Timeline.of(instance)
    decline_without_memory(instance)
    best_bound = BestBound(run, instance.cheapest_parts())

    def attempt(*, tolerant: bool) -> bool:
        problem = Problem.of(instance, timeline, tolerant=tolerant, until=until)
        if problem is None:
            return False
        start = _first(problem, until)
        if time.monotonic() >= until:
            return True
        task = Task(run, None, best_bound, problem, start if _fits(problem, start) else None, until)
        possible = engine(task) or task.start is not None
        if possible:
            certify_best(run, best_bound, instance, timeline, deadline)
        return possible

    attempt_or_decline(instance, run, timeline, best_bound, attempt, least_bad=False)


def _fits(problem: Problem, value: Ints) -> bool:
    """True if an assignment keeps the memory limit and has no forbidden entry."""
    return bool((problem.overload(value) <= 0).all()) and problem.model.cost(value) < problem.model.forbidden


def _first(problem: Problem, until: float, note: Callable[[Ints], object] = lambda _: None) -> Ints:
    """The best assignment of `greedy` in a part of the time; it need not fit. ``note`` is called with every one."""
    best, worth = np.zeros(problem.model.variables, dtype=np.int64), (math.inf, 0)
    for value in assignments(problem.footprint, time.monotonic() + FIRST * (until - time.monotonic())):
        note(value)
        now = (max(0, int(problem.overload(value).max(initial=0))), problem.model.cost(value))
        if now < worth:
            best, worth = value, now
    return best
