"""The cheapest stage that can hold a node, for the node where that is most, as a lower bound."""

from __future__ import annotations

from instances.pipeline import Instance
from solvers.pipeline.programs.anchor import anchor
from solvers.pipeline.programs.incumbent import Bounds, capped, search_first
from solvers.pipeline.programs.stage_search import StageSearch, fit
from solvers.registry import Run, bound


@bound(track="pipeline", source="our own: minimum cuts over stages that hold a node", deterministic=False)
def anchored(instance: Instance, run: Run) -> None:
    """Bound the cost by that of the cheapest convex set of nodes around the node where that is greatest.

    Some stage holds that node, and is convex because the quotient graph has no cycle. Ignores the overflow. Reports
    the bound of Lemma 3.3 first, and the partitions of a short search, whose cost ends the search for sets.
    """
    instance = capped(instance)
    bounds = Bounds(instance, run)
    _, known = search_first(instance, run)
    if fit(instance, run) and instance.nodes:
        stage_search = StageSearch(instance, run)
        anchor(stage_search, stage_search.units(known.slicing.cost), bounds)
