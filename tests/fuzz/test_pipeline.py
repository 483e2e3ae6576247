"""Every claim of ``pipeline`` against exact fractions; see ``tests/support/fuzz.py``."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from fractions import Fraction
from itertools import combinations, pairwise

import numpy as np
import pytest
from crosscheck.internals import pretend
from fuzz import LEAST, Attack, blocks
from numpy.typing import NDArray
from oracle_pipeline import Oracle, draw, draw_solution, judge, optimum

from shardmark.instances.pipeline import Instance
from shardmark.solvers.native import kahn
from shardmark.solvers.pipeline._kernels import Annealing, PipelineCore
from shardmark.solvers.pipeline._set_kernels import packed
from shardmark.solvers.pipeline.bounds.reweighted import reweighted
from shardmark.solvers.pipeline.bounds.windows import windows
from shardmark.solvers.pipeline.programs.incumbent import Bounds, Incumbent, capped, search_first
from shardmark.solvers.pipeline.programs.set_pool import SetPool
from shardmark.solvers.pipeline.programs.stage_search import FIRST, LAST, MOST_LISTED, StageSearch
from shardmark.solvers.pipeline.trees.set_search import SetSearch
from shardmark.solvers.pipeline.trees.set_tree import SetTree
from shardmark.solvers.registry import LocalRun

#: A cost above that of any set, in the units of `StageSearch`.
LIMIT = 2**52

ATTACK = Attack(
    "pipeline",
    draw,
    draw_solution,
    judge,
    optimum,
    seconds=1.0,
    every={"annealing": 500, "brkga-10000": 50, "mla": 100, "mla-weighted": 100}
    | {"random-1": 10, "random-100": 10, "random-10000": 10, "brkga-100": 10},
)


@blocks
def test_every_claim_holds(seeds: range) -> None:
    ATTACK.on(seeds)


@blocks
def test_no_set_is_cheaper_than_proven(seeds: range) -> None:
    """Terms of the bounds: the cheapest convex set that holds a node, or that weighs enough."""
    for seed in seeds:
        rng = random.Random(f"sets {seed}")
        instance = capped(replace(ATTACK.instance(seed), memory=None))
        if not instance.nodes:
            continue
        sets, units = convex_sets(instance), StageSearch(instance, LocalRun(timeout=60.0))
        weight = np.array([rng.choice([0, 1, 2, 2**40]) for _ in range(instance.nodes)])
        need = rng.randint(1, max(1, int(weight.sum())))
        heavy = units.cheapest(weight, need, LIMIT)
        asked = [(heavy, lambda members, w=weight, n=need: sum(w[v] for v in members) >= n)]
        asked += [(units.holding(v, LIMIT, 10**6), lambda members, v=v: v in members) for v in range(instance.nodes)]
        for found, counts in asked:
            least = min((cost for members, cost in sets.items() if counts(members)), default=None)
            assert least is None or Fraction(units.bound(found.proved)) <= least, (seed, instance)
            assert found.proved == found.cost


@blocks
def test_no_end_of_a_pipeline_is_cheaper_than_proven(seeds: range) -> None:
    """First stages hold all ancestors of their nodes, last ones all descendants; threads share a search for them."""
    for seed in seeds:
        rng = random.Random(f"ends {seed}")
        instance = capped(replace(ATTACK.instance(seed), memory=None))
        if not instance.nodes:
            continue
        sets, units = convex_sets(instance), StageSearch(instance, LocalRun(timeout=60.0, cores=rng.choice([1, 3])))
        if rng.random() < 0.3:
            units.bound_pairs(LIMIT)
        weight = np.array([rng.choice([0, 1, 2, 2**40]) for _ in range(instance.nodes)])
        need = rng.randint(1, max(1, int(weight.sum())))
        for place, required in ((FIRST, instance.graph.predecessors), (LAST, instance.graph.successors)):
            closed = (set_ for set_ in sets if all(set_.issuperset(required(v).tolist()) for v in set_))
            least = min((sets[set_] for set_ in closed if sum(weight[v] for v in set_) >= need), default=None)
            limit = LIMIT if least is None else int(least * Fraction(units.scale)) + rng.choice([-1, 1, 100])
            found = units.any_set(weight, need, max(1, limit), 60.0, place)
            assert least is None or Fraction(units.bound(found.proved)) <= least, (seed, instance)
            assert found.cost < max(1, limit) or found.proved == max(1, limit)


@blocks
def test_every_cheap_set_is_listed(seeds: range) -> None:
    for seed in seeds:
        rng = random.Random(f"lists {seed}")
        instance = capped(replace(ATTACK.instance(seed), memory=None))
        if not instance.nodes:
            continue
        sets, units = convex_sets(instance), StageSearch(instance, LocalRun(timeout=60.0, cores=rng.choice([1, 3])))
        weight = np.array([rng.choice([0, 1, 2, 2**40]) for _ in range(instance.nodes)])
        need = rng.randint(1, max(1, int(weight.sum())))
        heavy = {set_: cost for set_, cost in sets.items() if sum(weight[v] for v in set_) >= need}
        least = rng.choice([*heavy.values(), Fraction(1)])
        limit = max(1, min(LIMIT, int(least * Fraction(units.scale)) + rng.choice([-1, 1, 100])))
        if rng.random() < 0.3:
            units.bound_pairs(limit)
        found = units.list_sets(weight, need, limit, 60.0)
        listed = {frozenset(np.flatnonzero(row).tolist()) for row in found.member}
        assert found.proved == limit or len(found.cost) >= MOST_LISTED // 3, (seed, instance)
        assert all(set_ in heavy for set_ in listed), (seed, instance)
        if found.proved == limit:
            missing = (cost for set_, cost in heavy.items() if frozenset(set_) not in listed)
            assert all(Fraction(units.bound(limit)) <= cost for cost in missing), (seed, instance)


@blocks
def test_weights_prove_no_more_than_the_optimum(seeds: range, monkeypatch: pytest.MonkeyPatch) -> None:
    """Minimum cuts for two stages, sets of their own for the ends of a few, and one kind of set for more.

    The search knows the optimum of most small instances, and nothing tries to prove more than what is known.
    """
    for seed in seeds:
        rng = random.Random(f"weights {seed}")
        pretend(monkeypatch, rng.choice([1.0, 1.01, 1.3, 3.0]))
        monkeypatch.setattr("shardmark.solvers.pipeline.bounds.reweighted.EARLY_FINEST", rng.choice([0.02, math.inf]))
        monkeypatch.setattr("shardmark.solvers.pipeline.bounds.reweighted.MOST_DIVIDED", rng.choice([2, 8]))
        instance = draw(rng, most_nodes=7)
        instance = replace(instance, stages=rng.choice([2, 2, 3, 3, 4, 5, 8, 9, 2**31 - 1]))
        if rng.random() < 0.5:
            instance = replace(instance, memory=None)
        run = LocalRun(seed=seed, timeout=1.0, cores=rng.choice([1, 2]))
        reweighted(instance, run)
        assert Fraction(max(run.bounds)) <= optimum(instance), (seed, instance)


@blocks
def test_no_partition_into_refuted_sets_exists(seeds: range, monkeypatch: pytest.MonkeyPatch) -> None:
    """Branch and bound over all sets that cost less than a target; with few or no tests of pairs, or of candidates.

    Partitions that it finds do not end it, so greater targets keep it busy. All sets, or those of `SetSearch`.
    """
    monkeypatch.setattr(Incumbent, "slice", lambda *_: None)
    for seed in seeds:
        rng = random.Random(f"set tree {seed}")
        for name, values in (("MOST_PAIRED", (0, 3, 10_000)), ("ORDERS", (0, 1, 8)), ("PAIRS", (0, 1, 4))):
            monkeypatch.setattr(f"shardmark.solvers.pipeline.trees.set_tree.{name}", rng.choice(values))
        instance = replace(draw(rng, most_nodes=8), memory=None, stages=rng.choice([2, 3, 3, 4, 5, 6, 2**31 - 1]))
        if rng.random() < 0.6:
            columns = [np.array([rng.randint(0, 4) for _ in range(instance.nodes)], dtype=float) for _ in range(2)]
            instance = replace(instance, work=columns[0] + 1, output_size=columns[1], bandwidth=1.0)
        instance = capped(instance)
        if not instance.nodes:
            continue
        run, least = LocalRun(seed=seed, timeout=60.0, cores=rng.choice([1, 1, 2])), optimum(instance)
        units = StageSearch(instance, run)
        target = int(least * Fraction(units.scale) * rng.choice([1, 1, Fraction(11, 10), Fraction(3, 2)]))
        target = max(1, min(LIMIT, target + rng.choice([-100, 0, 1, 100, 1000])))
        search, known = search_first(instance, run)
        incumbent = Incumbent(units, instance, search, known.core, LIMIT)
        if rng.random() < 0.5:
            weights = np.array([rng.random() + 0.01 for _ in range(instance.nodes)])
            pool = SetPool(instance.nodes)
            proved = SetSearch(incumbent, run, Bounds(instance, run), pool, weights)._prove(target, 1.0)
        else:
            listed = units.list_sets(np.ones(instance.nodes, dtype=np.int64), 1, target, 60.0, most=10**4)
            below = packed(units.descendants() | np.eye(instance.nodes, dtype=bool))
            proved = SetTree(packed(listed.member), below, incumbent, target, 0.0).refute(run.cores)
        assert not proved or Fraction(units.bound(target)) <= least, (seed, instance)


@blocks
def test_windows_prove_no_more_than_the_optimum(seeds: range) -> None:
    """Mostly with little work, so that tensors decide, or with readers of equal work, which fill their stages."""
    for seed in seeds:
        rng = random.Random(f"windows {seed}")
        instance = draw(rng, most_nodes=7)
        instance = replace(instance, stages=rng.choice([2, 3, 3, 4, 5, 7, 2**31 - 1]))
        if rng.random() < 0.5:
            instance = replace(instance, work=instance.work * rng.choice([0.0, 0.01, 0.1, 1.0]))
        else:
            reads = np.bincount(instance.graph.head, minlength=instance.nodes) > 0
            size = np.array([rng.choice([0, 0, 1, 2, 5]) for _ in range(instance.nodes)], dtype=float)
            instance = replace(instance, work=10.0 * reads, output_size=size, bandwidth=1.0, memory=None)
        run = LocalRun(seed=seed, timeout=5.0)
        windows(instance, run)
        assert Fraction(max(run.bounds)) <= optimum(instance), (seed, instance)


@blocks
def test_searches_know_costs_up_to_the_rounding_of_the_largest_sum(seeds: range) -> None:
    """Costs of segments, slicings and annealed partitions, from running sums; no bound depends on them."""
    for seed in seeds:
        instance = ATTACK.instance(seed)
        order = kahn(instance.graph, np.random.default_rng(seed).random(instance.nodes))
        oracle, core = Oracle(instance), PipelineCore(instance)
        sizes = 3 * sum(oracle.size) + sum(oracle.params) + (oracle.memory or 0)
        owed = (sum(oracle.work) + sizes / oracle.bandwidth) / 10**14 + LEAST
        for right in range(instance.nodes + 1):
            for left, cost in enumerate(core.segment_costs(order, right).tolist()):
                assert abs(Fraction(cost) - run_cost(oracle, order[left:right])) <= owed, (seed, left, right)
        slicing = core.slice(order)
        assert slicing is not None
        moves = Annealing(moves=2000, seed=seed, hot=0.02, cold=0.001, margin=0.1, squared=True)
        for path, found in ((order, slicing), core.anneal(order, slicing.cut, moves, np.zeros(1, dtype=np.int32))):
            parts = [path[a:b] for a, b in pairwise(found.cut.tolist())]
            greatest = max((run_cost(oracle, part) for part in parts), default=Fraction())
            assert abs(Fraction(found.cost) - greatest) <= owed, seed


def run_cost(oracle: Oracle, order: NDArray[np.int32]) -> Fraction:
    """Return the cost of a stage whose nodes run in this order."""
    return oracle.stage_cost(order.tolist(), lambda _: oracle.peak_of(order.tolist()))


def convex_sets(instance: Instance) -> dict[frozenset[int], Fraction]:
    """Return the cost of each convex set of nodes."""
    oracle = Oracle(instance)
    below = {v: {v} for v in oracle.nodes}
    for v in reversed(instance.graph.topological_order.tolist()):
        below[v] = below[v].union(*(below[w] for w in oracle.after[v]))
    sets = (frozenset(some) for k in range(1, instance.nodes + 1) for some in combinations(oracle.nodes, k))
    return {
        members: oracle.stage_cost(members, oracle.least_peak)
        for members in sets
        if not any(
            v in below[u] and w in below[v] for u in members for w in members for v in set(oracle.nodes) - members
        )
    }
