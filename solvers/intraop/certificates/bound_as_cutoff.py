"""Certificates of bounds whose engines cannot say why they hold: own branching, with the bound as cut-off."""

from __future__ import annotations

from shardmark.instances.intraop import Instance
from shardmark.solvers.intraop.certificates.moved_costs import moved_costs
from shardmark.solvers.intraop.network.memory import Timeline
from shardmark.solvers.intraop.search.attempt import BestBound
from shardmark.solvers.registry import Run


def certify_best(
    run: Run,
    best_bound: BestBound,
    instance: Instance,
    timeline: Timeline,
    until: float,
    multipliers: dict[int, float] | None = None,
) -> None:
    """If the run was asked for certificates, report the best bound again, with a proof as far as there is time.

    ``multipliers`` are prices of a byte from which the proof can begin, see `moved_costs`.
    """
    if run.certify:
        best_bound.certify(lambda: moved_costs(instance, timeline, multipliers or {}, best_bound.best, until))
