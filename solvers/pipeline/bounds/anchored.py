"""Lower bound: the cheapest stage around each node, maximised over the nodes."""

from __future__ import annotations

from shardmark.instances.pipeline import Instance
from shardmark.solvers.pipeline.programs.anchor import anchor
from shardmark.solvers.pipeline.programs.certificates.claims import anchored_at, certify, time_for_proof
from shardmark.solvers.pipeline.programs.incumbent import Bounds, capped, search_first
from shardmark.solvers.pipeline.programs.stage_search import StageSearch, fit
from shardmark.solvers.registry import Run, bound


@bound(track="pipeline", source="our own: minimum cuts over stages that hold a node", deterministic=False)
def anchored(instance: Instance, run: Run) -> None:
    """Find the cheapest convex set around each node; the most expensive of these is a bound.

    Every node is in some stage, which is convex because the quotient graph has no cycle. Ignores the overflow. First
    reports the bound of Lemma 3.3 and the partitions of a short search; sets that cost as much as the best of these are
    not searched.
    """
    claims = []
    with time_for_proof(run) as deadline:
        instance = capped(instance)
        bounds = Bounds(instance, run)
        _, known = search_first(instance, run)
        if fit(instance, run) and instance.nodes:
            stage_search = StageSearch(instance, run)
            _, node = anchor(stage_search, stage_search.units(known.slicing.cost), bounds)
            claims.append(anchored_at(instance, node, bounds.best))
    certify(run, instance, claims, deadline - 0.02 * run.remaining())
