"""Lower bounds from multipliers of memory on maximal live sets, the inner problem bounded by message passing."""

from __future__ import annotations

import math
import time

from instances.intraop import Instance
from solvers.intraop.cfn.lagrangian import Dual
from solvers.intraop.network.memory import Timeline
from solvers.intraop.network.reduced_problem import Problem
from solvers.intraop.search.assignment import Search
from solvers.intraop.search.attempt import BestBound, attempt_or_decline, decline_without_memory, reserve
from solvers.registry import Run, bound

#: Pruning is repeated while it leaves less than this fraction of the values.
WORTHWHILE = 0.98


@bound(
    track="intraop",
    source="Kolmogorov 2006 and Savchynskyy et al. 2012 for the inner problem; multipliers by Newton's method",
    deterministic=False,
)
def lagrange(instance: Instance, run: Run) -> None:
    """Raise a Lagrangian bound, each value computed from its multipliers and messages in exact integers.

    Where memory is too large for 64 bits it is left out. An instance without an assignment that fits, or with entries
    of 10^17 and more in every one that does, is declined with the time step or the edge that shows it; the latter
    where all other entries together cost less than 10^17, else those are costs like others.
    """
    end = run.deadline - reserve(run)
    decline_without_memory(instance)
    timeline = Timeline.of(instance)
    best_bound = BestBound(run, instance.cheapest_parts())

    def attempt(*, tolerant: bool) -> bool:
        problem = Problem.of(instance, timeline, tolerant=tolerant, until=end)
        return problem is not None and (time.monotonic() >= end or _Climb(best_bound, end).on(problem))

    attempt_or_decline(instance, run, timeline, best_bound, attempt, least_bad=False)


class _Climb:
    """Raises the bound of one problem after the other until a time."""

    def __init__(self, best_bound: BestBound, end: float) -> None:
        self._best_bound, self._end = best_bound, end

    def on(self, problem: Problem) -> bool:
        """Bound one problem as well as time allows; False if no assignment fits that has no forbidden entry."""
        top, before = problem.model.forbidden, math.inf
        dual = self._dual(problem, top, {})
        left = None if dual.closed else problem
        if left is not None:
            top = min(top, self._incumbent(dual))
        while left is not None and time.monotonic() < self._end and len(left.variable) < WORTHWHILE * before:
            before = len(left.variable)
            dual = self._dual(left, top, dual.multipliers)
            left = dual.prune()
        if left is None and top < problem.model.forbidden:
            self._best_bound.offer(top << problem.model.shift)  # nothing costs less than the assignment found
        return left is not None or top < problem.model.forbidden

    def _dual(self, problem: Problem, top: int, multipliers: dict[int, float]) -> Dual:
        """The bound of a problem that holds all assignments below ``top``."""
        dual = Dual(problem, top, multipliers)
        dual.climb(self._end, lambda: self._note(dual))
        self._note(dual)
        return dual

    def _note(self, dual: Dual) -> None:
        if dual.bound < dual.problem.model.forbidden:  # that nothing is left is no bound
            self._best_bound.offer(dual.bound << dual.problem.model.shift)

    def _incumbent(self, dual: Dual) -> int:
        """Cost of an assignment that fits, rounded from the messages; the forbidden cost if none is found."""
        problem = dual.problem
        search = Search(problem.footprint, dual.values())
        if not search.repair(self._end):
            return problem.model.forbidden
        search.descend(self._end)
        return problem.model.cost(search.value)
