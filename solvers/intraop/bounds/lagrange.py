"""Lagrangian lower bound: multipliers of memory on maximal live sets, inner problem bounded by message passing."""

from __future__ import annotations

import time

from shardmark.instances.intraop import Instance
from shardmark.solvers.intraop.certificates.bound_as_cutoff import certify_best
from shardmark.solvers.intraop.certificates.moved_costs import AFTER_ENGINE, bound_by_rounds, end_before_proof
from shardmark.solvers.intraop.cfn.lagrangian import Dual
from shardmark.solvers.intraop.network.memory import Timeline
from shardmark.solvers.intraop.network.reduced_problem import Problem
from shardmark.solvers.intraop.search.assignment import Search
from shardmark.solvers.intraop.search.attempt import BestBound, attempt_or_decline, decline_without_memory, reserve
from shardmark.solvers.registry import Run, bound

#: Part of the time for the first bound, which finds prices of memory and a solution.
FIRST = 0.7


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
    end = end_before_proof(run, deadline, AFTER_ENGINE)
    decline_without_memory(instance)
    timeline = Timeline.of(instance)
    best_bound = BestBound(run, instance.cheapest_parts())

    def attempt(*, tolerant: bool) -> bool:
        until = time.monotonic() + FIRST * (end - time.monotonic())
        problem = Problem.of(instance, timeline, tolerant=tolerant, until=until)
        if problem is None or time.monotonic() >= end:
            return problem is not None
        dual, shift = Dual(problem, problem.model.forbidden), problem.model.shift
        dual.climb(until, lambda: None if dual.closed else best_bound.offer(dual.bound << shift))
        if dual.closed:
            return False
        cutoff = _cost_below(dual, until)
        proof, proven = bound_by_rounds(instance, timeline, dual.multipliers, cutoff, end, best_bound.offer)
        if cutoff is None and proven >= proof["cutoff"]:
            return False
        best_bound.offer(proven)
        if run.certify and proven >= best_bound.best:
            best_bound.certify(lambda: proof)
        else:
            certify_best(run, best_bound, instance, timeline, deadline, dual.multipliers)
        return True

    attempt_or_decline(instance, run, timeline, best_bound, attempt, least_bad=False)


def _cost_below(dual: Dual, until: float) -> int | None:
    """Return the cost of an assignment that fits, rounded from the messages and rounded down; None if none is found."""
    problem = dual.problem
    search = Search(problem.footprint, dual.values())
    if not search.repair(until):
        return None
    search.descend(until)
    cost = problem.model.cost(search.value)
    return cost << problem.model.shift if cost < problem.model.forbidden else None
