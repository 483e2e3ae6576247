"""The anchored bound: against every set and every placement of small graphs, and where it ends early."""

from __future__ import annotations

import os
import random
from collections import Counter
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from placements import draw_instance, judge, placements

from instances import load
from instances.placement import Instance, parse
from solvers.native import anchor
from solvers.placement._spaces import spaces
from solvers.placement.anchored import anchored
from solvers.registry import Declined, LocalRun

MIRROR = os.environ.get("SHARDMARK_MIRROR")
PUBLISHED = Path(MIRROR or "") / "msr-fiddle" / "dnn-partitioning" / "throughput-inputs"

GO = np.zeros(1, dtype=np.int32)


def least(instance: Instance) -> float | None:
    """What the best placement costs; with replicas, the best with any number of devices in the first two stages."""
    places: list[Any] = list(placements(instance))
    if instance.allreduce is not None:
        places += staged(instance)
    worth = [judge(instance, place) for place in places]
    return min((float(cost) for feasible, cost, _ in worth if feasible and cost is not None), default=None)


def staged(instance: Instance) -> list[Any]:
    """Placements where some accelerators, and some CPUs, do a stage together."""
    k, both = instance.accelerators, instance.accelerators + instance.cpus
    found = []
    for a, b in product(range(1, k + 1) or [0], range(k + 1, both + 1) or [k]):
        groups = [list(range(a)), list(range(k, b)), *([i] for i in (*range(a, k), *range(b, both)))]
        groups = [group for group in groups if group]
        choices = product(range(len(groups)), repeat=int(instance.unit.max()) + 1)
        found += [{"stage": [choice[u] for u in instance.unit.tolist()], "replicas": groups} for choice in choices]
    return found


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
        best = least(instance)
        if best is not None:
            assert 0 <= max(run.bounds) <= best
            compared["tight" if max(run.bounds) >= best * (1 - 1e-9) else "loose"] += 1
    assert compared["tight"] > 0


def by_hand(instance: Instance, cost: Any, work: Any, price: Any) -> int:
    """The kernel's answer from all sets."""
    nets, n = spaces(instance)[0].devices.nets, len(work)
    held = [set(nets.of[nets.start[v] : nets.start[v + 1]].tolist()) for v in range(n)]
    best = price.tolist()
    for chosen in product((False, True), repeat=n):
        inside = [v for v in range(n) if chosen[v]]
        if inside and all(work[v] >= 0 for v in inside):
            some = set().union(*(held[v] for v in inside))
            cut = some & set().union(set(), *(held[v] for v in range(n) if not chosen[v]))
            total = sum(work[v] for v in inside) + sum(cost[net] for net in cut)
            best = [min(best[v], total) if chosen[v] else best[v] for v in range(n)]
    return int(max(best))


@pytest.mark.parametrize("seed", range(12))
def test_the_kernel_finds_the_cheapest_sets(seed: int) -> None:
    draw, rng = random.Random(seed), np.random.default_rng(seed)
    for _ in range(6):
        instance = draw_instance(draw, most_nodes=8, contiguity="free")
        nets, n = spaces(instance)[0].devices.nets, int(instance.unit.max()) + 1
        cost, work = rng.integers(0, 9, len(nets.cost)), rng.integers(-1, 9, n)
        price = rng.integers(0, 40, n)
        assert anchor(nets, cost, work, price, GO) == by_hand(instance, cost, work, price)


def test_neighbours_are_cheaper_than_their_tensors_or_not() -> None:
    """A chain of 4, 1, 1: beside the first are done the other two, or their tensor is paid, whichever is less."""
    nodes = [
        {"id": v, "fpgaLatency": t, "cpuLatency": 99, "supportedOnFpga": 1, "isBackwardNode": 0, "size": 1}
        for v, t in enumerate((4, 1, 1))
    ]

    def bound(cost: float, **options: Any) -> float:
        edges = [{"sourceId": u, "destId": u + 1, "cost": cost} for u in (0, 1)]
        document = {"maxFPGAs": 3, "maxCPUs": 1, "maxSizePerFPGA": 9, "nodes": nodes, "edges": edges}
        run = LocalRun()
        anchored(parse(document, "chain", **options), run)
        return max(run.bounds)

    assert bound(1.5) == pytest.approx(5.5)
    assert bound(7) == pytest.approx(6)
    assert bound(0.5) == pytest.approx(4.5)
    assert bound(7, schedule="gpipe") == pytest.approx(6)
    assert bound(1.5, overlap="half") == pytest.approx(4)
    assert bound(7, overlap="half") == pytest.approx(4.5)
    assert bound(1.5, allreduce=0.5) == pytest.approx((4 + 1.5 + 2 * 2) / 3)


def test_what_only_a_cpu_can_do_is_paid_there() -> None:
    draw = random.Random(1)
    instance = replace(draw_instance(draw, contiguity="free"), cpus=2)
    alone = replace(instance, accelerators=0)
    run = LocalRun()
    anchored(alone, run)
    assert max(run.bounds) == pytest.approx(float(instance.of_units(instance.cpu_time).max()))


def test_it_declines_a_single_sample_and_replicas_that_overlap() -> None:
    draw = random.Random(1)
    for options, reason in (
        ({"objective": "latency"}, "single sample"),
        ({"allreduce": 1.0, "overlap": "half"}, "overlap none only"),
    ):
        with pytest.raises(Declined, match=reason):
            anchored(draw_instance(draw, **options), LocalRun())


def test_without_time_it_bounds_by_nothing_that_is_not_proved() -> None:
    draw = random.Random(2)
    instance = draw_instance(draw, contiguity="free")
    run = LocalRun(seconds=0.0)
    anchored(instance, run)
    assert all(0 <= value <= (least(instance) or 0) for value in run.bounds)
    stopped = np.ones(1, dtype=np.int32)
    nets, n = spaces(instance)[0].devices.nets, int(instance.unit.max()) + 1
    work, price = np.ones(n, dtype=np.int64), np.full(n, 50, dtype=np.int64)
    assert anchor(nets, np.ones(len(nets.cost), dtype=np.int64), work, price, stopped) == 0


@pytest.mark.skipif(not MIRROR, reason="needs SHARDMARK_MIRROR")
@pytest.mark.parametrize(("name", "optimum"), [("bert_l-3_inference", 21.91), ("bert_l-3_training", 54.21)])
def test_it_is_the_published_optimum_of_bert_3(name: str, optimum: float) -> None:
    run = LocalRun()
    anchored(load(PUBLISHED / "OperatorGraphs" / f"{name}.json", contiguity="free"), run)
    assert max(run.bounds) == pytest.approx(optimum, abs=0.005)
