"""Native method: exact reduction, Lagrangian bounds by message passing, integer programs of the remaining parts."""

from __future__ import annotations

from shardmark.instances.intraop import Instance
from shardmark.solvers.intraop.certificates.moved_costs import AFTER_SEARCH, end_before_proof, moved_costs
from shardmark.solvers.intraop.cfn.portfolio import Portfolio
from shardmark.solvers.intraop.network.memory import Timeline
from shardmark.solvers.intraop.network.reduced_problem import Problem
from shardmark.solvers.intraop.search.attempt import BestBound, attempt_or_decline, first_incumbent, reserve
from shardmark.solvers.registry import Run, solver


@solver(
    track="intraop",
    source="Kolmogorov 2006 and Applegate et al. 1995 for the bounds; Perron and Didier, CP-SAT, for the rest",
    deterministic=False,
)
def cfn_native(instance: Instance, run: Run) -> None:
    """Branch and bound on the exactly reduced network: Lagrangian bounds, message passing, CP-SAT for small parts.

    Declines an instance, naming the time step or the edge, if nothing fits, or if everything that fits has an entry of
    10^17 or more although all other entries together cost less; first reports the least bad assignment.
    """
    deadline = run.deadline - reserve(run, least=0.35)
    end = end_before_proof(run, deadline, AFTER_SEARCH)
    timeline = Timeline.of(instance)
    incumbent = first_incumbent(instance, run, timeline)
    best_bound = BestBound(run, instance.cheapest_parts())

    def attempt(*, tolerant: bool) -> bool:
        problem = Problem.of(instance, timeline, tolerant=tolerant, until=end)
        if problem is None:
            return False
        portfolio = Portfolio(run, incumbent, problem, best_bound=best_bound, end=end)
        if not portfolio.solve():
            return False
        if run.certify:
            prices, cutoff = portfolio.state.multipliers, None if incumbent.excess else incumbent.cost
            best_bound.certify(lambda: moved_costs(instance, timeline, prices, cutoff, deadline))
        return True

    attempt_or_decline(instance, run, timeline, best_bound, attempt, least_bad=True)
