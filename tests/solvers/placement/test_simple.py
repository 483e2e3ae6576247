"""The first solvers and bounds of ``placement``: against every placement of small graphs, and what they decline."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from effort import some_of
from oracle_placement import optimum
from placements import built, cost_of, draw_instance, plain

from shardmark.harness.verify import verify
from shardmark.instances import catalog, load
from shardmark.instances.placement import Instance
from shardmark.solvers.placement.bounds.critical_path import critical_path
from shardmark.solvers.placement.bounds.load import load as load_bound
from shardmark.solvers.placement.bounds.memory_path import memory_path
from shardmark.solvers.placement.bounds.node import node
from shardmark.solvers.placement.dp import dp
from shardmark.solvers.placement.equal_parts import equal_parts
from shardmark.solvers.placement.expert import expert
from shardmark.solvers.placement.greedy import greedy
from shardmark.solvers.placement.latency import memory_path as memory_path_module
from shardmark.solvers.placement.latency_dp import latency_dp
from shardmark.solvers.placement.latency_ip import ip
from shardmark.solvers.placement.one_accelerator import one_accelerator
from shardmark.solvers.placement.throughput import simple_bounds
from shardmark.solvers.placement.throughput.pooled import pooled_bound
from shardmark.solvers.placement.throughput_ip import ip_contiguous, ip_noncontiguous
from shardmark.solvers.registry import Declined, LocalRun


def embedded(name: str) -> Instance:
    entry = catalog.find(name)
    instance: Instance = load(catalog.locate(entry), **entry.options)
    return instance


def solved(solver: Any, instance: Instance, **settings: Any) -> list[Any]:
    run = LocalRun()
    solver(instance, run, **settings)
    solutions: list[Any] = plain(run.solutions)
    return solutions


def bounds(method: Any, instance: Instance) -> list[float]:
    run = LocalRun()
    try:
        method(instance, run)
    except Declined:
        return []
    return run.bounds


#: Times in a star around a node for CPUs, with the tensors that its accelerators pay for.
MORE = np.array([1.0, 2, 3, 3, 3, 3, 3, 3])
#: The quantity that each bound is of.
OF = {load_bound: "throughput", node: "throughput", critical_path: "latency", memory_path: "latency"}


@pytest.mark.parametrize("seed", range(8))
def test_bounds_are_at_or_below_the_best_placement(seed: int) -> None:
    draw, compared = random.Random(seed), Counter[str]()
    for _ in range(8):
        instance = draw_instance(draw, most_nodes=4)
        best = optimum(instance)
        for method in (load_bound, node, critical_path, memory_path) if best is not None else ():
            found = bounds(method, instance)
            assert bool(found) == (instance.objective == OF[method]), (method, instance)
            assert all(value <= best for value in found)
            compared[instance.objective] += len(found)
    assert min(compared["throughput"], compared["latency"]) > 0


@pytest.mark.parametrize(
    ("method", "options"),
    [
        (dp, {"contiguity": "acyclic"}),
        (ip_contiguous, {}),
        (ip_noncontiguous, {"contiguity": "free"}),
        (ip, {"objective": "latency"}),
        (latency_dp, {"objective": "latency"}),
    ],
)
def test_what_takes_no_time_is_bounded_by_none(method: Any, options: dict[str, Any]) -> None:
    run = LocalRun()
    method(built([0, 0, 0], (), (1, 1, 3), cpu=[1, 2, 3], **options), run)
    assert set(run.bounds) == {0.0}


def test_accelerators_pay_for_what_they_share_with_units_for_cpus() -> None:
    """Six nodes send tensors to one that only the CPU can hold: both accelerators pay for theirs, whoever has them."""
    edges = [(0, 1, 1.0), *((u, 0, 2.0) for u in range(2, 8))]
    given = {"cpu": (0.1, *[100] * 7), "supported": (False, *[True] * 7), "contiguity": "free"}
    instance = built([1] * 8, edges, (2, 1, 99), **given)
    plain_bound, more = simple_bounds.load_bound(instance), pooled_bound(instance).bound
    assert more == pytest.approx(simple_bounds.load_bound(replace(instance, accelerator_time=MORE)))
    assert plain_bound < more <= (optimum(instance) or 0)
    assert pooled_bound(replace(instance, overlap="half")).bound == 0


def test_the_pooled_bound_is_at_or_below_the_best_placement() -> None:
    draw, greater, compared = random.Random(0), 0, 0
    while compared < some_of(60):
        instance = draw_instance(draw, most_nodes=4, objective="throughput")
        some = np.array([draw.random() < 0.7 for _ in range(instance.nodes)])
        if not instance.cpus:
            continue
        times = {"cpu_time": np.where(some, 9 * instance.cpu_time, 0.0), "supported": instance.supported & some}
        instance = replace(instance, **times)
        best = optimum(instance)
        if best is not None:
            found = pooled_bound(instance).bound
            assert 0 <= found <= best
            greater += found > simple_bounds.load_bound(instance) * (1 + 1e-9)
            compared += 1
    assert greater > 0


def test_the_load_bound_knows_the_memory() -> None:
    """Half of the work fits the accelerators, the other half is for the CPU."""
    roomy = replace(embedded("operators-24"), supported=np.ones(24, dtype=bool))
    tight = replace(roomy, memory=float(roomy.size.sum()) / 6)
    assert bounds(load_bound, roomy)[-1] == pytest.approx(roomy.load_bound(), rel=1e-6)
    assert bounds(load_bound, tight)[-1] > 3 * tight.load_bound()


def test_the_node_bound_counts_transfers_or_neighbours() -> None:
    """Sandwich, free: for the device of 4, both tensors of 0.25 are cheaper than the work on either side."""
    instance = embedded("sandwich-free")
    assert bounds(node, instance) == [pytest.approx(4.5)]
    assert bounds(node, replace(instance, transfer=instance.transfer * 12)) == [pytest.approx(10)]
    assert bounds(node, replace(instance, overlap="half")) == [pytest.approx(4)]


def test_bounds_decline_the_other_objective() -> None:
    assert bounds(load_bound, embedded("sandwich-latency")) == bounds(node, embedded("sandwich-latency")) == []
    assert bounds(critical_path, embedded("sandwich-free")) == []
    assert bounds(critical_path, embedded("sandwich-latency")) == [pytest.approx(11)]


def test_the_memory_path_counts_the_changes_that_memory_asks_for() -> None:
    """Sandwich, latency: 1 on the CPU, 10 on two accelerators, the tensor in, and out and in between them."""
    instance = embedded("sandwich-latency")
    assert bounds(memory_path, instance)[-1] == pytest.approx(11.75)
    assert bounds(memory_path, replace(instance, memory=3.0))[-1] == pytest.approx(11.25)
    assert bounds(memory_path, replace(instance, memory=1.0))[-1] == pytest.approx(12.25)
    joined = replace(instance, colour=np.array([-1, 0, -1, 0]))  # 3 and 3 take the memory of 2 wherever they are
    assert bounds(memory_path, joined)[-1] == pytest.approx(1 + 3 + 4 + 3 + 5 * 0.25)
    ordered = replace(instance, artificial=np.array([True] * 3))
    assert bounds(memory_path, ordered)[-1] == pytest.approx(11)


def test_the_memory_path_counts_tensors_that_skip_nodes() -> None:
    """Three nodes, one an accelerator; the last reads from both others: out, in and out, in and in."""
    edges = [(0, 1, 1), (1, 2, 1), (0, 2, 1)]
    instance = built([2] * 3, edges, (3, 1, 1), cpu=99, objective="latency")
    assert bounds(memory_path, instance)[-1] == pytest.approx(6 + 5)
    assert bounds(memory_path, replace(instance, memory=2.0))[-1] == pytest.approx(6 + 2)
    assert verify(instance, [0, 1, 2]).cost == 11


def test_the_memory_path_takes_long_transfers_off_again() -> None:
    """Four in a row, the first on the CPU; the other three read its tensor, which takes 10, and one of 1e17.

    That is not moved where those are on one accelerator.
    """
    edges = [(0, 1, 10), (1, 2, 1e17), (0, 3, 10), (1, 3, 1e17), (2, 3)]
    columns: dict[str, Any] = {"cpu": [0, 1e18, 1e18, 1e18], "supported": [False, True, True, True], "size": 0}
    instance = built([1] * 4, edges, **columns, objective="latency")
    assert verify(instance, [2, 0, 0, 0]).cost == 13
    assert bounds(memory_path, instance)[-1] == pytest.approx(13)
    assert bounds(memory_path, instance)[-1] <= 13


@pytest.mark.gate
def test_bounds_of_many_equal_nodes_are_no_more_than_they_take() -> None:
    """Added one after the other 100,000 times 0.1 is too much by 2e-12, relatively."""
    instance = built([0.1] * 100_000, (), (1, 1), size=0, colour=0)
    cost = cost_of(instance, [0] * instance.nodes)
    for method in (load_bound, node):
        assert cost * (1 - 1e-10) <= bounds(method, instance)[-1] <= cost


def looked_at(monkeypatch: pytest.MonkeyPatch, instance: Instance, **limits: Any) -> list[str]:
    """Count the long steps of the memory path: searches for a path, and for the end of a run of its nodes."""
    seen = list[str]()

    def watched(place: Any, name: str) -> Any:
        kept = getattr(place, name)

        def call(*given: Any) -> Any:
            seen.append(name)
            return kept(*given)

        return call

    with monkeypatch.context() as patch:
        for place, name in ((memory_path_module, "_longest"), (memory_path_module._Path, "_soonest")):
            patch.setattr(place, name, watched(place, name))
        memory_path(instance, LocalRun(**limits))
    return seen


def test_the_memory_path_ends_with_the_time_and_where_one_accelerator_holds_it(monkeypatch: pytest.MonkeyPatch) -> None:
    instance = embedded("sandwich-latency")
    assert looked_at(monkeypatch, instance, timeout=0.0) == []
    assert "_soonest" in looked_at(monkeypatch, instance)
    roomy = replace(instance, supported=np.ones(4, dtype=bool), cpu_time=np.full(4, 99.0), memory=1e6)
    assert set(looked_at(monkeypatch, roomy)) == {"_longest"}


@pytest.mark.parametrize("seed", range(8))
def test_greedy_finds_feasible_placements(seed: int) -> None:
    draw, found = random.Random(seed), 0
    for _ in range(25):
        instance = draw_instance(draw)
        if instance.training and instance.objective == "latency":
            continue
        try:
            (solution,) = solved(greedy, instance)
        except Declined:
            assert not instance.cpus
            continue
        verdict = verify(instance, solution)
        assert verdict.feasible, verdict.violations
        assert verdict.facts["acyclic"] or instance.contiguity == "free"
        found += 1
    assert found > 5


@pytest.mark.parametrize("name", [entry.id for entry in catalog.suite("standard") if entry.track == "placement"])
def test_greedy_solves_the_embedded_instances(name: str) -> None:
    (solution,) = solved(greedy, instance := embedded(name))
    assert verify(instance, solution).feasible


def test_greedy_fills_one_accelerator_after_another() -> None:
    instance = embedded("sandwich-latency")
    assert solved(greedy, instance) == [[2, 0, 0, 1]]
    assert solved(greedy, replace(instance, memory=1.0)) == [[2, 0, 1, 2]]


def test_everything_on_one_accelerator() -> None:
    instance = replace(embedded("operators-24"), supported=np.ones(24, dtype=bool), memory=1e6)
    assert solved(one_accelerator, instance) == [[0] * 24]
    latency = replace(instance, objective="latency")
    (solution,) = solved(one_accelerator, latency)
    assert verify(latency, solution).cost == pytest.approx(float(latency.accelerator_time.sum()))


def test_even_and_single_splits_decline_what_does_not_fit() -> None:
    roomy = replace(embedded("operators-60-acyclic"), memory=1e6)
    for method, instance, reason in (
        (one_accelerator, embedded("operators-24"), "do not support every node"),
        (one_accelerator, embedded("operators-60-acyclic"), "does not fit the memory"),
        (one_accelerator, replace(roomy, accelerators=0), "no accelerators"),
        (equal_parts, embedded("operators-24"), "do not support every node"),
        (equal_parts, replace(roomy, memory=100.0), "do not fit the memory"),
    ):
        with pytest.raises(Declined, match=reason):
            method(instance, LocalRun())


def test_a_given_split_is_handed_in() -> None:
    instance = embedded("sandwich-free")
    assert solved(expert, instance, split="[2, 0, 1, 0]") == [[2, 0, 1, 0]]
    with pytest.raises(Declined, match="the split is no JSON"):
        expert(instance, LocalRun(), split="[2, 0")
    with pytest.raises(Declined, match=r"no split of its own, expected --set split=@FILE$"):
        expert(instance, LocalRun())


def test_every_accelerator_gets_as_many_nodes() -> None:
    instance = replace(embedded("operators-60-acyclic"), memory=1e6)
    (solution,) = solved(equal_parts, instance)
    assert verify(instance, solution).feasible
    assert set(np.bincount(solution)) <= {13, 14, 15, 16, 17}
