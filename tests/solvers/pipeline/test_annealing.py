"""Annealing partitions: against brute force over all partitions and execution orders, and what it may spend."""

from __future__ import annotations

import time
from dataclasses import replace
from itertools import pairwise, permutations
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from effort import some_of

from shardmark.harness.verify import verify
from shardmark.instances.pipeline import Instance
from shardmark.solvers.native import kahn
from shardmark.solvers.pipeline._kernels import Annealing, PipelineCore
from shardmark.solvers.pipeline.annealing import annealing
from shardmark.solvers.pipeline.search import annealing as module
from shardmark.solvers.pipeline.search.annealing import anneal
from shardmark.solvers.pipeline.search.genetic import evolve
from shardmark.solvers.pipeline.search.layered_orders import layered_orders
from shardmark.solvers.pipeline.search.orders import Search
from shardmark.solvers.registry import LocalRun

SHORT = Annealing(moves=20_000, seed=1, hot=0.05, cold=0.001, margin=0.1, squared=True)


@pytest.fixture
def brief(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rounds of 20,000, 40,000 and 80,000 moves, however long they take."""
    monkeypatch.setattr(module, "CHAINS", tuple(replace(chain, moves=20_000) for chain in module.CHAINS))
    monkeypatch.setattr(module, "_next", lambda moves, took, left: 2 * moves if moves < 80_000 else 0)


def optimum_with_orders(oracle: SimpleNamespace, instance: Instance) -> float:
    """Least bottleneck over all slicings of all topological orders: every partition, every order of execution.

    Any acyclic partition and any order in each stage is a slicing of some topological order.
    """
    edges = list(zip(instance.graph.tail.tolist(), instance.graph.head.tolist(), strict=True))
    costs: dict[tuple[int, ...], float] = {}
    best = np.inf
    for order in permutations(range(instance.nodes)):
        place = {v: p for p, v in enumerate(order)}
        if all(place[u] < place[v] for u, v in edges):
            best = min(best, slicing_optimum(oracle, instance, order, costs))
    return float(best)


def slicing_optimum(
    oracle: SimpleNamespace, instance: Instance, order: tuple[int, ...], costs: dict[tuple[int, ...], float]
) -> float:
    n = instance.nodes
    for a in range(n):
        for b in range(a + 1, n + 1):
            if order[a:b] not in costs:
                costs[order[a:b]] = oracle.stage_cost(instance, order[a:b])
    best = [0.0, *(costs[order[:b]] for b in range(1, n + 1))]
    for _ in range(instance.stages - 1):
        best = [0.0, *(min(max(best[a], costs[order[a:b]]) for a in range(b)) for b in range(1, n + 1))]
    return best[n]


@pytest.mark.gate
def test_all_searches_count_the_overflow_and_none_beats_all_orders(oracle: SimpleNamespace, brief: None) -> None:
    rng = np.random.default_rng(21)
    found = {"annealing": 0, "evolve": 0}
    mattered, count = 0, some_of(40)
    for number in range(count):
        nodes = 7 if number % 8 == 0 else int(rng.integers(1, 7))
        instance = oracle.draw(rng, nodes, int(rng.integers(1, 4)), density=0.3, limited=True)
        optimum = optimum_with_orders(oracle, instance)
        mattered += optimum > optimum_with_orders(oracle, replace(instance, memory=None)) * (1 + 1e-9)
        for name in found:
            run = LocalRun(timeout=60, seed=number)
            if name == "annealing":
                annealing(instance, run)
            else:
                evolve(Search(instance, run), run.rng, population=50, generations=10)
            cost = verify(instance, run.solutions[-1]).cost
            assert cost >= optimum * (1 - 1e-9)
            found[name] += cost <= optimum * (1 + 1e-9)
    assert mattered >= count // 3
    assert found["annealing"] == count
    assert found["evolve"] >= 0.9 * count


def test_reaches_the_optimum_over_all_partitions(oracle: SimpleNamespace, brief: None) -> None:
    rng = np.random.default_rng(22)
    for seed in range(some_of(40)):
        instance = oracle.draw(rng, int(rng.integers(0, 9)), int(rng.integers(1, 5)))
        run = LocalRun(timeout=60, seed=seed)
        annealing(instance, run)
        assert verify(instance, run.solutions[-1]).cost == pytest.approx(oracle.partition_optimum(instance), rel=1e-9)


@pytest.mark.parametrize("limited", [False, True], ids=["unlimited", "memory"])
def test_costs_what_the_definition_says_after_many_moves(oracle: SimpleNamespace, limited: bool) -> None:
    rng = np.random.default_rng(23)
    better = 0
    for seed in range(20):
        instance = oracle.draw(rng, 40, int(rng.integers(2, 12)), density=0.1, limited=limited)
        core, order = PipelineCore(instance), kahn(instance.graph, rng.random(40))
        begun = oracle.sliced(core, order)
        order, slicing = core.anneal(order, begun.cut, replace(SHORT, seed=seed), np.zeros(1, dtype=np.int32))
        costs = [oracle.stage_cost(instance, order[a:b].tolist()) for a, b in pairwise(slicing.cut)]
        assert max(costs) == pytest.approx(slicing.cost, rel=1e-9)
        better += slicing.cost < begun.cost
    assert better >= 15


@pytest.mark.parametrize("limited", [False, True], ids=["unlimited", "memory"])
def test_the_same_seed_gives_the_same_on_any_number_of_cores(
    oracle: SimpleNamespace, brief: None, limited: bool
) -> None:
    instance = oracle.draw(np.random.default_rng(24), 60, 7, density=0.05, limited=limited)

    def solutions(seed: int, cores: int) -> list[Any]:
        run = LocalRun(seed=seed, cores=cores, timeout=60)
        annealing(instance, run)
        return run.solutions

    assert solutions(1, 1) == solutions(1, 2) == solutions(1, 5) != solutions(2, 1)


def test_better_than_the_genetic_search(oracle: SimpleNamespace, brief: None) -> None:
    for seed in range(4):
        graph = oracle.draw(np.random.default_rng(seed), 80, 8, density=0.04)
        runs = LocalRun(timeout=60), LocalRun(timeout=60)
        annealing(graph, runs[0])
        evolve(Search(graph, runs[1]), runs[1].rng, population=100, generations=30)
        costs = [verify(graph, run.solutions[-1]).cost for run in runs]
        assert costs[0] < costs[1]


def test_ends_a_long_chain_in_time(oracle: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    """Chains that would take hours; the limit is the patience of whoever runs the test."""
    monkeypatch.setattr(module, "CHAINS", tuple(replace(chain, moves=10**13) for chain in module.CHAINS))
    instance = oracle.draw(np.random.default_rng(25), 60, 7, density=0.05)
    run = LocalRun(timeout=0.5, cores=2)
    annealing(instance, run)
    assert verify(instance, run.solutions[-1]).feasible
    assert time.monotonic() < run.deadline + 60


def test_looks_at_the_clock_between_the_seeds_of_a_large_graph(
    oracle: SimpleNamespace, brief: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A batch of two rows takes two seeds at a time and finds the same."""
    instance = oracle.draw(np.random.default_rng(27), 60, 7, density=0.05)
    whole = LocalRun(timeout=60)
    annealing(instance, whole)
    sizes, decode = [], Search.decode

    def counted(search: Search, rows: Any, upper: float) -> Any:
        sizes.append(len(rows))
        return decode(search, rows, upper)

    monkeypatch.setattr(Search, "decode", counted)
    monkeypatch.setattr("shardmark.solvers.pipeline.search.orders.BATCH", 120)
    pairs = LocalRun(timeout=60)
    annealing(instance, pairs)
    assert sizes == [1, *[2] * 7, 1]
    assert pairs.solutions[-1] == whole.solutions[-1]


@pytest.mark.parametrize("memory", [None, 1e6], ids=["unlimited", "memory"])
def test_boundaries_pass_places_where_no_single_node_may_stay(oracle: SimpleNamespace, memory: float | None) -> None:
    """A chain with light tensors after the third and the sixth node, too cold for the heavy ones between."""
    output = [0 if v in (2, 5) else 100 for v in range(12)]
    chain = oracle.make([(v, v + 1) for v in range(11)], [1] * 12, output, [0] * 12, 2, memory=memory)
    cold = Annealing(moves=2000, seed=1, hot=1e-6, cold=1e-7, margin=0.1, squared=False)
    for begun in ([0, 3, 12], [0, 0, 12]):
        _, slicing = PipelineCore(chain).anneal(np.arange(12), begun, cold, np.zeros(1, dtype=np.int32))
        assert slicing.cost == 6.0
        assert slicing.cut.tolist() == [0, 6, 12]


def test_few_moves_a_node_begin_colder() -> None:
    first = Annealing(moves=1, seed=0, hot=0.02, cold=0.001, margin=0.1, squared=True)
    chains = [module._cooler(first, moves, 100, 1.0) for moves in (2000, 50_000, 100_000, 200_000, 10**9)]
    assert [chain.hot for chain in chains] == pytest.approx([0.0002, 0.005, 0.01, 0.02, 0.02])
    assert [chain.cold for chain in chains] == pytest.approx([0.00004, 0.001, 0.001, 0.001, 0.001])


@pytest.mark.parametrize("seed", range(5))
def test_layered_orders_are_topological(oracle: SimpleNamespace, seed: int) -> None:
    instance = oracle.draw(np.random.default_rng(seed), 30, 3, density=0.1)
    for order in layered_orders(instance):
        rank = np.argsort(order)
        assert sorted(order.tolist()) == list(range(30))
        assert np.all(rank[instance.graph.tail] < rank[instance.graph.head])


def test_readers_of_the_tensor_that_costs_most_come_together(oracle: SimpleNamespace) -> None:
    """A chain whose nodes are each read by one that also reads the first: chain, readers, and then what reads them."""
    chain = [(v, v + 1) for v in range(5)]
    readers = [(0, v) for v in range(6, 10)] + [(v - 4, v) for v in range(6, 10)]
    instance = oracle.make([*chain, *readers, (6, 10)], [1] * 11, [50, *[1] * 10], [0] * 11, 2)
    *_, last = layered_orders(instance)
    assert sorted(last[:6].tolist()) == [0, 1, 2, 3, 4, 5]
    assert sorted(last[6:10].tolist()) == [6, 7, 8, 9]


def test_a_path_ends_before_the_next_begins(oracle: SimpleNamespace) -> None:
    """Two chains that meet at their ends, with nodes numbered in turns: one chain is cut, the other one is not."""
    chains = [(v, v + 2) for v in range(18)]
    instance = oracle.make([*chains, (18, 20), (19, 20)], [1] * 21, [1] * 21, [0] * 21, 2)
    core = PipelineCore(instance)
    costs = [oracle.sliced(core, order).cost for order in layered_orders(instance)]
    assert min(costs) == costs[2] == 12


def test_orders_in_layers_are_sliced_before_any_round(oracle: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    instance = oracle.draw(np.random.default_rng(28), 30, 4, density=0.1)
    offered, offer = [], Search.offer_order
    monkeypatch.setattr(Search, "offer_order", lambda *given: offered.append(given[1].tolist()) or offer(*given))
    run = LocalRun(timeout=60)
    anneal(Search(instance, run), run, most=0)
    assert all(order.tolist() in offered for order in layered_orders(instance))


def test_rounds_begin_colder_after_one_that_gains_nothing(
    oracle: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second and the fifth round gain; nothing is hotter than the full temperature."""
    shares: list[float] = []

    def round_(search: Search, run: LocalRun, moves: int, share: float) -> None:
        shares.append(share)
        search.cost -= len(shares) in (2, 5)

    monkeypatch.setattr(module, "_round", round_)
    monkeypatch.setattr(module, "_next", lambda moves, took, left: moves if len(shares) < 6 else 0)
    run = LocalRun(timeout=60)
    anneal(Search(oracle.draw(np.random.default_rng(29), 30, 4, density=0.1), run), run)
    assert shares == [1.0, 0.25, 1.0, 0.25, 0.0625, 0.25]


def test_rounds_double_until_the_last_one_fills_the_time() -> None:
    assert module._next(1000, took=1.0, left=100.0) == 2000
    assert module._next(1000, took=1.0, left=3.0) == 2700
    assert module._next(1000, took=1.0, left=0.0) == 0


def test_what_does_not_fit_into_memory_is_told(oracle: SimpleNamespace, capsys: pytest.CaptureFixture[str]) -> None:
    instance = oracle.draw(np.random.default_rng(26), 200, 50, density=0.01)
    run = LocalRun(timeout=60, memory=0.1)
    annealing(instance, run)
    assert verify(instance, run.solutions[-1]).feasible
    assert "do not fit into 0 MiB: orders only" in capsys.readouterr().err


def test_stops_where_nothing_better_exists(oracle: SimpleNamespace) -> None:
    free = oracle.make([], [1] * 8, [0] * 8, [0] * 8, 4)
    run = LocalRun(timeout=600)
    annealing(free, run)
    assert verify(free, run.solutions[-1]).cost == 2.0


@pytest.mark.parametrize(("nodes", "stages"), [(0, 3), (1, 1), (1, 5), (3, 1), (3, 9)])
def test_degenerate_instances(nodes: int, stages: int, oracle: SimpleNamespace, brief: None) -> None:
    tiny = oracle.make([], [0] * nodes, [0] * nodes, [0] * nodes, stages)
    run = LocalRun(timeout=60)
    annealing(tiny, run)
    assert verify(tiny, run.solutions[-1]).cost == 0.0


def test_bad_arguments_are_refused(oracle: SimpleNamespace) -> None:
    core = PipelineCore(oracle.make([(0, 1), (1, 2)], [1, 1, 1], [1, 1, 1], [0] * 3, 2))
    stop = np.zeros(1, dtype=np.int32)
    with pytest.raises(ValueError, match="topological order"):
        core.anneal([1, 0, 2], [0, 1, 3], SHORT, stop)
    with pytest.raises(ValueError, match="topological order"):
        core.anneal([0, 1, 2], [0, 4, 3], SHORT, stop)
    with pytest.raises(ValueError, match=r"shape \(3,\), found \(2,\)"):
        core.anneal([0, 1, 2], [0, 3], SHORT, stop)
