"""Searches for cheap convex sets against all subsets, one by one; the bounds that rest on them."""

from __future__ import annotations

from itertools import pairwise, product
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from crosscheck.internals import pretend
from effort import draws, some_of

from shardmark.harness.verify import verify
from shardmark.instances.graph import Graph
from shardmark.instances.pipeline import Instance
from shardmark.solvers.pipeline._set_kernels import SHARED, CheapestSet, SetCosts, SetList
from shardmark.solvers.pipeline.bounds.anchored import anchored
from shardmark.solvers.pipeline.bounds.reweighted import reweighted
from shardmark.solvers.pipeline.programs.set_pool import Place, SetPool
from shardmark.solvers.pipeline.programs.stage_search import (
    FIRST,
    LAST,
    MIDDLE,
    WEIGHT_BITS,
    StageSearch,
    descendants,
    whole_weights,
)
from shardmark.solvers.registry import LocalRun

pytestmark = pytest.mark.gate(cases=2)

METHODS = (anchored, reweighted)
SAFETY = 1e-9


def paths(graph: Graph) -> Any:
    """Return reachability between nodes, shape (n, n), bool, from powers of the adjacency matrix."""
    reach = np.zeros((graph.nodes, graph.nodes), dtype=np.int64)
    reach[graph.tail, graph.head] = 1
    for _ in range(graph.nodes):
        reach = ((reach + reach @ reach) > 0).astype(np.int64)
    return reach.astype(bool)


def convex(reach: Any, members: Any, closure: int = MIDDLE) -> bool:
    """Tell if no node outside lies on a path between two members, or leads to one (FIRST), or from one (LAST)."""
    below = reach[members].any(axis=0) | (closure == FIRST)
    above = reach[:, members].any(axis=1) | (closure == LAST)
    return not (below & above & ~members).any()


def cheapest(
    oracle: SimpleNamespace, instance: Instance, weight: Any, need: int, fixed: Any, closure: int = MIDDLE
) -> float:
    """Cost of the cheapest set that is convex, or closed, and weighs enough; infinite if there is none."""
    reach = paths(instance.graph)
    costs = [np.inf]
    for bits in product((False, True), repeat=instance.nodes):
        members = np.array(bits)
        fits = members[fixed > 0].all() and not members[fixed < 0].any()
        if fits and weight[members].sum() >= need and convex(reach, members, closure):
            costs.append(oracle.stage_cost(instance, np.flatnonzero(members).tolist()))
    return min(costs)


def search_of(instance: Instance, cores: int = 1) -> StageSearch:
    return StageSearch(instance, LocalRun(timeout=60, cores=cores))


@pytest.mark.parametrize(("cores", "closure"), [(0, MIDDLE), (1, MIDDLE), (3, MIDDLE), (1, FIRST), (2, LAST)])
def test_the_cheapest_set_is_that_of_all_subsets(oracle: SimpleNamespace, cores: int, closure: int) -> None:
    """No cores: the cheapest one; else any set, searched for by so many threads."""
    rng = np.random.default_rng(21)
    outcomes = set()
    for _ in range(some_of(100)):
        instance = oracle.draw(rng, int(rng.integers(1, 9)), 3)
        n, stage_search = instance.nodes, search_of(instance, max(1, cores))
        weight = rng.integers(0, 5, n)
        fixed = np.zeros(n, np.int8) if cores else rng.choice([-1, 0, 0, 0, 0, 1], n).astype(np.int8)
        need = max(1, int(rng.integers(0, weight.sum() + 2)))
        optimum = cheapest(oracle, instance, weight, need, fixed, closure)
        limit = float(rng.choice([1e3, 1 + min(optimum, 999), min(optimum, 999) * (1 - 1e-6)]))
        wanted = (weight, need, stage_search.units(limit))
        found = stage_search.any_set(*wanted, 60.0, closure) if cores else stage_search.cheapest(*wanted, fixed=fixed)
        exists = optimum < limit
        assert (found.cost < stage_search.units(limit)) == exists
        if not exists:
            assert found.proved == stage_search.units(limit)
        else:
            check(oracle, instance, stage_search, found, weight, need, closure)
            cost = found.cost / stage_search.scale
            assert cores or cost == pytest.approx(optimum, rel=SAFETY)
            assert found.proved <= optimum * stage_search.scale * (1 + SAFETY)
        outcomes.add((exists, found.cuts > 3))
    assert len(outcomes) == 4


def check(
    oracle: SimpleNamespace,
    instance: Instance,
    stage_search: StageSearch,
    found: CheapestSet,
    weight: Any,
    need: int,
    closure: int = MIDDLE,
) -> None:
    """A set is convex or closed, weighs enough, and has the stated cost."""
    members = np.flatnonzero(found.member).tolist()
    assert found.cost / stage_search.scale == pytest.approx(oracle.stage_cost(instance, members), rel=SAFETY)
    assert convex(paths(instance.graph), found.member, closure)
    assert weight[members].sum() >= need


def test_threads_prove_together_what_one_proves(oracle: SimpleNamespace) -> None:
    """On a tree deep enough to be shared out: each thread alone has seen a part of it only."""
    instance = oracle.draw(np.random.default_rng(28), 40, 3, density=0.08)
    weight, need = np.ones(40, dtype=np.int64), 12
    least = search_of(instance).cheapest(weight, need, 2**50)
    costs, shared = search_of(instance)._costs[MIDDLE], np.zeros(SHARED, dtype=np.int32)
    alone = costs.cheapest_set(weight, need, least.cost, cuts=10**6, any_set=True)
    first, second = (
        costs.cheapest_set(weight, need, least.cost, cuts=cuts, any_set=True, shared=shared) for cuts in (50, 10**6)
    )
    assert alone.proved == second.proved == least.cost
    assert first.proved < least.cost  # what it began with is its own to prove
    assert shared[1::2].sum() > 1
    for cores in (1, 2, 5):
        stage_search = search_of(instance, cores)
        assert stage_search.any_set(weight, need, least.cost, 60.0).proved == least.cost
        found = stage_search.any_set(weight, need, least.cost + 1, 60.0)
        assert found.cost == least.cost
        check(oracle, instance, stage_search, found, weight, need)


@pytest.mark.gate
@pytest.mark.parametrize(("cores", "closure"), [(1, MIDDLE), (2, MIDDLE), (2, FIRST), (2, LAST)])
def test_a_hunt_finds_sets_that_fit(oracle: SimpleNamespace, cores: int, closure: int) -> None:
    """Most that exist, on graphs so small that a hunt sees nearly all sets."""
    rng = np.random.default_rng(27)
    missed = hits = 0
    for _ in range(some_of(10)):
        instance = oracle.draw(rng, int(rng.integers(1, 9)), 3)
        stage_search, weight = search_of(instance, cores), rng.integers(0, 5, instance.nodes)
        need = max(1, int(weight.sum()) // 2)
        optimum = cheapest(oracle, instance, weight, need, np.zeros(instance.nodes), closure)
        limit = stage_search.units(min(optimum, 999.0) * float(rng.choice([1 - 1e-6, 1.1])) + 1e-3)
        found = stage_search.annealed_sets(weight, need, limit, closure)
        for member, cost in zip(found.member, found.cost.tolist(), strict=True):
            assert cost < limit
            check(oracle, instance, stage_search, CheapestSet(cost, 0, member, 0), weight, need, closure)
        hit = len(found.cost) > 0
        assert not hit or optimum * stage_search.scale < limit * (1 + SAFETY)
        hits += hit
        missed += not hit and optimum * stage_search.scale < limit
    assert hits >= some_of(4)
    assert missed <= 1


@pytest.mark.parametrize("closure", [FIRST, MIDDLE, LAST])
@pytest.mark.parametrize("cores", [1, 3])
def test_all_sets_are_listed(oracle: SimpleNamespace, cores: int, closure: int) -> None:
    rng = np.random.default_rng(38)
    listed = 0
    for _ in range(some_of(30)):
        instance = oracle.draw(rng, int(rng.integers(2, 8)), 3)
        stage_search, weight = search_of(instance, cores), rng.integers(0, 5, instance.nodes)
        fixed = rng.choice([-1, 0, 0, 0, 0, 0, 0, 1], instance.nodes).astype(np.int8)
        need, expected = int(rng.integers(1, weight.sum() // 2 + 2)), {}
        for bits in product((False, True), repeat=instance.nodes):
            members = np.array(bits)
            fits = members[fixed > 0].all() and not members[fixed < 0].any() and weight[members].sum() >= need
            if fits and convex(paths(instance.graph), members, closure):
                expected[bits] = oracle.stage_cost(instance, np.flatnonzero(members).tolist()) * stage_search.scale
        limit = 1 + int(np.quantile([*expected.values(), 0.0], rng.uniform(0.3, 1)))
        if closure == MIDDLE:
            stage_search.bound_pairs(limit)
        found = stage_search.list_sets(weight, need, limit, 60.0, closure, fixed)
        assert found.proved == limit
        rows = [tuple(row) for row in found.member.tolist()]
        assert cores > 1 or len(set(rows)) == len(rows)
        assert all(cost == pytest.approx(expected[row], rel=SAFETY) for row, cost in zip(rows, found.cost, strict=True))
        assert all(cost >= limit * (1 - SAFETY) for row, cost in expected.items() if row not in rows)
        listed += len(set(rows))
    assert listed > draws(10, 10, 50)


def test_a_full_list_is_not_taken_for_all(oracle: SimpleNamespace) -> None:
    instance = oracle.draw(np.random.default_rng(39), 8, 3)
    reach = [descendants(instance.graph, forwards=forwards) for forwards in (True, False)]
    work = instance.work.astype(np.int64)
    costs = SetCosts(instance.graph, work, np.zeros(8, dtype=np.int64), *reach)
    one = np.ones(8, dtype=np.int64)
    limit = 1 + int(work.sum())
    whole = costs.list_sets(one, 1, limit, most=1000)
    assert whole.proved == limit
    for most in (0, 1, len(whole.cost) - 1):
        part = costs.list_sets(one, 1, limit, most=most)
        assert len(part.cost) == most
        assert part.proved < limit
    assert len(costs.list_sets(one, 1, limit, most=len(whole.cost)).cost) == len(whole.cost)
    with pytest.raises(ValueError, match=r"a need of at least 1"):
        costs.list_sets(one, 0, limit, most=1)


def test_a_pool_keeps_each_set_once() -> None:
    pool = SetPool(3)
    sets = SetList(np.array([[1, 0, 0], [0, 1, 1], [1, 0, 0]], dtype=bool), np.array([5, 7, 5]), 0)
    assert pool.add(sets, MIDDLE) == 2
    assert pool.add(sets, MIDDLE) == 0
    assert pool.add(sets, FIRST) == 2
    assert sorted(pool.cost[pool.fitting(Place(FIRST, 1), 8)].tolist()) == [5, 7]
    assert pool.cost[pool.fitting(Place(FIRST, 1), 7)].tolist() == [5]
    assert pool.cost[pool.fitting(Place(MIDDLE, 1, np.array([-1, 0, 0], dtype=np.int8)), 8)].tolist() == [7]
    assert not len(pool.fitting(Place(LAST, 1), 8))


def test_a_search_cut_short_proves_less(oracle: SimpleNamespace) -> None:
    rng = np.random.default_rng(22)
    shorter = 0
    for _ in range(50):
        instance = oracle.draw(rng, 12, 3, density=0.2)
        stage_search = search_of(instance)
        weight = rng.integers(1, 9, 12)
        need = int(weight.sum()) // 2
        whole = stage_search.cheapest(weight, need, 2**50, cuts=10**6)
        assert whole.proved == whole.cost
        for cuts in (1, 2, 5):
            short = stage_search.cheapest(weight, need, 2**50, cuts=cuts)
            assert short.proved <= whole.cost <= short.cost
            shorter += short.proved < whole.cost
    assert shorter > 20


def test_pairs_bound_what_holds_both_and_change_no_result(oracle: SimpleNamespace) -> None:
    rng = np.random.default_rng(23)
    for _ in range(20):
        instance = oracle.draw(rng, 10, 3, density=0.3)
        stage_search = search_of(instance)
        weight = rng.integers(1, 9, 10)
        need = int(weight.sum()) // 3
        before = stage_search.cheapest(weight, need, 2**50, cuts=10**6)
        stage_search.bound_pairs(2**50)
        limit = before.cost + 1
        assert stage_search.cheapest(weight, need, limit, cuts=10**6).cost == before.cost
        assert stage_search.cheapest(weight, need, before.cost, cuts=10**6).proved == before.cost


@pytest.mark.parametrize("nodes", [0, 1, 63, 64, 65, 130])
def test_descendants_are_what_paths_lead_to(oracle: SimpleNamespace, nodes: int) -> None:
    graph = oracle.draw(np.random.default_rng(nodes), nodes, 1, density=0.05).graph
    for forwards, expected in ((True, paths(graph)), (False, paths(graph).T)):
        rows = descendants(graph, forwards=forwards)
        bits = np.unpackbits(rows.view(np.uint8), axis=1, bitorder="little")[:, :nodes]
        assert (bits == expected).all()


def test_bad_arguments_are_refused(oracle: SimpleNamespace) -> None:
    instance = oracle.make([(0, 1)], [1, 1], [1, 1], [0, 0], 2)
    rows = [descendants(instance.graph, forwards=forwards) for forwards in (True, False)]
    whole, large = np.ones(2, dtype=np.int64), np.full(2, 2**50)
    with pytest.raises(ValueError, match=r"work and sizes of at most 2\^50"):
        SetCosts(instance.graph, large, whole, *rows)
    with pytest.raises(ValueError, match=r"work and sizes of at most 2\^50"):
        SetCosts(instance.graph, whole, -whole, *rows)
    costs = SetCosts(instance.graph, whole, whole, *rows)
    for weight, need in ((large, 1), (-whole, 1), (whole, 0)):
        with pytest.raises(ValueError, match=r"weights of at most 2\^50"):
            costs.cheapest_set(weight, need, 9, cuts=1)
        with pytest.raises(ValueError, match=r"weights of at most 2\^50"):
            costs.anneal_set(weight, need, 9, np.zeros(2, dtype=bool), moves=1, hot=0.1, seed=0)
    with pytest.raises(ValueError, match=r"shape \(2,\), found \(3,\)"):
        costs.cheapest_set(np.ones(3, dtype=np.int64), 1, 9, cuts=1)


@pytest.mark.gate
def test_the_anchored_bound_is_the_cheapest_stage_around_some_node(oracle: SimpleNamespace) -> None:
    rng = np.random.default_rng(24)
    above_work = 0
    for _ in range(some_of(30)):
        instance = oracle.draw(rng, 7, 7, density=0.4)
        open_ones = np.zeros(7, dtype=np.int8)
        nodes = (cheapest(oracle, instance, np.eye(7)[v], 1, open_ones) for v in range(7))
        run = LocalRun()
        anchored(instance, run)
        assert run.bounds[-1] == pytest.approx(max(instance.work_bound(), *nodes), rel=SAFETY)
        above_work += run.bounds[-1] > instance.work_bound()
    assert above_work >= some_of(10)


@pytest.mark.gate
def test_the_reweighted_bound_is_above_the_others_of_its_kind(oracle: SimpleNamespace) -> None:
    instance = oracle.draw(np.random.default_rng(25), 20, 6, density=0.15)
    least = {method: LocalRun() for method in METHODS}
    for method, run in least.items():
        method(instance, run)
    cost = verify(instance, least[reweighted].solutions[-1]).cost
    assert least[anchored].bounds[-1] < least[reweighted].bounds[-1] <= cost * (1 + SAFETY)


def test_two_stages_are_solved(oracle: SimpleNamespace) -> None:
    """The side that does more work costs more, and holds all ancestors or all descendants of its nodes."""
    rng = np.random.default_rng(29)
    for _ in range(20):
        instance = oracle.draw(rng, int(rng.integers(2, 8)), 2)
        run = LocalRun()
        reweighted(instance, run)
        optimum = oracle.partition_optimum(instance)
        assert optimum * (1 - 1e-6) <= run.bounds[-1] <= optimum
        assert verify(instance, run.solutions[-1]).cost == pytest.approx(optimum)


def test_few_stages_are_solved(oracle: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    """Dividing partitions by the stages that nodes are in proves the optimum, also without a bound for all of them."""
    monkeypatch.setattr("shardmark.solvers.pipeline.bounds.reweighted.EARLY_FINEST", np.inf)
    monkeypatch.setattr("shardmark.solvers.pipeline.bounds.reweighted.MOST_ENDED_EARLY", 5)
    rng = np.random.default_rng(31)
    for _ in range(15):
        instance = oracle.draw(rng, int(rng.integers(4, 9)), int(rng.integers(3, 6)))
        run = LocalRun(timeout=10)
        reweighted(instance, run)
        optimum = oracle.partition_optimum(instance)
        assert optimum * (1 - 1e-6) <= run.bounds[-1] <= optimum
        assert verify(instance, run.solutions[-1]).cost == pytest.approx(optimum)


def test_dividing_proves_nothing_above_the_optimum(oracle: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a best known cost that is three times the true one, bounds are free to pass the optimum."""
    monkeypatch.setattr("shardmark.solvers.pipeline.bounds.reweighted.EARLY_FINEST", np.inf)
    pretend(monkeypatch, 3.0)
    rng = np.random.default_rng(37)
    for _ in range(some_of(12)):
        instance = oracle.draw(rng, int(rng.integers(4, 8)), int(rng.integers(3, 5)))
        run = LocalRun(timeout=0.5)
        reweighted(instance, run)
        assert run.bounds[-1] <= oracle.partition_optimum(instance)


def test_sets_fit_places_that_fix_nothing_else() -> None:
    member = np.array([[True, False]])
    assert Place(MIDDLE, 1).allows(member).tolist() == [True]
    for fixed, fits in (([0, 0], True), ([1, -1], True), ([-1, 0], False), ([0, 1], False)):
        assert Place(LAST, 1, np.array(fixed, dtype=np.int8)).allows(member).tolist() == [fits]


@pytest.mark.parametrize("method", METHODS)
def test_many_bounds_of_single_stages_are_the_optimum(oracle: SimpleNamespace, method: Any) -> None:
    rng = np.random.default_rng(26)
    tight = 0
    for _ in range(some_of(30)):
        nodes = int(rng.integers(0, 7))
        instance = oracle.draw(rng, nodes, int(rng.integers(1, nodes + 2)))
        run = LocalRun(cores=2)
        method(instance, run)
        optimum = oracle.partition_optimum(instance)
        assert run.bounds[-1] <= optimum
        assert all(earlier < later for earlier, later in pairwise(run.bounds))
        tight += run.bounds[-1] >= optimum * (1 - 1e-6)
    assert tight >= some_of(10)


@pytest.mark.parametrize("method", METHODS)
def test_what_does_not_fit_is_left_at_the_simple_bound(
    oracle: SimpleNamespace, method: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    instance = oracle.draw(np.random.default_rng(15), 300, 3, density=0.01)
    run = LocalRun(timeout=10, memory=1.0)
    method(instance, run)
    assert run.bounds == [instance.work_bound()]
    assert "do not fit into 1 MiB: not solved" in capsys.readouterr().err


@pytest.mark.parametrize("method", METHODS)
def test_a_bound_cut_short_is_a_bound(oracle: SimpleNamespace, method: Any) -> None:
    instance = oracle.draw(np.random.default_rng(14), 90, 6, density=0.05)
    for seconds in (0.05, 0.3, 1.0):
        run = LocalRun(timeout=seconds)
        method(instance, run)
        assert instance.work_bound() <= run.bounds[-1] <= verify(instance, run.solutions[-1]).cost


@pytest.mark.parametrize(("heavy", "dear"), [(1028823305407787, 57), (1116074473671412, 41), (829163626652916, 57)])
def test_rounded_prices_prove_no_more_than_the_cheapest_set(heavy: int, dear: int) -> None:
    """Both nodes are needed, and the light one is dear: at such a price doubles would lie 8 apart."""
    graph = Graph(2, np.empty(0, dtype=np.int32), np.empty(0, dtype=np.int32))
    reach = [descendants(graph, forwards=forwards) for forwards in (True, False)]
    for cheap, above, cuts in product(range(5), (1, 2), (3, 5)):
        costs = SetCosts(graph, np.array([cheap, dear]), np.zeros(2, dtype=np.int64), *reach)
        found = costs.cheapest_set(np.array([heavy, 1]), heavy + 1, cheap + dear + above, cuts=cuts)
        assert found.proved <= cheap + dear


@pytest.mark.thorough(cases=2)
@pytest.mark.gate
@pytest.mark.parametrize("share", [0.1, 1.0])
@pytest.mark.parametrize("divided", [0, 8])
def test_wrong_numbers_of_the_engine_raise_no_bound(
    oracle: SimpleNamespace, monkeypatch: pytest.MonkeyPatch, lying_glop: Any, divided: int, share: float
) -> None:
    """Neither in the ascent, nor in a tree over stages or over all sets."""
    monkeypatch.setattr("shardmark.solvers.pipeline.bounds.reweighted.MOST_DIVIDED", divided)
    rng = np.random.default_rng([53, divided, int(100 * share)])
    told = lying_glop(rng, share)
    for _ in range(some_of(7)):
        instance = oracle.draw(rng, 8, int(rng.integers(3, 6)), density=0.3)
        run = LocalRun(timeout=1.0)
        reweighted(instance, run)
        assert run.bounds[-1] <= oracle.partition_optimum(instance)
    assert len(told) > some_of(80) * share


@pytest.mark.parametrize("weights", [[1.0, 3.0], [0.0, 0.0], [1e-320, 0.0]])
def test_any_weights_become_whole_and_not_negative(weights: list[float]) -> None:
    whole = whole_weights(np.array(weights))
    assert whole.min() >= 0
    assert whole.sum() <= 2**WEIGHT_BITS + 2
