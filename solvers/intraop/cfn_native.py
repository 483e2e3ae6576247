"""Our own method: exact reduction, Lagrangian bounds by message passing, the integer program of what they leave."""

from __future__ import annotations

from instances.intraop import Instance
from solvers.intraop.cfn.portfolio import Native
from solvers.intraop.network.memory import Timeline
from solvers.intraop.network.reduced_problem import Problem
from solvers.intraop.search.attempt import Claims, attempt_or_decline, first_record, reserve
from solvers.registry import Run, solver


@solver(
    track="intraop",
    source="Kolmogorov 2006 for the bounds; Perron and Didier, CP-SAT, and Huangfu and Hall 2018, HiGHS, for the rest",
    deterministic=False,
)
def cfn_native(instance: Instance, run: Run) -> None:
    """Reduce exactly, bound by multipliers and message passing, and solve what bounds leave as an integer program.

    An instance without an assignment that fits, or with entries of 10^17 and more in every one that does, is declined
    with the time step or the edge that shows it, after the least bad assignment has been reported; the latter where all
    other entries together cost less than 10^17, else those are costs like others.
    """
    end = run.deadline - reserve(run, least=0.35)
    timeline = Timeline.of(instance)
    record = first_record(instance, run, timeline)
    claims = Claims(run, instance.cheapest_parts())

    def attempt(*, tolerant: bool) -> bool:
        problem = Problem.of(instance, timeline, tolerant=tolerant, until=end)
        return problem is not None and Native(run, record, problem, claims=claims, end=end).solve()

    attempt_or_decline(instance, run, timeline, claims, attempt, least_bad=True)
