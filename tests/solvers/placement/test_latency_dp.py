"""Dynamic programs for latency: against every placement of small graphs, on graphs of the paper, and where they end."""

from __future__ import annotations

import os
import random
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from effort import some_of
from oracle_placement import judge, optimum
from placements import built, cost_of, crossing, draw_instance

from shardmark.instances import load
from shardmark.instances.placement import Instance
from shardmark.solvers.placement.latency import ideals as ideals_module
from shardmark.solvers.placement.latency.ideals import Schedules
from shardmark.solvers.placement.latency_dp import chains, latency_dp
from shardmark.solvers.placement.latency_ip import ip
from shardmark.solvers.registry import Declined, LocalRun

ATTACK = Path(__file__).parents[2] / "data" / "attack"
MIRROR = os.environ.get("SHARDMARK_MIRROR", "")
mirrored = pytest.mark.skipif(not MIRROR, reason="SHARDMARK_MIRROR does not name the public data")


def small(draw: random.Random, contiguity: str = "contiguous", training: bool = False) -> Instance:
    while True:
        instance = draw_instance(draw, 6, objective="latency", contiguity=contiguity)
        ways = (instance.accelerators + instance.cpus) ** (int(instance.unit.max()) + 1)
        if ways <= 100 and training == instance.training:
            return instance


def test_equals_the_best_placement_of_an_inference_graph() -> None:
    draw, found = random.Random(1), 0
    for _ in range(some_of(40)):
        instance, run = small(draw), LocalRun()
        best = optimum(instance)
        if best is None:
            with pytest.raises(Declined, match="no placement fits the memory"):
                latency_dp(instance, run)
            continue
        latency_dp(instance, run)
        assert cost_of(instance, run.solutions[-1]) == pytest.approx(float(best), rel=1e-9)
        assert best * (1 - 1e-9) <= max(run.bounds, default=0.0) <= best
        found += 1
    assert found > some_of(30)


def test_a_first_limit_far_below_the_best_and_one_far_above_find_the_same() -> None:
    draw, stop = random.Random(2), np.zeros(1, dtype=np.int32)
    for _ in range(30):
        instance = small(draw)
        for one in (False, True):
            once = [bound for bound, _ in Schedules(instance, stop, one).bounds(100, 0.0, 1e6)]
            often = [bound for bound, _ in Schedules(instance, stop, one).bounds(100, 1e-3, 1e6)]
            assert often == sorted(often)
            assert len(once) == 1
            assert once[-1] == pytest.approx(often[-1], rel=1e-9)


@pytest.mark.parametrize("contiguity", ["contiguous", "free"])
@pytest.mark.parametrize("training", [False, True])
def test_chains_bound_any_graph(contiguity: str, training: bool) -> None:
    draw, equal = random.Random(f"{contiguity} {training}"), 0
    for _ in range(some_of(25)):
        instance, run = small(draw, contiguity, training), LocalRun()
        chains(instance, run)
        best = optimum(instance)
        if best is None:
            continue
        assert max(run.bounds) <= best
        equal += max(run.bounds) >= best * (1 - 1e-9)
    assert equal > some_of(10)


def test_no_tensor_leaves_a_sum_with_an_error_behind() -> None:
    """(1e16 + 3.3) - 1e16 is 4: the bound was 7.7, the best schedule ends at 7."""
    instance = load(ATTACK / "chains_false_bound.json")
    for method in (chains, latency_dp, ip):
        run = LocalRun()
        method(instance, run)
        assert 7 * (1 - 1e-11) < max(run.bounds) <= 7
    assert judge(instance, [0, 1, 1]) == (True, Fraction(3.3) * 2 + Fraction(0.3) + Fraction(0.1))


@pytest.mark.gate
@pytest.mark.parametrize("contiguity", ["contiguous", "free"])
def test_chains_bound_graphs_with_tensors_of_any_size(contiguity: str) -> None:
    draw, tight = random.Random(f"any size {contiguity}"), 0
    for _ in range(some_of(30)):
        drawn, run = small(draw, contiguity), LocalRun()
        sizes = np.array([draw.choice([0.1, 1.3, 3.3, 1e16, 1e300]) for _ in range(drawn.nodes)])
        supported = np.ones(drawn.nodes, dtype=bool)
        instance = replace(drawn, cpus=0, accelerators=3, memory=1e300, supported=supported, transfer=sizes)
        chains(instance, run)
        best = optimum(instance)
        if best is not None:
            assert max(run.bounds) <= best
            tight += max(run.bounds) >= best * (1 - 1e-11)
    assert tight > some_of(10)


def test_other_objectives_and_training_are_declined() -> None:
    draw = random.Random(4)
    throughput = draw_instance(draw, 4, objective="throughput")
    with pytest.raises(Declined, match="latency-dp is for latency"):
        latency_dp(throughput, LocalRun())
    with pytest.raises(Declined, match="chains is for latency"):
        chains(throughput, LocalRun())
    with pytest.raises(Declined, match="for inference graphs"):
        latency_dp(small(draw, training=True), LocalRun())


def independent(count: int) -> Instance:
    """So many nodes without edges, 2 ** count ideals."""
    return built([1] * count, (), (2, 1, count - 1), cpu=range(1, count + 1), objective="latency")


def test_too_many_ideals_are_declined_with_their_number() -> None:
    for method in (chains, latency_dp):
        run = LocalRun(memory=1.0)
        with pytest.raises(Declined, match=r"more than [0-9,]+ ideals, too many for 1 MiB; search takes any graph"):
            method(independent(20), run)
        assert not run.solutions


def test_times_that_do_not_fit_the_memory_leave_the_bounds_before(monkeypatch: pytest.MonkeyPatch) -> None:
    instance, stop = independent(10), np.zeros(1, dtype=np.int32)
    whole = [bound for bound, _ in Schedules(instance, stop, True).bounds(100, 0.1, 100.0)]
    monkeypatch.setattr(ideals_module, "TIMES_SHARE", 0.0)
    assert len(whole) > 1
    assert list(Schedules(instance, stop, True).bounds(100, 0.1, 100.0)) == []


def test_a_search_that_is_stopped_bounds_nothing() -> None:
    with pytest.raises(Declined, match="the time ended before the ideals were listed"):
        list(Schedules(independent(10), np.ones(1, dtype=np.int32), True).bounds(100, 0.1, 100.0))


@pytest.mark.parametrize("method", [latency_dp, ip])
def test_that_one_subgraph_each_does_not_fit_is_not_said_of_any_number(method: Any) -> None:
    """Of rows a -> b and c -> d only {a, d} and {b, c} fit an accelerator each, and they wait for each other."""
    for contiguity, which in (("free", " with one subgraph an accelerator"), ("contiguous", "")):
        instance = crossing(1.0, contiguity=contiguity)
        with pytest.raises(Declined, match=f"^no placement{which} fits the memory of the accelerators"):
            method(instance, LocalRun())


@mirrored
@pytest.mark.thorough(cases=2)
@pytest.mark.parametrize(
    ("name", "contiguity", "latency"),
    [
        ("bert24_inference", "contiguous", 100.2185),
        ("bert24_inference", "free", 100.2185),
        ("resnet50_inference", "contiguous", 1156.88128125),
        ("resnet50_inference", "free", 1156.88128125),
    ],
)
def test_layer_graphs_of_the_paper_have_the_latency_proved(name: str, contiguity: str, latency: float) -> None:
    """Table 4 has 100.22 and, with a gap of 93 %, 1191.02."""
    path = Path(MIRROR, "msr-fiddle", "dnn-partitioning", "latency-inputs", "LayerGraphs", f"{name}.json")
    instance = load(path, objective="latency", contiguity=contiguity)
    run = LocalRun(timeout=30)
    latency_dp(instance, run)
    assert cost_of(instance, run.solutions[-1]) == pytest.approx(latency, rel=1e-9)
    assert max(run.bounds) == pytest.approx(latency, rel=1e-9)
