"""Lower bound without the memory limit: the least cost of the network that toulbar2 can prove."""

from __future__ import annotations

import time

import numpy as np

from shardmark.instances.intraop import Instance
from shardmark.solvers.intraop.certificates.bound_as_cutoff import certify_best
from shardmark.solvers.intraop.certificates.moved_costs import AFTER_ENGINE, end_before_proof
from shardmark.solvers.intraop.network.memory import Timeline
from shardmark.solvers.intraop.network.model import Model
from shardmark.solvers.intraop.network.reduction import prepare
from shardmark.solvers.intraop.programs.toulbar2 import bounded
from shardmark.solvers.intraop.programs.toulbar2_network import Network, Status
from shardmark.solvers.intraop.search.attempt import BestBound
from shardmark.solvers.registry import Run, bound

#: Seconds reserved at the end for the child to answer.
RESERVE = 0.2


@bound(
    track="intraop",
    name="cfn-relaxed",
    source="Soft Constraints, Strong Solutions, Equation (5) with multipliers of zero",
    deterministic=False,
)
def cfn_relaxed(instance: Instance, run: Run) -> None:
    """Minimise the cost without the memory limit, over strategies that could fit (toulbar2).

    A minimum that keeps the limit is reported as a solution. toulbar2 computes its bounds in integers; its search is
    not checked.
    """
    end = run.deadline - RESERVE
    until = end_before_proof(run, end, AFTER_ENGINE)
    best_bound, timeline = BestBound(run, instance.cheapest_parts()), Timeline.of(instance)
    for tolerant in (False, True):
        model = prepare(instance, timeline, tolerant=tolerant)
        if model is not None and _bound(instance, run, timeline, model, best_bound, until):
            certify_best(run, best_bound, instance, timeline, end)
            return


def _bound(instance: Instance, run: Run, timeline: Timeline, model: Model, best_bound: BestBound, until: float) -> bool:
    """Report improving bounds; False if the model has no assignment.

    A forbidden entry costs more than any assignment without one, so the bound holds for all solutions.
    """
    network, nothing = Network(model), np.zeros(len(model.unary), dtype=np.int64)
    for found in bounded(network, nothing, lambda: until - time.monotonic(), RESERVE / 2):
        if found.status == Status.IMPOSSIBLE:
            return False
        best_bound.offer(-(-found.bound // network.scale) << model.shift)  # whole costs: round up
        if found.status == Status.OPTIMAL and found.value is not None:
            strategy = model.lift(instance, found.value)
            usage = timeline.usage[instance.strategy_start[:-1] + strategy]
            if (timeline.profile(usage) <= timeline.limit).all():
                run.report(strategy.tolist())
    return True
