"""Node weights that prove a bound which another method has found."""

from __future__ import annotations

from collections.abc import Iterator

from shardmark.instances.pipeline import Instance
from shardmark.solvers.pipeline.programs.certificates.cases import even_case
from shardmark.solvers.pipeline.programs.certificates.claims import AnyClaim, Claim, DividedClaim
from shardmark.solvers.pipeline.programs.cover import Cover
from shardmark.solvers.pipeline.programs.incumbent import Bounds, Incumbent, Known
from shardmark.solvers.pipeline.programs.set_pool import Place, SetPool
from shardmark.solvers.pipeline.programs.stage_search import BITS, MIDDLE, StageSearch, fit, spread_evenly
from shardmark.solvers.pipeline.search.orders import Search
from shardmark.solvers.pipeline.trees.stage_tree import StageTree
from shardmark.solvers.registry import Run

#: Most stages for which cases are divided by the stages of nodes.
MOST_DIVIDED = 8


def refuted(instance: Instance, run: Run, search: Search, known: Known, bound: float) -> Iterator[AnyClaim]:
    """Yield a claim that no partition costs less than ``bound``, if node weights are found that refute it.

    The order of the search is that of `StageTree`, with the bound as the only target.
    """
    if not (fit(instance, run) and instance.nodes and run.remaining() > 0):
        return
    stage_search = StageSearch(instance, run)
    target = stage_search.units(bound) + 2 * instance.nodes + 2  # more than rounding anywhere
    if target >= 2 << BITS:
        return  # most of the bound is the overflow, which no weights prove
    stage_search.bound_pairs(target)
    pool, start = SetPool(instance.nodes), spread_evenly(instance)
    if instance.stages > MOST_DIVIDED:
        cover = Cover(stage_search, run, [Place(MIDDLE, instance.stages)], start, 1.0, pool)
        if cover.prove(target) and cover.proof:
            weight, needs = cover.proof
            yield Claim(weight, [(place.closure, place.count, need) for place, need in needs], bound)
        return
    incumbent, root = Incumbent(stage_search, instance, search, known.core, target), even_case(instance)
    StageTree(incumbent, run, Bounds(instance, None), pool, step=1.0, failures=1).grow(start, 0, root)
    yield DividedClaim(root, bound)
