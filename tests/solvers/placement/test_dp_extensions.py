"""Overlapped transfers, replicas and clusters in the dynamic program: against every placement of small graphs."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from effort import some_of
from oracle_placement import Group, Oracle, optimum
from patience import given_time
from placements import built, cost_of, draw_instance, judged

from shardmark.instances.placement import Instance
from shardmark.solvers.placement.dp import dp, dpl
from shardmark.solvers.placement.ideals.contraction import contractions
from shardmark.solvers.placement.ideals.dynamic_program import IdealProgram, Placement
from shardmark.solvers.placement.ideals.linear_extension import in_pieces
from shardmark.solvers.placement.ideals.splits import ideal_programs
from shardmark.solvers.registry import Declined, LocalRun

pytestmark = pytest.mark.gate(cases=2)

GO = np.zeros(1, dtype=np.int32)  # never stops

OVERLAPS = ("none", "half", "full")


def drawn(kind: str, count: int, seed: int, most_nodes: int = 6) -> list[Instance]:
    """Instances with an extension each, in the mode ``acyclic``."""
    draw, found = random.Random(seed), list[Instance]()
    for i in range(count):
        options: dict[str, Any] = {"contiguity": "acyclic", "overlap": OVERLAPS[i % 3]}
        if kind == "overlap":
            options["overlap"] = OVERLAPS[1 + i % 2]
        if kind == "replicas":
            options["allreduce"] = draw.choice([0.5, 2.0, 8.0, 50.0])
        if kind == "clusters":
            options |= {"cluster": draw.randint(1, 2), "slowdown": draw.choice([1.5, 3.0])}
        found.append(draw_instance(draw, most_nodes, **options))
    return found


@pytest.mark.parametrize("kind", ["overlap", "replicas"])
def test_equals_the_best_of_all_placements(kind: str) -> None:
    replicated = 0
    for instance in drawn(kind, some_of(200), 1):
        best, run = optimum(instance), LocalRun()
        if best is None:
            with pytest.raises(Declined, match=r"^no placement fits the memory of the accelerators$"):
                dp(instance, run)
            continue
        dp(instance, run)
        assert float(judged(instance, run.solutions[-1])) == pytest.approx(float(best), rel=1e-9)
        assert best * (1 - 1e-9) - 1e-12 <= run.bounds[-1] <= best
        replicated += isinstance(run.solutions[-1], dict)
    assert replicated > some_of(50) or kind != "replicas"


@pytest.mark.parametrize("kind", ["overlap", "replicas"])
def test_linear_extensions_give_splits_no_better_than_the_best(kind: str) -> None:
    for instance in drawn(kind, some_of(60), 2):
        run, least = LocalRun(), optimum(instance) or 0
        dpl(instance, run)
        assert all(judged(instance, solution) >= least for solution in run.solutions)


def split(instance: Instance) -> Placement | None:
    """Return the best placement along ideals, without a limit on its cost."""
    best: Placement | None = None
    for program in ideal_programs(instance, GO):
        best = program.best(program.ideals(100.0), best.cost if best else math.inf) or best
    return best


def best_in_turn(instance: Instance) -> float:
    """The least cost of placements whose clusters follow one another, each on a part of a chain."""
    oracle, size = Oracle(instance), instance.cluster or 1

    def follow(groups: Sequence[Group]) -> bool:
        clusters: dict[int, set[int]] = {}
        for nodes, devices in groups:
            clusters.setdefault(devices[0] // size, set()).update(nodes)
        return oracle.acyclic([frozenset(nodes) for nodes in clusters.values()])

    return float(min(oracle.throughput(groups) for groups in oracle.splits() if follow(groups)))


@pytest.mark.gate
def test_clusters_that_follow_one_another_are_split_as_well_as_that_can_be_done() -> None:
    best = 0
    for instance in drawn("clusters", some_of(200), 3):
        found, least = split(instance), optimum(instance)
        if found is None:
            assert least is None
            continue
        assert least is not None
        assert least <= judged(instance, found.solution) <= found.cost * (1 + 1e-9)
        if not instance.cpus:
            assert found.cost == pytest.approx(best_in_turn(instance), rel=1e-9)
            best += 1
    assert best > some_of(30)


def test_bounds_of_clusters_are_those_of_one() -> None:
    for instance in drawn("clusters", some_of(60), 4):
        near, run = LocalRun(), LocalRun()
        try:
            dp(instance, run)
        except Declined:
            continue
        dp(replace(instance, cluster=None, slowdown=1.0), near)
        assert run.bounds == pytest.approx(near.bounds, rel=1e-9, abs=1e-9)
        assert run.bounds[-1] <= (optimum(instance) or math.inf)


def row(times: list[float], cost: float, accelerators: int, **options: Any) -> Instance:
    """Nodes one after the other with room for all, unsupported on CPUs as they take too long."""
    edges = [(*ends, cost) for ends in pairwise(range(len(times)))]
    return built(times, edges, (accelerators, 0, 99999), cpu=1000, contiguity="acyclic", **options)


def solved(instance: Instance) -> tuple[float, LocalRun]:
    dp(instance, run := LocalRun())
    return cost_of(instance, run.solutions[-1]), run


@pytest.mark.parametrize(("overlap", "expected"), [("none", 9.0), ("half", 6.0), ("full", 5.0)])
def test_a_device_in_the_middle_hides_what_it_sends(overlap: str, expected: float) -> None:
    assert solved(row([5, 3, 5], 3, 3, overlap=overlap))[0] == expected


def test_the_heavy_node_of_a_row_gets_replicas() -> None:
    cost, run = solved(row([2, 8, 2], 0, 6, allreduce=1e9))
    assert cost == pytest.approx(2)
    assert run.solutions[-1] == {"stage": [0, 1, 2], "replicas": [[0], [1, 2, 3, 4], [5]]}


def test_the_cut_between_clusters_is_where_little_is_sent() -> None:
    instance = row([4, 4, 4, 4, 4, 4], 1, 4, cluster=2, slowdown=10.0)
    cheap = instance.transfer.copy()
    cheap[1] = 0.0
    cost, run = solved(replace(instance, transfer=cheap))
    assert (np.array(run.solutions[-1]) // 2).tolist() == [0, 0, 1, 1, 1, 1]
    assert cost == 9


def test_clusters_of_different_sizes_take_what_suits_them() -> None:
    """The last accelerator is a cluster of its own, and the best place for it is the first one."""
    instance = replace(row([9, 3, 3, 3, 3], 1, 3, cluster=2, slowdown=8.0), transfer=np.array([0.0, 1, 1, 1, 0]))
    cost, run = solved(instance)
    assert run.solutions[-1].tolist()[0] == 2
    assert cost == 9


def graph(times: list[float], edges: list[tuple[int, int, float]], backward: int, **options: Any) -> Instance:
    """Nodes on three accelerators that have room for all, those from one on backward."""
    columns = {"cpu": 99, "size": 0, "backward": [v >= backward for v in range(len(times))]}
    return built(times, edges, (3, 0, 99), contiguity="acyclic", **columns, **options)


def test_what_saves_a_transfer_out_is_not_merged_for_it_where_transfers_in_are_apart() -> None:
    """The last node takes no time, but two transfers in are too many in addition to the one before it."""
    edges = [(0, 3, 3.0), (1, 2, 4.0), (2, 3, 5.0)]
    assert solved(graph([5, 5, 5, 0], edges, backward=2, overlap="full"))[0] == 5


def test_tensors_both_ways_between_two_devices_are_not_one_where_directions_are_apart() -> None:
    edges = [(0, 1, 6.0), (2, 3, 6.0)]
    instance = graph([2, 3, 3, 2], edges, backward=2, overlap="full", colour=[0, 1, 1, 0])
    assert solved(instance)[0] == 6
    assert solved(replace(instance, overlap="half"))[0] == 10


def test_what_has_a_size_is_not_merged_where_replicas_synchronise() -> None:
    instance = replace(row([0, 8], 0, 3, allreduce=1.0), size=np.array([100.0, 0.0]))
    assert solved(instance)[0] == 4


@pytest.mark.parametrize("options", [{}, {"overlap": "full"}, {"allreduce": 5.0}, {"cluster": 2, "slowdown": 2.0}])
def test_long_rows_are_first_cut_between_pieces(options: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shardmark.solvers.placement.ideals.dynamic_program.CHAINED", (20, 4))
    rng = np.random.default_rng(1)
    instance = row((rng.random(150) * 9).tolist(), 0, 4, **options)
    instance = replace(instance, transfer=rng.random(instance.nodes))
    dpl(instance, run := LocalRun())
    found = [cost_of(instance, solution) for solution in run.solutions]
    assert len(found) > 1
    assert sorted(found, reverse=True) == found
    (program,) = ideal_programs(instance, GO)
    whole = program.best(program.prefixes(1000.0), math.inf)
    assert whole is not None
    assert found[-1] == pytest.approx(whole.cost, rel=1e-9)


def test_pieces_cost_what_their_items_do_together() -> None:
    for instance in drawn("overlap", 50, 5):
        for contracted in contractions(instance):
            pieces = in_pieces(contracted, 3)
            program = IdealProgram(instance, pieces, np.zeros(1, dtype=np.int32))
            found = program.best(program.prefixes(100.0), math.inf)
            if found is not None:
                assert float(judged(instance, found.solution)) == pytest.approx(found.cost, rel=1e-9)


@pytest.mark.gate
@pytest.mark.parametrize("accelerators", [400_000, 2**31 - 1])
def test_so_many_devices_that_time_or_memory_does_not_suffice_leave_what_fewer_can_do(accelerators: int) -> None:
    """Two nodes of time 3 that hold nothing: each of k devices does 6 / k, as many as were looked at in time."""
    instance = replace(row([3.0, 3.0], 0.0, 2), allreduce=1.0, accelerators=accelerators)
    instance = replace(instance, size=np.zeros(2))

    def within(seconds: float) -> float:
        run = LocalRun(timeout=seconds)
        dpl(instance, run)
        assert time.monotonic() < run.deadline + 60
        return min((cost_of(instance, solution) for solution in run.solutions), default=math.inf)

    assert given_time(within, lambda least: least <= 6 / 512) <= 6 / 512
