"""The baselines of the paper that other programs or other objectives are part of."""

from __future__ import annotations

import contextlib
import math
import os
import random
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from effort import some_of
from gpart import install, write
from oracle_placement import optimum
from placements import built, cost_of, draw_instance, plain

from shardmark.harness.verify import verify
from shardmark.instances import catalog, load
from shardmark.instances.placement import Instance
from shardmark.solvers.placement.expert import expert
from shardmark.solvers.placement.greedy import greedy
from shardmark.solvers.placement.ideals.branchings import biconnected_components, contract_branchings
from shardmark.solvers.placement.max_load_dp import max_load_dp
from shardmark.solvers.placement.metis import metis
from shardmark.solvers.placement.pipedream import pipedream
from shardmark.solvers.placement.scotch import graph_file, scotch
from shardmark.solvers.placement.throughput.partitions import graph_of, slots
from shardmark.solvers.registry import Declined, LocalRun

MIRROR = os.environ.get("SHARDMARK_MIRROR")
PUBLISHED = Path(MIRROR or "") / "msr-fiddle" / "dnn-partitioning"


def embedded(name: str) -> Instance:
    entry = catalog.find(name)
    instance: Instance = load(catalog.locate(entry), **entry.options)
    return instance


def solved(solver: Any, instance: Instance, **settings: Any) -> Any:
    """The last solution, as plain JSON."""
    run = LocalRun()
    solver(instance, run, **settings)
    return plain(run.solutions)[-1]


def cost(solver: Any, instance: Instance, **settings: Any) -> float:
    return cost_of(instance, solved(solver, instance, **settings))


def graph(edges: list[tuple[int, int]], n: int, *, backward: int = 99, free: tuple[int, ...] = ()) -> Instance:
    """Nodes that take 4, each but the ``free`` ones, which take no time, as their tensors do; others' take 1."""
    times, arcs = [4 * (v not in free) for v in range(n)], [(u, v, int(u not in free)) for u, v in edges]
    columns = {"cpu": [10 * time for time in times], "backward": [v >= backward for v in range(n)]}
    return built(times, arcs, (3, 1, 99), **columns)


# ---------------------------------------------------------------- PipeDream


def cycles(edges: list[tuple[int, int]]) -> list[set[int]]:
    """The edges of every simple cycle of an undirected graph."""
    found = []

    def walk(first: int, at: int, seen: list[int], used: list[int]) -> None:
        for e, ends in enumerate(edges):
            if at in ends and e not in used:
                other = sum(ends) - at
                if other == first:
                    found.append({*used, e})
                elif other not in seen:
                    walk(first, other, [*seen, other], [*used, e])

    for first in {u for ends in edges for u in ends}:
        walk(first, first, [first], [])
    return found


@pytest.mark.parametrize("seed", range(30))
def test_edges_are_biconnected_if_they_are_on_a_cycle(seed: int) -> None:
    draw = random.Random(seed)
    n, dense = draw.randint(2, 7), draw.choice([0.2, 0.3, 0.4])
    edges = [draw.choice([(u, v), (v, u)]) for v in range(n) for u in range(v) if draw.random() < dense]
    component = biconnected_components(n, *np.array(edges, dtype=np.int64).reshape(-1, 2).T).tolist()
    around = cycles(edges)
    for e in range(len(edges)):
        for f in range(e):
            assert (component[e] == component[f]) == any({e, f} <= cycle for cycle in around)


@pytest.mark.parametrize(
    ("instance", "united"),
    [
        (graph([(0, 1), (1, 2), (2, 3)], 4), [0, 1, 2, 3]),
        (graph([(0, 1), (0, 2), (1, 3), (2, 3), (3, 4)], 5), [0, 0, 0, 1, 2]),
        (graph([(0, 1), (0, 2), (1, 3), (2, 3), (3, 4), (3, 5), (4, 5)], 6), [0, 0, 0, 1, 1, 2]),
        (graph([(0, 1), (1, 2), (2, 3), (4, 1), (4, 2), (4, 3)], 5, free=(4,)), [0, 1, 2, 3, 4]),
        (graph([(0, 1), (1, 2), (2, 3), (4, 1), (4, 2), (4, 3)], 5), [0, 1, 1, 2, 1]),
        (graph([(0, 1), (2, 3), (2, 4), (3, 5), (4, 5)], 6, backward=2), [0, 1, 2, 2, 2, 3]),
    ],
    ids=["path", "branching", "two", "side input", "the same that takes time", "backward"],
)
def test_branchings_are_contracted_but_for_their_ends(instance: Instance, united: list[int]) -> None:
    assert contract_branchings(instance, 0.1).unit.tolist() == united


def test_colours_carry_branchings_of_one_pass_into_the_other() -> None:
    instance = graph([(0, 1), (1, 2), (3, 4), (3, 5), (4, 5)], 6, backward=3)
    tied = replace(instance, colour=np.array([0, 1, -1, 0, 1, -1]))
    assert contract_branchings(tied, 0.1).unit.tolist() == [0, 0, 1, 0, 0, 2]


@pytest.mark.parametrize("seed", range(5))
def test_pipedream_finds_acyclic_placements(seed: int) -> None:
    draw, found = random.Random(seed), 0
    for _ in range(some_of(40)):
        instance = draw_instance(draw)
        run = LocalRun()
        try:
            pipedream(instance, run)
        except Declined:
            continue
        for solution in plain(run.solutions):
            verdict = verify(instance, solution)
            assert verdict.feasible, verdict.violations
            assert verdict.facts["acyclic"]
            found += 1
    assert found >= some_of(3)


def test_pipedream_leaves_no_branching_to_two_devices() -> None:
    instance = graph([(0, 1), (0, 2), (1, 3), (2, 3), (3, 4)], 5)
    device = solved(pipedream, instance)
    assert len(set(device[:3])) == 1
    assert cost(pipedream, instance) == 3 * 4 + 2


@pytest.mark.parametrize("light", [-1, math.nan, math.inf])
def test_pipedream_declines_shares_that_are_none(light: float) -> None:
    with pytest.raises(Declined, match=f"expected light from 0 on, finite, found {light}"):
        pipedream(graph([(0, 1)], 2), LocalRun(), light=light)


def test_pipedream_declines_branchings_that_fit_nowhere() -> None:
    instance = replace(graph([(0, 1), (0, 2), (1, 3), (2, 3)], 4), memory=2.0, cpus=0)
    with pytest.raises(Declined, match=r"a branching of the graph fits no device: .*memory 2"):
        pipedream(instance, LocalRun())


@pytest.mark.skipif(not MIRROR, reason="needs SHARDMARK_MIRROR")
@pytest.mark.parametrize(
    ("name", "printed"),
    [("bert24_inference", 17.79), ("bert24_training", 41.75), ("gnmt_inference", 33.03), ("resnet50_training", 83.67)],
)
def test_pipedream_reaches_what_the_paper_prints(name: str, printed: float) -> None:
    instance = load(PUBLISHED / "throughput-inputs" / "LayerGraphs" / f"{name}.json")
    assert cost(pipedream, instance) == pytest.approx(printed, abs=0.005)


# ---------------------------------------------------------------- partitioners


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder, the only one on the path."""
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize("name", ["gpart", "scotch_gpart"])
def test_scotch_divides_the_nodes_among_the_accelerators(path: Path, name: str) -> None:
    install(path, name)
    instance = replace(graph([(0, 1), (1, 2), (2, 3), (3, 4), (4, 5)], 6), contiguity="free")
    assert solved(scotch, instance) == [0, 0, 1, 1, 2, 2]
    assert solved(scotch, replace(instance, accelerators=9)) == [0, 1, 2, 3, 4, 5]
    assert solved(scotch, replace(instance, accelerators=1)) == [0] * 6


def test_scotch_cuts_parts_into_subgraphs_for_latency(path: Path) -> None:
    install(path, part="v % 2")
    instance = replace(graph([(0, 1), (1, 2), (2, 3)], 4), contiguity="free", objective="latency")
    assert solved(scotch, instance) == {"device": [0, 1, 0, 1], "slot": [0, 0, 1, 1]}
    assert cost(scotch, instance) == 4 * 4 + 3 * 2


def test_scotch_that_is_not_there_is_no_other_program(path: Path) -> None:
    instance = replace(graph([(0, 1)], 2), contiguity="free")
    with pytest.raises(Declined, match=r"no gpart of Scotch on the path: install Scotch, .* package scotch$"):
        scotch(instance, LocalRun())
    write(path / "gpart", "#!/bin/sh\necho 'gpart v0.3: guesses partitions of disks'\n")
    with pytest.raises(Declined, match="no gpart of Scotch"):
        scotch(instance, LocalRun())


@pytest.mark.parametrize("text", ["#!/bin/sh\nexit 1\n", "#!/bin/sh\nprintf '\\377'\n", "\0"])
def test_what_is_called_as_scotch_and_is_something_else_is_passed_over(path: Path, text: str) -> None:
    instance = replace(graph([(0, 1), (1, 2), (2, 3), (3, 4), (4, 5)], 6), contiguity="free")
    write(path / "scotch_gpart", text)
    with pytest.raises(Declined, match="no gpart of Scotch"):
        scotch(instance, LocalRun())
    install(path)
    assert solved(scotch, instance) == [0, 0, 1, 1, 2, 2]


def test_what_scotch_writes_before_it_fails_is_told(path: Path) -> None:
    instance = replace(graph([(0, 1)], 2), contiguity="free")
    write(path / "gpart", "#!/bin/sh\necho gmap/gpart\n[ $1 = -V ] && exit\necho 'ran out of memory'\nexit 3\n")
    with pytest.raises(RuntimeError, match=r"(?s)gpart ended with 3: .*ran out of memory"):
        scotch(instance, LocalRun())


def test_scotch_answers_in_time_and_with_parts(path: Path) -> None:
    instance = replace(graph([(0, 1)], 2), contiguity="free")
    install(path, part="5")
    with pytest.raises(RuntimeError, match="expected a part below 2 for each of 2 vertices"):
        scotch(instance, LocalRun())
    install(path, part="1 / 0")
    with pytest.raises(RuntimeError, match=r"(?s)gpart ended with 1: .*ZeroDivisionError"):
        scotch(instance, LocalRun())
    with pytest.raises(Declined, match="takes longer than there is time"):
        scotch(instance, LocalRun(timeout=0.0))


@pytest.mark.parametrize("solver", [scotch, metis])
def test_parts_are_declined_where_they_would_not_do(path: Path, solver: Any) -> None:
    install(path)
    instance = replace(graph([(0, 1), (1, 2)], 3), contiguity="free")
    for other, reason in (
        (replace(instance, contiguity="contiguous"), "need not be contiguous, expected contiguity free"),
        (replace(instance, contiguity="acyclic"), "need not be contiguous"),
        (replace(instance, accelerators=0), "no accelerators"),
        (replace(instance, memory=2.0, cpus=0, colour=np.array([0, -1, 0])), "classes on a cycle together fit no"),
        (replace(instance, accelerators=1, memory=2.0), "a part takes 3 of the 2 there are"),
    ):
        with pytest.raises(Declined, match=reason):
            solver(other, LocalRun())


def test_what_no_accelerator_can_hold_is_on_cpus(path: Path) -> None:
    """Nodes 1, 3 and 4 are, the longest on a CPU of its own; the others are two vertices without an edge."""
    install(path)
    instance = replace(graph([(0, 1), (1, 2), (3, 4)], 5), contiguity="free", accelerators=2, cpus=2)
    unfit = {"supported": np.array([True, False, True, False, True]), "size": np.array([1.0, 1, 1, 1, 100])}
    longest = replace(instance, **unfit, cpu_time=np.array([9.0, 9, 9, 5, 5]))
    assert solved(scotch, longest) == [0, 2, 1, 3, 3]
    everything = replace(instance, supported=np.zeros(5, dtype=bool))
    assert solved(metis, everything) == [2, 3, 2, 3, 2]


@pytest.mark.parametrize("seed", range(4))
def test_parts_are_feasible_or_declined(path: Path, seed: int) -> None:
    install(path)
    draw, found = random.Random(seed), 0
    for _ in range(6):
        instance = draw_instance(draw, objective=draw.choice(["throughput", "latency"]), contiguity="free")
        with contextlib.suppress(Declined):
            assert cost(scotch, instance) >= 0
            found += 1
    assert found > 0


def test_metis_divides_where_little_is_sent() -> None:
    pytest.importorskip("pymetis")
    edges = [(0, 1), (0, 2), (1, 2), (2, 3), (3, 4), (3, 5), (4, 5)]
    instance = replace(graph(edges, 6), contiguity="free", accelerators=2)
    device = solved(metis, instance)
    assert device in ([0, 0, 0, 1, 1, 1], [1, 1, 1, 0, 0, 0])
    assert verify(instance, device).cost == 13


def test_metis_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pymetis", None)
    with pytest.raises(Declined, match="pymetis is not installed: install pymetis, or the extra partition"):
        metis(replace(graph([(0, 1)], 2), contiguity="free"), LocalRun())


def test_partitioners_get_each_tensor_once_for_two_blocks() -> None:
    """Node 0 feeds both nodes of a block, which sends back: 1 + 1 between the two, and work as 2 to 1."""
    instance = graph([(0, 1), (0, 2), (1, 3), (2, 4)], 5)
    given = graph_of(instance, np.array([0, 1, 1, 0, 2]))
    assert given.start.tolist() == [0, 1, 3, 4]
    assert given.other.tolist() == [1, 2, 0, 1]
    assert (given.weight / given.weight[-1]).tolist() == pytest.approx([2, 1, 2, 1], rel=1e-6)
    assert (given.work / given.work[-1]).tolist() == pytest.approx([2, 2, 1], rel=1e-6)
    assert graph_file(given).splitlines()[:4] == ["0", "3 4", "0 011", f"{given.work[0]} 1 {given.weight[0]} 1"]


@pytest.mark.parametrize("seed", range(10))
def test_subgraphs_of_any_placement_have_a_schedule(seed: int) -> None:
    draw = random.Random(seed)
    for _ in range(some_of(20)):
        instance = draw_instance(draw, most_nodes=9, objective="latency", contiguity="free")
        device = np.array([draw.randrange(instance.accelerators + instance.cpus) for _ in range(instance.nodes)])
        verdict = verify(instance, {"device": device.tolist(), "slot": slots(instance, device).tolist()})
        assert verdict.cost is not None, verdict.violations


def test_a_subgraph_goes_on_until_a_path_returns() -> None:
    """Nodes 0 and 1 can be done together, as what node 1 waits for does not wait for its device; node 2 cannot."""
    instance = graph([(3, 1), (1, 4), (4, 2)], 5)
    assert slots(instance, np.array([0, 0, 0, 1, 1])).tolist() == [0, 0, 1, 0, 1]
    many = replace(instance, accelerators=2**31 - 1)
    assert slots(many, np.array([7, 7, 7, 2**31 - 2, 2**31 - 2])).tolist() == [0, 0, 1, 0, 1]


# ---------------------------------------------------------------- the split for throughput, for latency


@pytest.mark.parametrize("seed", range(6))
def test_the_max_load_split_is_best_for_throughput_and_has_a_schedule(seed: int) -> None:
    draw, found = random.Random(seed), 0
    for _ in range(some_of(10)):
        instance = draw_instance(draw, most_nodes=5, objective="latency")
        loaded = replace(instance, objective="throughput", contiguity="acyclic")
        best = optimum(loaded)
        if best is None:
            with pytest.raises(Declined, match="no acyclic placement is known to fit the memory"):
                max_load_dp(instance, LocalRun())
            continue
        device = solved(max_load_dp, instance)
        assert verify(loaded, device).cost == pytest.approx(float(best))
        assert verify(instance, device).feasible
        found += 1
    assert found > some_of(3)


def test_the_max_load_split_is_for_latency_and_in_time() -> None:
    instance = embedded("sandwich-latency")
    with pytest.raises(Declined, match="for throughput the split is that of dp"):
        max_load_dp(replace(instance, objective="throughput"), LocalRun())
    with pytest.raises(Declined, match="the time ended before the ideals were listed"):
        max_load_dp(instance, LocalRun(timeout=0.0))


@pytest.mark.skipif(not MIRROR, reason="needs SHARDMARK_MIRROR")
def test_the_max_load_split_of_bert_24_is_that_of_the_paper() -> None:
    path = PUBLISHED / "latency-inputs" / "LayerGraphs" / "bert24_inference.json"
    assert cost(max_load_dp, load(path, objective="latency")) == pytest.approx(108.03, abs=0.005)


# ---------------------------------------------------------------- placements by hand


@pytest.mark.skipif(not MIRROR, reason="needs SHARDMARK_MIRROR")
@pytest.mark.parametrize(
    ("name", "split", "printed"),
    [
        ("bert24_inference", "bert24_inference", 20.08),
        ("bert24_training", "bert24_training", 49.40),
        ("resnet50_training", "resnet50_inference", 112.11),
    ],
)
def test_the_experts_of_the_paper_place_as_it_prints(name: str, split: str, printed: float) -> None:
    instance = load(PUBLISHED / "throughput-inputs" / "LayerGraphs" / f"{name}.json")
    text = (PUBLISHED / "human-experts" / f"{split}_expert.json").read_text()
    assert cost(expert, instance, split=text) == pytest.approx(printed, abs=0.005)


@pytest.mark.skipif(not MIRROR, reason="needs SHARDMARK_MIRROR")
def test_greedy_places_bert_24_as_the_paper_does() -> None:
    instance = load(PUBLISHED / "latency-inputs" / "LayerGraphs" / "bert24_inference.json", objective="latency")
    assert cost(greedy, instance) == pytest.approx(100.22, abs=0.005)
