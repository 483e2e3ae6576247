"""The anchored bound: against every set and every placement of small graphs, and where it ends early."""

from __future__ import annotations

import math
import os
import random
from collections import Counter
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from effort import some_of
from oracle_placement import optimum
from placements import built, draw_instance

from shardmark.instances import load
from shardmark.instances.placement import Instance
from shardmark.solvers.placement.bounds.anchored import anchored
from shardmark.solvers.placement.kernels.loads import cheapest_with
from shardmark.solvers.placement.throughput import anchored as anchored_module
from shardmark.solvers.placement.throughput.moves import spaces
from shardmark.solvers.placement.throughput.simple_bounds import load_bound
from shardmark.solvers.registry import Declined, LocalRun

pytestmark = pytest.mark.gate(cases=2)

MIRROR = os.environ.get("SHARDMARK_MIRROR")
PUBLISHED = Path(MIRROR or "") / "msr-fiddle" / "dnn-partitioning" / "throughput-inputs"

GO = np.zeros(1, dtype=np.int32)


@pytest.mark.thorough(cases=4)
@pytest.mark.parametrize("seed", range(8))
def test_it_is_at_or_below_the_best_placement(seed: int) -> None:
    draw, compared = random.Random(seed), Counter[str]()
    while compared.total() < 8:
        instance = draw_instance(draw, most_nodes=4)
        run = LocalRun()
        try:
            anchored(instance, run)
        except Declined:
            assert instance.objective == "latency" or (instance.allreduce and instance.overlap != "none")
            continue
        best = optimum(instance)
        if best is not None:
            assert 0 <= max(run.bounds) <= best
            compared["tight" if max(run.bounds) >= best * (1 - 1e-9) else "loose"] += 1
    assert compared["tight"] > 0


@pytest.mark.parametrize("seed", range(4))
def test_it_is_at_or_below_the_best_placement_whatever_the_times(seed: int) -> None:
    """Some of one kind of times, or all of them, are far less than the rest, or far more."""
    draw, compared = random.Random(seed), 0
    while compared < some_of(12):
        instance, factor = draw_instance(draw, most_nodes=4, **throughput(draw)), 10.0 ** draw.randint(-9, 9)
        name = draw.choice(["accelerator_time", "cpu_time", "transfer"])
        each = np.array([draw.choice([1.0, factor, factor]) for _ in range(instance.nodes)])
        instance = replace(instance, **{name: getattr(instance, name) * each})
        best = optimum(instance)
        if best is not None:
            run = LocalRun()
            anchored(instance, run)
            assert 0 <= max(run.bounds) <= best
            compared += 1


def throughput(draw: random.Random) -> dict[str, Any]:
    """Options that the bound knows."""
    options: dict[str, Any] = draw.choice(
        [{}, {"schedule": "gpipe"}, {"cluster": 1, "slowdown": 3.0}, {"allreduce": 8.0}]
    )
    overlap = "none" if "allreduce" in options else draw.choice(["none", "half", "full"])
    return {"contiguity": draw.choice(["contiguous", "acyclic", "free"]), "overlap": overlap, **options}


@pytest.mark.parametrize(("accelerators", "supported"), [(0, True), (1, False)])
def test_where_there_is_far_more_work_for_cpus_than_on_accelerators(accelerators: int, supported: bool) -> None:
    """Work of 1e6 is for the CPU, while an accelerator has 1e-6 and a transfer of 1e-9 at most, or there is none."""
    given = {"devices": (accelerators, 1), "cpu": (1e6, 1e-6), "supported": (supported, True)}
    for options in ({}, {"overlap": "full"}, {"contiguity": "acyclic"}, {"contiguity": "free"}):
        run = LocalRun()
        anchored(built([1e-6, 1e-6], [(0, 1, 1e-15)], **given, **options), run)
        assert max(run.bounds) == pytest.approx(1e6)


def by_hand(instance: Instance, cost: Any, work: Any, floor: int) -> list[int]:
    """The kernel's answer from all sets."""
    nets, n = spaces(instance)[0].devices.nets, len(work)
    held = [set(nets.of[nets.start[v] : nets.start[v + 1]].tolist()) for v in range(n)]
    least = [math.inf] * n
    for chosen in product((False, True), repeat=n):
        inside = [v for v in range(n) if chosen[v]]
        if inside and all(work[v] >= 0 for v in inside):
            some = set().union(*(held[v] for v in inside))
            cut = some & set().union(set(), *(held[v] for v in range(n) if not chosen[v]))
            total = sum(work[v] for v in inside) + sum(cost[net] for net in cut)
            least = [min(least[v], total) if chosen[v] else least[v] for v in range(n)]
    return [int(value) if floor < value < math.inf else 0 for value in least]


@pytest.mark.parametrize("seed", range(12))
def test_the_kernel_finds_the_cheapest_sets(seed: int) -> None:
    draw, rng = random.Random(seed), np.random.default_rng(seed)
    for _ in range(6):
        instance = draw_instance(draw, most_nodes=8, contiguity="free")
        nets, n = spaces(instance)[0].devices.nets, int(instance.unit.max()) + 1
        cost, work = rng.integers(0, 9, len(nets.cost)), rng.integers(-1, 9, n)
        floor = int(rng.integers(0, 12))
        assert cheapest_with(nets, cost, work, floor, GO).tolist() == by_hand(instance, cost, work, floor)


def test_neighbours_are_cheaper_than_their_tensors_or_not() -> None:
    """A chain of 4, 1, 1: the first device also does the other two or pays for their tensor, whichever is less."""

    def bound(cost: float, **options: Any) -> float:
        run = LocalRun()
        anchored(built([4, 1, 1], [(0, 1, cost), (1, 2, cost)], (3, 1), cpu=99, **options), run)
        return max(run.bounds)

    assert bound(1.5) == pytest.approx(5.5)
    assert bound(7) == pytest.approx(6)
    assert bound(0.5) == pytest.approx(4.5)
    assert bound(7, schedule="gpipe") == pytest.approx(6)
    assert bound(1.5, overlap="half") == pytest.approx(4)
    assert bound(7, overlap="half") == pytest.approx(4.5)
    assert bound(1.5, allreduce=0.5) == pytest.approx((4 + 1.5 + 2 * 2) / 3)


def test_what_is_too_much_for_accelerators_is_on_cpus_together() -> None:
    """Four pairs take an accelerator 32, and its half 46; all take CPUs 96 in all: 12 for each node alone."""
    pairs = [(u, u + 1, 30) for u in range(0, 8, 2)]
    for cpus, expected in ((1, 32), (2, 32), (4, 24), (0, 32)):
        run = LocalRun()
        anchored(built([16] * 8, pairs, (9, cpus, 99), cpu=12, contiguity="free"), run)
        assert max(run.bounds) == pytest.approx(expected)


def test_it_declines_a_single_sample_and_replicas_that_overlap() -> None:
    draw = random.Random(1)
    for options, reason in (
        ({"objective": "latency"}, "anchored is for throughput"),
        ({"allreduce": 1.0, "overlap": "half"}, "overlap none only"),
    ):
        with pytest.raises(Declined, match=reason):
            anchored(draw_instance(draw, **options), LocalRun())


def test_without_time_it_bounds_by_work_alone() -> None:
    instance, run = draw_instance(random.Random(2), contiguity="free"), LocalRun(timeout=0.0)
    anchored(instance, run)
    assert max(run.bounds) <= (optimum(instance) or 0)
    stopped = np.ones(1, dtype=np.int32)
    nets, n = spaces(instance)[0].devices.nets, int(instance.unit.max()) + 1
    found = cheapest_with(nets, np.ones(len(nets.cost), dtype=np.int64), np.ones(n, dtype=np.int64), 0, stopped)
    assert found.tolist() == [0] * n


@pytest.mark.parametrize("looks", range(4))
def test_an_end_before_all_places_are_looked_at_gives_a_lesser_bound(
    monkeypatch: pytest.MonkeyPatch, looks: int
) -> None:
    draw, lesser = random.Random(looks), 0
    for _ in range(some_of(12)):
        instance = draw_instance(draw, most_nodes=9, contiguity="free")
        (space,) = spaces(instance)
        rng = np.random.default_rng(draw.randrange(99))
        least, spread = 9 * rng.random(len(space.devices.size)), load_bound(instance)
        whole = anchored_module._settled(instance, space, least, spread, math.inf)
        times = iter([0.0] * looks + [2.0])
        monkeypatch.setattr(anchored_module.time, "monotonic", partial(next, times, 2.0))
        part = anchored_module._settled(instance, space, least, spread, 1.0)
        monkeypatch.undo()
        assert spread <= part <= whole
        lesser += part < whole
    assert lesser > 0 or looks > 1


@pytest.mark.skipif(not MIRROR, reason="needs SHARDMARK_MIRROR")
@pytest.mark.parametrize(
    ("name", "least"), [("bert_l-3_inference", 21.91), ("bert_l-3_training", 54.21), ("resnet50_inference", 124.35)]
)
def test_it_is_the_published_optimum_of_operator_graphs(name: str, least: float) -> None:
    run = LocalRun()
    anchored(load(PUBLISHED / "OperatorGraphs" / f"{name}.json", contiguity="free"), run)
    assert max(run.bounds) == pytest.approx(least, abs=0.005)
