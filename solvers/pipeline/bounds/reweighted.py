"""The bottleneck relaxation with optimised node weights instead of the work, as a lower bound."""

from __future__ import annotations

import numpy as np

from shardmark.instances.pipeline import Instance
from shardmark.solvers.pipeline.programs.anchor import anchor
from shardmark.solvers.pipeline.programs.certificates.cases import Case, even_case
from shardmark.solvers.pipeline.programs.certificates.claims import (
    AnyClaim,
    Claim,
    DividedClaim,
    anchored_at,
    certify,
    time_for_proof,
)
from shardmark.solvers.pipeline.programs.contraction import contracted
from shardmark.solvers.pipeline.programs.cover import Cover
from shardmark.solvers.pipeline.programs.helper_search import of_all_stages, search_stages
from shardmark.solvers.pipeline.programs.incumbent import Bounds, Incumbent, capped, search_first
from shardmark.solvers.pipeline.programs.set_pool import Place, SetPool
from shardmark.solvers.pipeline.programs.stage_search import FIRST, LAST, MIDDLE, fit, spread_evenly
from shardmark.solvers.pipeline.trees.set_search import SetSearch
from shardmark.solvers.pipeline.trees.stage_tree import StageTree
from shardmark.solvers.registry import Run, bound

#: Share of the remaining time for annealing partitions after the first target that fails, but no longer than earlier
#: targets took (96 nodes, 4 and 8 stages: costs fall by 0.5 to 1.2 %).
ANNEALING = 0.1

#: Share of the time left that one target may take.
PATIENCE = 0.25

#: The same for one of two stages.
HALVES_PATIENCE = 0.4

#: Most stages for which the first and the last stage are searched separately; with 16, three searches cost more than
#: they gain (100 nodes, 5 s of processor time: 62.6 % of the gap closed instead of 66.2 %).
MOST_PLACED = 8

#: Largest number of stages for which a `StageTree` divides the partitions after the ascent; for more, a `SetSearch`.
MOST_DIVIDED = 8

#: Largest number of stages for which the ascent ends early for a `StageTree`; with 8, the leaves would take time that
#: the ascent needs (84 to 95 nodes, 40 s of processor time: 0.1 to 0.9 % less of the gap closed).
MOST_ENDED_EARLY = 4

#: First distance of a target above the bound, as a share of the gap.
STEP = 0.06

#: Factor by which the step grows after a proof that found fewer than ``FEW_SETS`` new sets.
GROWTH, FEW_SETS = 1.3, 5

#: Least step, as a share of the first: by default; if the ascent ends early for a `StageTree`; for two stages.
FINEST, EARLY_FINEST, HALVES_FINEST = 1e-3, 0.02, 1e-4


@bound(track="pipeline", source="our own: Archer et al. 2024, Section 3.2, with optimised weights", deterministic=False)
def reweighted(instance: Instance, run: Run) -> None:
    """Like bottleneck, under node weights that are optimised instead of the work.

    Give every node a weight, and every stage a share, such that the shares add up to the total weight. Then some stage
    weighs at least its share, so the cheapest set that does so is a bound; with the work as weight and equal shares it
    is the relaxation of Section 3.2. Sets are convex; if stages are few, a first stage must contain all ancestors of
    its nodes, and a last stage all descendants. The best weights are the dual of covering the nodes with a first, a
    last and k - 2 other sets that cost less than a target: branch and bound over minimum cuts lists the sets below the
    target that weigh enough, and a linear program moves the weights away from them until there is none, which proves
    the target. For two stages, work and equal shares are already exact: the stage that does more work also costs more.
    For three to eight stages, once no weights raise the bound further, partitions are divided by the stages of their
    nodes; see `StageTree`. For more stages, they are divided by the order of nodes, over a list of all possible stages;
    see `SetSearch`. All cores search.

    No engine needs to be trusted: any weights prove a bound, so GLOP, which solves the linear programs, only proposes
    them. They are rounded to integers, and each proof is computed from these alone.

    Ignores the overflow. Nodes that some optimal partition keeps together are merged first
    (`shardmark.solvers.pipeline.programs.contraction`), and the tensors of an operator are in its set
    (`shardmark.solvers.pipeline.programs.helper_search`). First reports the bound of Lemma 3.3. Also reports
    partitions: from a short search, from a longer one once a target fails, and from the trees.
    """
    with time_for_proof(run) as deadline:
        merged, inner, kept = contracted(capped(instance), run)
        claims = _bound(merged, inner)
    of_all = [claim.spread(kept, instance.nodes) for claim in claims]
    certify(run, instance, of_all, deadline - 0.02 * run.remaining())


def _bound(instance: Instance, run: Run) -> list[AnyClaim]:
    """Report bounds and partitions; return why some of the bounds hold."""
    bounds, claims = Bounds(instance, run), list[AnyClaim]()
    search, known = search_first(instance, run)
    if not (fit(instance, run) and instance.nodes and run.remaining() > 0):
        return claims
    stage_search = search_stages(instance, run)
    limit = stage_search.units_below(known.slicing.cost)
    anchored, node = anchor(stage_search, limit, bounds, rounds=1)
    proved = max(stage_search.units(bounds.best), anchored)
    claims.append(anchored_at(instance, node, bounds.best))
    stage_search.bound_pairs(limit)
    incumbent = Incumbent(stage_search, instance, search, known.core, limit)
    if instance.stages == 2:
        _halve(incumbent, proved, bounds)
        half = max(1, -(-int(stage_search.work.sum()) // 2))
        claims.append(Claim(stage_search.work, [(FIRST, 1, half), (LAST, 1, half)], bounds.best))
        return of_all_stages(claims, stage_search)
    finest = EARLY_FINEST if instance.stages <= MOST_ENDED_EARLY else FINEST
    pool = SetPool(instance.nodes)
    cover = Cover(stage_search, run, _places(instance.stages), spread_evenly(instance), PATIENCE, pool)
    proved = _ascend(cover, proved, incumbent, bounds, finest)
    if cover.proof:
        weight, needs = cover.proof
        claims.append(Claim(weight, [(place.closure, place.count, need) for place, need in needs], bounds.best))
    if instance.stages <= MOST_DIVIDED:
        root = Case(*cover.needs()) if cover.proof else even_case(instance)
        StageTree(incumbent, run, bounds, pool).grow(cover.center, proved, root)
        claims.append(DividedClaim(root, bounds.best))
    else:
        SetSearch(incumbent, run, bounds, pool, cover.center).climb(proved)
    return of_all_stages(claims, stage_search)


def _halve(incumbent: Incumbent, known: int, bounds: Bounds) -> None:
    """Find the cheapest partition into two stages; the one with at least half of the work costs no less than the other.

    No partition costs less than ``known``, in the units of `StageSearch`.
    """
    stage_search, work = incumbent.stage_search, incumbent.stage_search.work
    half = max(1, -(-int(work.sum()) // 2))
    proved = dict.fromkeys((FIRST, LAST) if work.any() else (), known)
    step = (incumbent.limit - known) / 2
    finest = HALVES_FINEST * step
    while proved and known < incumbent.limit and step > finest and not stage_search.over():
        target = min(incumbent.limit, known + max(1, int(step)))
        place = min(proved, key=lambda place: proved[place])
        found = stage_search.any_set(work, half, target, HALVES_PATIENCE * stage_search.left(), place)
        if found.cost < target:
            incumbent.slice(np.where(found.member, place, 0))
            step /= 1 if incumbent.limit < target else 2  # 2: only by rounding
            continue
        proved[place] = max(proved[place], found.proved)
        if found.proved < target:
            step /= 2
        known = min(proved.values())
        bounds.offer(stage_search.bound(known))


def _ascend(cover: Cover, proved: int, incumbent: Incumbent, bounds: Bounds, finest: float) -> int:
    """Prove ever greater targets; return the last one.

    Steps shrink after a failure. The ascent ends when a step as small as the share ``finest`` of the first fails
    although there was time: no weights refute its target. A target may also fail because its time ran out; its sets
    help the next one, so it is tried again, with more time if the step is already the finest.
    """
    began = cover.run.remaining()
    step = STEP * (incumbent.limit - proved)
    finest *= step
    annealed = False
    while proved < incumbent.limit and step > finest and not cover.stage_search.over():
        known = len(cover.pool)
        target = min(incumbent.limit, proved + max(1, int(step)))
        if cover.prove(target):
            proved = target
            bounds.offer(cover.stage_search.bound(target))
            step *= GROWTH if len(cover.pool) < known + FEW_SETS else 1.0
            continue
        if not annealed:
            left = cover.run.remaining()
            incumbent.anneal(cover.run, min(ANNEALING, (began - left) / max(left, 1e-9)))
            annealed = True
        step = min(step, target - proved) / 2
        if not cover.stuck and step <= finest:
            step, cover.patience = 2 * finest, min(1.0, 2 * cover.patience)
    return proved


def _places(stages: int) -> list[Place]:
    if stages > MOST_PLACED:
        return [Place(MIDDLE, stages)]
    return [Place(MIDDLE, stages - 2), Place(FIRST, 1), Place(LAST, 1)] if stages > 2 else [Place(MIDDLE, stages)]
