"""Lagrangian lower bound: multipliers of memory on maximal live sets, inner problem bounded by message passing."""

from __future__ import annotations

import math
import time

from shardmark.instances.intraop import Instance
from shardmark.solvers.intraop.cfn.lagrangian import Dual
from shardmark.solvers.intraop.cfn.moved_costs import moved_costs, search_end
from shardmark.solvers.intraop.network.memory import Timeline
from shardmark.solvers.intraop.network.reduced_problem import Problem
from shardmark.solvers.intraop.search.assignment import Search
from shardmark.solvers.intraop.search.attempt import BestBound, attempt_or_decline, decline_without_memory, reserve
from shardmark.solvers.registry import Run, bound

#: Pruning is repeated as long as it leaves less than this fraction of the values.
WORTHWHILE = 0.98


@bound(
    track="intraop",
    source="Kolmogorov 2006 and Savchynskyy et al. 2012 for the inner problem; multipliers by Newton's method",
    deterministic=False,
)
def lagrange(instance: Instance, run: Run) -> None:
    """Maximise a Lagrangian bound over memory multipliers and messages, in exact integers.

    Memory too large for 64 bits is relaxed. Declines an instance, naming the time step or the edge, if nothing fits, or
    if everything that fits has an entry of 10^17 or more although all other entries together cost less.
    """
    deadline = run.deadline - reserve(run)
    end = search_end(run, deadline)
    decline_without_memory(instance)
    timeline = Timeline.of(instance)
    best_bound = BestBound(run, instance.cheapest_parts())

    def attempt(*, tolerant: bool) -> bool:
        problem = Problem.of(instance, timeline, tolerant=tolerant, until=end)
        if problem is None or time.monotonic() >= end:
            return problem is not None
        climb = _Climb(best_bound, end)
        if not climb.on(problem):
            return False
        if run.certify:
            best_bound.certify(lambda: moved_costs(instance, timeline, climb.multipliers, climb.cutoff, deadline))
        return True

    attempt_or_decline(instance, run, timeline, best_bound, attempt, least_bad=False)


class _Climb:
    """Raises the bounds of successively pruned problems until the time ``end``."""

    def __init__(self, best_bound: BestBound, end: float) -> None:
        self._best_bound, self._end = best_bound, end
        self.multipliers: dict[int, float] = {}
        self.cutoff: int | None = None

    def on(self, problem: Problem) -> bool:
        """Bound a problem within the time left; False if every assignment that fits has a forbidden entry."""
        top, before = problem.model.forbidden, math.inf
        dual = self._dual(problem, top, {})
        left = None if dual.closed else problem
        if left is not None:
            top = min(top, self._incumbent(dual))
        while left is not None and time.monotonic() < self._end and len(left.variable) < WORTHWHILE * before:
            before = len(left.variable)
            dual = self._dual(left, top, dual.multipliers)
            left = dual.prune()
        self.multipliers = dual.multipliers
        if top < problem.model.forbidden:
            self.cutoff = top << problem.model.shift
        if left is None and top < problem.model.forbidden:
            self._best_bound.offer(top << problem.model.shift)  # nothing costs less than the assignment found
        return left is not None or top < problem.model.forbidden

    def _dual(self, problem: Problem, top: int, multipliers: dict[int, float]) -> Dual:
        """Bound a problem that contains all assignments below ``top``."""
        dual = Dual(problem, top, multipliers)
        dual.climb(self._end, lambda: self._note(dual))
        self._note(dual)
        return dual

    def _note(self, dual: Dual) -> None:
        if dual.bound < dual.problem.model.forbidden:  # an empty problem proves no bound
            self._best_bound.offer(dual.bound << dual.problem.model.shift)

    def _incumbent(self, dual: Dual) -> int:
        """Cost of an assignment that fits, rounded from the messages; the forbidden cost if none is found."""
        problem = dual.problem
        search = Search(problem.footprint, dual.values())
        if not search.repair(self._end):
            return problem.model.forbidden
        search.descend(self._end)
        return problem.model.cost(search.value)
