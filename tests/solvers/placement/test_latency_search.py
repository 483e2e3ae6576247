"""The search for latency: schedules against the referee's, optima against all placements, parts of graphs."""

from __future__ import annotations

import os
import random
import time
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from effort import some_of
from oracle_placement import optimum
from placements import built, cost_of, draw_instance, judged, plain

from shardmark.instances import load
from shardmark.instances.generate import families
from shardmark.instances.placement import Instance, parse, to_document
from shardmark.solvers.placement.greedy import greedy
from shardmark.solvers.placement.kernels.latency import LatencyAnnealer, LatencyCooling, schedule
from shardmark.solvers.placement.latency import search as latency_search
from shardmark.solvers.placement.latency.tasks import Blocks, Contraction
from shardmark.solvers.placement.local_search import local_search
from shardmark.solvers.placement.search import search
from shardmark.solvers.registry import Declined, LocalRun

LATENCY: dict[str, Any] = {"objective": "latency"}
MIRROR = os.environ.get("SHARDMARK_MIRROR")
FILES = Path(MIRROR or "") / "msr-fiddle" / "dnn-partitioning" / "latency-inputs"


def whole(instance: Instance) -> Contraction:
    return Contraction(instance, np.arange(instance.nodes), instance.unit)


def solution_of(instance: Instance, contraction: Contraction, placement: Any) -> dict[str, list[int]]:
    found = schedule(contraction.tasks, placement)
    assert found
    owner = np.append(placement.owner, instance.accelerators)[placement.subgraph]
    return {"device": owner.tolist(), "slot": np.maximum(found.turn, 0).tolist()}


def drawn(seed: int, nodes: int, contiguity: str, **more: Any) -> Instance:
    return draw_instance(random.Random(seed), nodes, **LATENCY, contiguity=contiguity, **more)


@pytest.mark.parametrize("contiguity", ["contiguous", "free"])
def test_schedules_end_when_the_referee_says(contiguity: str) -> None:
    feasible = 0
    for seed in range(some_of(80)):
        instance = drawn(seed, 12, contiguity)
        contraction = whole(instance)
        annealer = LatencyAnnealer(contraction.tasks, contraction.pooled(), seed)
        for _ in range(4):
            annealer.anneal(LatencyCooling(moves=25, hot=30.0, cold=3.0, mean_weight=0.0))
            found = schedule(contraction.tasks, annealer.now)
            assert found
            if instance.cpus:
                cost = cost_of(instance, solution_of(instance, contraction, annealer.now))
                assert found.cost == pytest.approx(cost, rel=1e-9)
                feasible += bool((annealer.now.subgraph >= 0).any())
    assert feasible > some_of(100)


#: Table 4 of the paper: the printed values of its integer program after an hour at most.
PUBLISHED = {
    "OperatorGraphs/bert_l-3_inference.json": 408.47,
    "LayerGraphs/bert24_inference.json": 100.22,
    "LayerGraphs/resnet50_inference.json": 1191.02,
}


@pytest.mark.skipif(not FILES.is_dir(), reason="needs the paper's files under SHARDMARK_MIRROR")
@pytest.mark.parametrize("contiguity", ["contiguous", "free"])
@pytest.mark.thorough(cases=3)
@pytest.mark.parametrize("file", PUBLISHED)
def test_comes_as_low_as_the_published_integer_program(file: str, contiguity: str) -> None:
    instance = load(FILES / file, "placement", **LATENCY, contiguity=contiguity)
    run = LocalRun(cores=2, timeout=600.0)
    search(instance, run, most=50_000)
    assert cost_of(instance, run.solutions[-1]) < PUBLISHED[file] * (1 + 1e-4)


@pytest.mark.parametrize("contiguity", ["contiguous", "free"])
@pytest.mark.parametrize("seed", range(4))
def test_finds_the_best_of_all_placements_of_small_graphs(contiguity: str, seed: int) -> None:
    for number in range(5):
        instance = drawn(100 * seed + number, 4, contiguity)
        best, run = optimum(instance), LocalRun(cores=2, timeout=60.0)
        if best is None:
            with pytest.raises(Declined):
                search(instance, run, most=4_000)
            continue
        search(instance, run, most=4_000)
        costs = [judged(instance, solution) for solution in run.solutions]
        assert costs[-1] <= best * (1 + Fraction(1, 10**9))


def test_local_search_leaves_latency_to_others() -> None:
    with pytest.raises(Declined, match="is for throughput"):
        local_search(drawn(1, 5, "free"), LocalRun())


def generated(**parameters: Any) -> dict[str, Any]:
    return to_document(families()["operators"].build(1, accelerators=5, **parameters))


@pytest.mark.parametrize("training", [0, 1])
@pytest.mark.parametrize("contiguity", ["contiguous", "free"])
def test_parts_keep_a_placement_and_overestimate_only_the_pool(contiguity: str, training: int) -> None:
    instance = parse(generated(nodes=300, training=training), "generated", **LATENCY, contiguity=contiguity)
    nodes, runs = whole(instance), Blocks(instance)
    annealer = LatencyAnnealer(nodes.tasks, nodes.pooled(), 1)
    fewest = instance.nodes
    for _ in range(some_of(6)):
        annealer.anneal(LatencyCooling(moves=3000, hot=30.0, cold=3.0, mean_weight=0.0))
        coarse = Contraction(instance, *runs.parts(annealer.now.subgraph, 10, 0.5, np.random.default_rng(1)))
        fewest = min(fewest, coarse.tasks.graph.nodes)
        part = coarse.restrict(annealer.now)
        found, rough, fine = schedule(nodes.tasks, annealer.now), schedule(coarse.tasks, part), coarse.expand(part)
        again = schedule(nodes.tasks, fine)
        assert found
        assert rough
        assert again
        assert again.cost == pytest.approx(found.cost, rel=1e-9)
        assert rough.cost >= found.cost * (1 - 1e-9)
        assert cost_of(instance, solution_of(instance, nodes, fine)) == pytest.approx(found.cost, rel=1e-9)
    assert fewest < 0.9 * instance.nodes


@pytest.mark.parametrize("training", [0, 1])
@pytest.mark.parametrize("contiguity", ["contiguous", "free"])
def test_every_report_is_feasible_and_better_than_the_one_before(
    contiguity: str, training: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(latency_search, "FEW", 40)  # so that parts are moved first
    instance = parse(generated(nodes=300, training=training), "generated", **LATENCY, contiguity=contiguity)
    run = LocalRun(cores=2, timeout=60.0)
    search(instance, run, most=3_000)
    costs = [cost_of(instance, solution) for solution in run.solutions]
    assert len(costs) > 3
    assert costs == sorted(costs, reverse=True)
    greedy(instance, run)
    assert costs[-1] < 0.7 * cost_of(instance, run.solutions[-1])


@pytest.mark.parametrize("training", [0, 1])
@pytest.mark.parametrize("contiguity", ["contiguous", "free"])
def test_fills_all_accelerators_where_there_are_no_cpus(contiguity: str, training: int) -> None:
    document = {**generated(nodes=100, training=training, unsupported=0.0, room=1.3), "maxCPUs": 0}
    instance = parse(document, "generated", **LATENCY, contiguity=contiguity)
    run = LocalRun(cores=2, timeout=60.0)
    search(instance, run, most=20_000)
    assert cost_of(instance, run.solutions[-1]) <= 1.5 * instance.path_bound()


def test_the_same_seed_gives_the_same_placements() -> None:
    instance, found = parse(generated(nodes=60), "generated", **LATENCY), []
    for seed in (1, 1, 2):
        run = LocalRun(cores=2, seed=seed, timeout=60.0)
        search(instance, run, most=2_000)
        found.append(plain(run.solutions))
    assert found[0] == found[1] != found[2]


@pytest.mark.gate
def test_the_time_ends_the_search() -> None:
    run = LocalRun(cores=2, timeout=1.0)
    search(parse(generated(nodes=300), "generated", **LATENCY), run)
    assert run.solutions
    assert time.monotonic() < run.deadline + 60


class CountedRun(LocalRun):
    """A run whose time ends after so many moves; ``slices`` are the moves between two looks at the time."""

    def __init__(self, most: int) -> None:
        super().__init__(cores=2, timeout=1000.0)
        self.slices, self.most = list[int](), most
        self.reported = list[int]()  # moves before each report

    def remaining(self) -> float:
        return 1000.0 if sum(self.slices) < self.most else 0.0

    def report(self, solution: Any, cost: float | None = None) -> None:
        self.reported.append(sum(self.slices))


@pytest.mark.parametrize("nodes", [3, 300])
def test_looks_at_the_time_often_and_reports_within_a_round(nodes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    instance = parse(generated(nodes=nodes), "generated", **LATENCY)
    run, anneal = CountedRun(300_000), LatencyAnnealer.anneal

    def counted(self: LatencyAnnealer, cooling: LatencyCooling) -> None:
        run.slices.append(cooling.moves)
        anneal(self, cooling)

    monkeypatch.setattr(LatencyAnnealer, "anneal", counted)
    monkeypatch.setattr(type(instance), "path_bound", lambda _: 0.0)  # nothing is known to be best
    search(instance, run)
    work = max(nodes + instance.edges, latency_search.LEAST)
    assert max(run.slices) <= latency_search.SLICE / work + 1
    assert run.most <= sum(run.slices) <= run.most + 2 * max(run.slices)
    if nodes == 300:  # a round has two chains at least
        assert 0 < min(filter(None, run.reported)) < latency_search.FIRST / work


def test_what_accelerators_cannot_hold_is_declined_without_cpus() -> None:
    instance = built([1] * 3, (), (2, 0, 3), size=2, **LATENCY)
    with pytest.raises(Declined, match="found no placement that the memories hold"):
        search(instance, LocalRun(), most=1_000)
