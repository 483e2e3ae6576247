"""Partitioners and local schedulers against slow readings of the paper, and what all of them keep to."""

from __future__ import annotations

import random
import tracemalloc
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import schedules_slow as slow
from effort import draws, some_of
from schedules import draw_devices, draw_instance, made

from shardmark.harness.verify.scheduling import verify
from shardmark.instances import catalog, load
from shardmark.instances.files.columns import Ints
from shardmark.instances.generate import families
from shardmark.instances.scheduling import Instance
from shardmark.solvers.native import kahn
from shardmark.solvers.registry import Declined, LocalRun
from shardmark.solvers.registry import load as load_solvers
from shardmark.solvers.scheduling._kernels import Execution, Simulator
from shardmark.solvers.scheduling.batch_split import batch_split
from shardmark.solvers.scheduling.critical_path import critical_path
from shardmark.solvers.scheduling.dfs import dfs
from shardmark.solvers.scheduling.hash import hash_partition
from shardmark.solvers.scheduling.heft import heft
from shardmark.solvers.scheduling.heuristics.heft import upward_rank
from shardmark.solvers.scheduling.heuristics.local import SCHEDULERS, orders, path_computation_time, schedule
from shardmark.solvers.scheduling.heuristics.path import longest_path
from shardmark.solvers.scheduling.heuristics.ranks import total_rank
from shardmark.solvers.scheduling.mite import mite

pytestmark = pytest.mark.gate(cases=2)

PARTITIONERS = (hash_partition, batch_split, critical_path, mite, dfs, heft)
READINGS: dict[Callable[..., Ints], Callable[[Instance], list[int]]] = {
    batch_split: slow.batch_split,
    critical_path: lambda instance: slow.critical_path(instance, longest_path(instance)),
    mite: slow.mite,
    dfs: slow.dfs,
    heft: lambda instance: slow.heft(instance, upward_rank(instance).tolist()),
}


def whole_instance(draw: random.Random, most_nodes: int = 9, **options: str) -> Instance:
    """One whose sums are exact, whatever their order."""
    while True:
        instance = draw_instance(draw, most_nodes, **options)
        if (np.concatenate([instance.complexity, instance.size, instance.speed]) % 1 == 0).all():
            return instance


@pytest.mark.thorough(cases=3)
@pytest.mark.parametrize("partition", READINGS)
def test_partitions_are_those_of_a_slow_reading(partition: Callable[..., Ints]) -> None:
    draw, several = random.Random(7), 0
    for _ in range(some_of(120)):
        instance = whole_instance(draw)
        found = partition(instance, np.random.default_rng(0)).tolist()
        assert found == READINGS[partition](instance)
        several += len(set(found)) > 1
    assert several > some_of(20)


@pytest.mark.parametrize("partition", READINGS)
def test_partitions_do_not_depend_on_the_unit_of_time(partition: Callable[..., Ints]) -> None:
    draw, rng = random.Random(15), np.random.default_rng(0)
    for _ in range(some_of(40)):
        instance = whole_instance(draw)
        instance = replace(instance, memory=np.full(instance.devices, np.inf))
        finer = replace(instance, speed=instance.speed * 2**-30, bandwidth=instance.bandwidth * 2**-30)
        assert partition(instance, rng).tolist() == partition(finer, rng).tolist()


@pytest.mark.parametrize("partition", PARTITIONERS)
def test_what_reads_something_is_not_put_where_there_is_no_memory(partition: Callable[..., Ints]) -> None:
    for memory, allowed in (([0, 10], {1}), ([0, 0], {0, 1})):  # in the second case what is read may not wait
        instance = made([3, 2, 1], [[0, 1, 5], [0, 2, 4]], [4, 1], memory=memory)
        assert set(partition(instance, np.random.default_rng(0))[1:].tolist()) <= allowed


@pytest.mark.parametrize("partition", [dfs, mite])
def test_devices_far_faster_than_the_slowest_are_told_apart(partition: Callable[..., Ints]) -> None:
    instance = made([1], [], [1, 200, 1000])
    assert partition(instance, np.random.default_rng(0)).tolist() == [2]


@pytest.mark.parametrize("partition", [dfs, mite])
def test_nothing_goes_where_its_input_has_no_link_however_fast_that_device_is(partition: Callable[..., Ints]) -> None:
    """The share of the time that it takes there on the fastest device is beyond the range of floats."""
    instance = made(
        [1, 1],
        [[0, 1, 1]],
        [1e200, 1, 1e-200],
        bandwidth=[[None, 1, 1], [0, None, 1], [1, 1, None]],
        devices=[[1], None],
    )
    assert partition(instance, np.random.default_rng(0))[1] != 0


def test_ranks_are_sums_along_the_longest_path() -> None:
    draw = random.Random(8)
    for _ in range(60):
        instance = whole_instance(draw)
        assert total_rank(instance.graph, instance.complexity).tolist() == slow.total(instance)


def test_a_rank_near_the_largest_float_does_not_overflow() -> None:
    instance = made([2.0**1023, 0, 2.0**1022], [[0, 1, 1], [1, 2, 1]], [1, 1])
    with np.errstate(all="raise"):
        assert total_rank(instance.graph, instance.complexity).tolist() == [1.5 * 2.0**1023] * 3


def test_vertices_of_the_critical_path_have_the_greatest_rank() -> None:
    draw = random.Random(14)
    for _ in range(60):
        instance = whole_instance(draw)
        rank, path = total_rank(instance.graph, instance.complexity), longest_path(instance)
        assert (rank[path] == rank.max()).all()
        assert rank.max() == instance.complexity[path].sum()


def test_the_critical_path_is_one_of_the_longest_from_a_source_to_a_sink() -> None:
    draw = random.Random(9)
    for _ in range(60):
        instance = whole_instance(draw)
        every = list(slow.paths(instance))
        found = longest_path(instance)[::-1]
        longest = max(float(instance.complexity[path].sum()) for path in every)
        assert float(instance.complexity[found].sum()) == longest
        assert found in every


def test_the_whole_critical_path_is_on_the_fastest_device() -> None:
    instance = load(catalog.locate(catalog.find("convolutional-training")))
    device = critical_path(instance, np.random.default_rng(0))
    assert set(device[longest_path(instance)].tolist()) == {int(np.argmax(instance.speed))}


def around(restricted: Sequence[list[int] | None], memory: Sequence[int | None]) -> list[int]:
    """Return the devices that critical path gives the path 0, 1, 2, which reads 5 and 6, and vertex 3."""
    instance = made([9, 9, 9, 1], [[0, 1, 5], [1, 2, 6]], [3, 2, 1], memory=list(memory), devices=list(restricted))
    return critical_path(instance, np.random.default_rng(0)).tolist()


def test_the_whole_path_is_on_the_fastest_device_that_all_of_it_may_use() -> None:
    unlimited = [None, None, None]
    assert around([None] * 4, unlimited)[:3] == [0, 0, 0]
    assert around([None, [1, 2], None, None], unlimited)[:3] == [1, 1, 1]
    assert around([None, [1, 2], [0, 2], None], unlimited)[:3] == [2, 2, 2]
    assert around([None] * 4, [11, 12, None])[:3] == [1, 1, 1]


def test_a_path_that_fits_no_device_is_divided_among_the_fastest() -> None:
    assert around([[1], [0, 1], [0], None], [None, None, None])[:3] == [1, 0, 0]
    assert around([None] * 4, [7, 6, 5])[:3] == [0, 1, 0]


def test_hashing_draws_by_memory_and_the_same_for_a_group() -> None:
    instance = made(
        [1] * 4000,
        [],
        [1, 1, 1],
        memory=[100, 300, None],
        colocation=[v // 4 if v < 2000 else None for v in range(4000)],
    )
    device = hash_partition(instance, np.random.default_rng(3))
    shares = np.bincount(device[2000:], minlength=3) / 2000
    assert shares == pytest.approx([1 / 7, 3 / 7, 3 / 7], abs=0.04)
    assert (device[:2000].reshape(-1, 4) == device[:2000:4, None]).all()
    assert (hash_partition(instance, np.random.default_rng(4)) != device).any()


@pytest.mark.parametrize(("memory", "used"), [([5e-324], [0]), ([0, 5e-324, None], [1, 2]), ([1e308] * 2, [0, 1])])
def test_hashing_takes_memory_of_any_size(memory: list[float | None], used: list[int]) -> None:
    instance = made([1] * 50, [], [1] * len(memory), memory=memory)
    assert np.unique(hash_partition(instance, np.random.default_rng(0))).tolist() == used


def test_a_partition_that_lacks_a_link_is_handed_in_whole() -> None:
    """Every vertex is in it, so that the verdict is about the link."""
    edges = [[0, 2, 1], [2, 1, 1]]
    instance = made([1, 1, 1], edges, [1, 1], bandwidth=0)
    device = np.array([0, 1, 1])
    order = orders(device, Simulator(instance).by_priority(device, np.zeros(3)), 2)
    verdict = verify(instance, {"device": device.tolist(), "order": order})
    assert [violation[:29] for violation in verdict.violations] == ["edges[0]: expected a link for"]


@pytest.mark.thorough(cases=3)
@pytest.mark.parametrize("partition", PARTITIONERS)
def test_groups_and_restrictions_are_kept_and_memory_by_room(partition: Callable[..., Ints]) -> None:
    draw, roomy, full = random.Random(10), 0, 0
    for _ in range(some_of(150)):
        instance = draw_instance(draw, 12)
        rng = np.random.default_rng(draw.randrange(100))
        device = partition(instance, rng)
        execution = schedule(instance, device, draw.choice(SCHEDULERS), rng)
        verdict = verify(instance, {"device": device.tolist(), "order": orders(device, execution, instance.devices)})
        assert not [words for words in verdict.violations if words.startswith("device[")]
        if verdict.cost is not None:
            assert verdict.cost == execution.makespan
        read = np.bincount(device[instance.graph.head], weights=instance.size, minlength=instance.devices)
        if (read < instance.memory).all():
            assert not [words for words in verdict.violations if words.startswith("device ")]
            roomy += 1
        full += not verdict.feasible
    assert roomy > some_of(60)
    assert full


@pytest.mark.parametrize("partition", PARTITIONERS)
@pytest.mark.parametrize("name", [entry.id for entry in catalog.suite("tiny") if entry.track == "scheduling"])
def test_pairs_solve_the_embedded_instances(name: str, partition: Callable[..., Ints]) -> None:
    entry = catalog.find(name)
    instance = load(catalog.locate(entry), **entry.options)
    for scheduler in SCHEDULERS:
        rng = np.random.default_rng(1)
        device = partition(instance, rng)
        execution = schedule(instance, device, scheduler, rng)
        verdict = verify(instance, {"device": device.tolist(), "order": orders(device, execution, instance.devices)})
        assert verdict.feasible, verdict.violations
        assert verdict.cost == execution.makespan >= instance.simple_bound()
        assert verdict.cost >= float(entry.published.get("best_cost", 0))


def test_path_computation_times_are_those_of_equation_12() -> None:
    draw = random.Random(11)
    for _ in range(60):
        instance = draw_instance(draw)
        device = draw_devices(draw, instance)
        expected = [slow.path_computation_time(instance, device, v) for v in range(instance.nodes)]
        assert path_computation_time(instance, np.array(device)).tolist() == pytest.approx(expected, rel=1e-12)


def keys(
    instance: Instance,
    device: list[int],
    execution: Execution,
    scheduler: str,
    v: int,
    at: int,
    weights: slow.Weights,
) -> float:
    """Return the keys by which a scheduler compares vertices when the vertex at a place of its sequence starts."""
    if scheduler == "msr":
        return slow.successor_score(instance, device, execution, v, at, weights)
    return slow.path_computation_time(instance, device, v) if scheduler == "pct" else 0.0


#: Alpha to delta: those of the paper, and such that idle devices count against a vertex or nothing else counts.
WEIGHTS = ((1, 1, 1, 5), (0, 0, 0, 1), (-1, 2, -0.5, 3), (1, 0.25, 1, -5), (0, 0, -1, 2), (2, -3, 4, 0))


@pytest.mark.parametrize(
    ("scheduler", "weights"), [("fifo", WEIGHTS[0]), ("pct", WEIGHTS[0]), *(("msr", weights) for weights in WEIGHTS)]
)
def test_idle_devices_pick_as_the_paper_says(scheduler: str, weights: slow.Weights) -> None:
    draw, choices = random.Random(12), 0
    for seed in range(some_of(60)):
        instance = whole_instance(draw, 14)
        instance = replace(instance, complexity=instance.complexity + 1)  # so that what has started is busy
        device = draw_devices(draw, instance)
        execution = schedule(instance, np.array(device), scheduler, np.random.default_rng(seed), weights)
        rank = np.random.default_rng(seed).permutation(instance.nodes)
        started = execution.sequence.tolist()
        since = {w: slow.executable_since(instance, execution, w) for w in range(instance.nodes)}
        for at, v in enumerate(started):
            now = float(execution.start[v])
            left = [w for w in since if w not in started[:at] and device[w] == device[v] and since[w] <= now]
            key = {w: keys(instance, device, execution, scheduler, w, at, weights) for w in left}
            assert v == max(left, key=lambda w: (key[w], -since[w], -rank[w]))
            choices += len(left) > 1
    assert choices > draws(10, 10, 80)


def test_heft_takes_vertices_by_upward_rank() -> None:
    draw = random.Random(13)
    for _ in range(60):
        instance = draw_instance(draw)
        rank = upward_rank(instance)
        expected = [slow.upward_rank(instance, v) for v in range(instance.nodes)]
        assert rank.tolist() == pytest.approx(expected, rel=1e-12)
        order = kahn(instance.graph, rank)
        assert (np.diff(rank[order]) <= 1e-9).all()


def test_heft_fills_gaps() -> None:
    """Vertex 2 waits for a tensor until 6 on the only device that may run it; vertex 3 runs there before."""
    instance = made([1, 1, 9, 2], [[0, 2, 5]], [1, 1], devices=[[0], [1], [1], [1]])
    assert heft(instance, np.random.default_rng(0)).tolist() == [0, 1, 1, 1]
    instance = made([1, 9, 2], [[0, 1, 5]], [1, 2], devices=[[0], [1], None])
    assert heft(instance, np.random.default_rng(0)).tolist() == [0, 1, 1]  # before 1, which starts at 6


def test_weights_of_msr_change_what_it_picks() -> None:
    """Vertices 0 and 1 are executable; 0 has two successors on its device, 1 has one that alone can start elsewhere."""
    instance = made([1, 1, 1, 1, 1, 1], [[0, 2, 1], [0, 3, 1], [5, 2, 1], [5, 3, 1], [1, 4, 1]], [1, 1])
    device = [0, 0, 0, 0, 1, 0]
    rank = [0, 1, 2, 3, 4, 5]
    simulator = Simulator(instance)
    assert simulator.by_successors(device, (1, 0, 0, 0), rank).sequence[0] == 0
    assert simulator.by_successors(device, (1, 1, 1, 5), rank).sequence[0] == 1
    assert simulator.by_successors(device, (0, 1, 0, 0), rank).sequence[0] == 1


def test_weights_and_scheduler_of_a_pair_can_be_set() -> None:
    instance = made(
        [1] * 6, [[0, 2, 1], [0, 3, 1], [5, 2, 1], [5, 3, 1], [1, 4, 1]], [1, 1], devices=[[0], [0], [0], [0], [1], [0]]
    )
    pair = {solver.name: solver for solver in load_solvers("package:shardmark.solvers.scheduling.heft")}

    def first(**settings: Any) -> int:
        run = LocalRun()
        pair["heft-msr"].function(instance, run, **{**pair["heft-msr"].params, **settings})
        return run.solutions[-1]["order"][0][0]

    assert first() == 1
    assert first(alpha=9.0) in (0, 5)  # both have two successors, which wait for both
    others = {"beta": 0.0, "gamma": 0.0, "delta": 0.0}
    assert first(**others) in (0, 5)
    for weight in others:
        assert first(**{**others, weight: 1.5}) == 1
    with pytest.raises(Declined, match="expected scheduler fifo, pct, msr, found lifo"):
        first(scheduler="lifo")


@pytest.mark.parametrize("partition", PARTITIONERS)
def test_a_graph_without_vertices_is_scheduled(partition: Callable[..., Ints]) -> None:
    instance = made([], [], [1, 2], memory=[0, None])
    rng = np.random.default_rng(0)
    device = partition(instance, rng)
    for scheduler in SCHEDULERS:
        execution = schedule(instance, device, scheduler, rng)
        verdict = verify(instance, {"device": device.tolist(), "order": orders(device, execution, 2)})
        assert (verdict.feasible, verdict.cost, execution.makespan) == (True, 0, 0)


@pytest.mark.gate
@pytest.mark.thorough(cases=2)
@pytest.mark.parametrize("partition", PARTITIONERS)
def test_there_is_no_table_of_vertices_and_devices(partition: Callable[..., Ints]) -> None:
    instance = families()["random-dataflow"].build(1, nodes=4000, devices=300, restricted=0.0)
    rng = np.random.default_rng(0)
    tracemalloc.start()
    try:
        device = partition(instance, rng)
        schedule(instance, device, "pct", rng)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 8 * instance.nodes * instance.devices / 2


def test_heft_finds_devices_where_memory_is_no_number() -> None:
    instance = draw_instance(random.Random(5), 8)
    for memory in (np.full(instance.devices, np.nan), np.where(np.arange(instance.devices), np.nan, 0.0)):
        object.__setattr__(instance, "memory", memory)  # instances refuse it
        device = Simulator(instance).heft(instance.graph.topological_order.astype(np.int32))
        assert ((device >= 0) & (device < instance.devices)).all()
