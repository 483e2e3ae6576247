"""Lists that reserve memory, and proofs that nothing fits: against the verifier and every schedule."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from itertools import permutations, product
from typing import Any

import numpy as np
import oracle_scheduling
import pytest
from effort import some_of
from schedules import Claims, draw_devices, draw_instance, made, peaks

from shardmark.harness.verify.scheduling import verify
from shardmark.instances import catalog, load
from shardmark.instances.generate import families
from shardmark.instances.generate.dataflows import tight_memory
from shardmark.instances.scheduling import Instance
from shardmark.solvers.registry import Declined
from shardmark.solvers.scheduling._kernels import Simulator
from shardmark.solvers.scheduling._memory_kernels import ordered_moves
from shardmark.solvers.scheduling.heuristics.local import orders
from shardmark.solvers.scheduling.memory_first import depth_first, memory_first, orders_to_try
from shardmark.solvers.scheduling.schedules.memory import fits
from shardmark.solvers.scheduling.schedules.memory_cuts import MemoryCuts, none_fits

pytestmark = pytest.mark.gate(cases=2)


def tight(draw: random.Random, most_nodes: int) -> Instance:
    """An instance whose devices hold little more than the largest need of a vertex."""
    while True:
        instance = draw_instance(draw, most_nodes)
        read = np.bincount(instance.graph.head, instance.size, instance.nodes).max(initial=0.0)
        most = read if instance.holding == "reserved" else instance.size.max(initial=0.0)
        if most > 0 and (instance.bandwidth > 0).all():
            memory = np.full(instance.devices, draw.choice([0.3, 1, 1.5]) * most + 1e-6)
            try:
                return replace(instance, memory=memory)
            except ValueError:
                continue


def test_lists_fit_some_tight_instances_and_always_end() -> None:
    draw, fitting = random.Random(3), 0
    for _ in range(60):
        instance = tight(draw, 14)
        simulator = Simulator(instance)
        for priority in orders_to_try(instance):
            device, sequence = simulator.reserving_list(priority, live=1.0, early=0.1)
            execution = simulator.in_sequence(device.astype(np.int64), sequence)
            assert math.isfinite(execution.makespan)
            fitting += fits(instance, device, execution)
    assert fitting > 40


def most_held(size: list[float], read: list[float], order: list[int]) -> float:
    """The most held in an order, if a vertex holds what it makes until another reads it; it reads sizes ``read``."""
    held = most = 0.0
    for v in order:
        most = max(most, held + size[v])
        held += size[v] - read[v]
    return most


def depth_first_orders(parent: list[int], root: int) -> list[list[int]]:
    """All orders of a tree that finish one input before they begin the next."""
    inputs = [u for u, v in enumerate(parent) if v == root]
    ways = {u: depth_first_orders(parent, u) for u in inputs}
    return [
        [*(v for part in parts for v in part), root]
        for some in permutations(inputs)
        for parts in product(*(ways[u] for u in some))
    ]


def test_a_tree_is_ordered_so_that_it_holds_least_at_any_time() -> None:
    draw = random.Random(7)
    for _ in range(300):
        count = draw.randint(1, 8)
        parent = [draw.randrange(v + 1, min(v + 4, count)) for v in range(count - 1)] + [-1]
        size = [*(draw.choice([0.0, 0.5, 1.0]) for _ in parent[1:]), 0.0]
        edges = [[u, v, held] for u, (v, held) in enumerate(zip(parent[:-1], size, strict=False))]
        found = depth_first(made([1] * count, edges, [1])).tolist()
        read = np.bincount(parent[:-1], size[:-1], count).tolist()
        best = min(most_held(size, read, order) for order in depth_first_orders(parent, count - 1))
        assert most_held(size, read, found) == best


Search = Callable[..., tuple[float, Any, Any]]


@pytest.mark.parametrize(
    ("search", "links"),
    [(Simulator.memory_moves, ("independent", "queue", "share")), (ordered_moves, ("independent", "queue"))],
)
def test_moves_end_with_what_fits(search: Search, links: tuple[str, ...]) -> None:
    """The core measures what the check finds, and moves keep orders, groups and choices of devices."""
    draw, found, known = random.Random(4), 0, 0
    for seed in range(120):
        instance = tight(draw, 14) if seed % 2 else oracle_scheduling.draw(draw, 8)
        if instance.links not in links:
            continue
        simulator, order = Simulator(instance), instance.graph.topological_order.astype(np.int32)
        device = np.array(draw_devices(draw, instance), dtype=np.int32)
        for moves in (0, 300):
            excess, device, order = search(simulator, device, order, seed, moves, 0.1)
            execution = simulator.in_sequence(device.astype(np.int64), order)
            if moves and not excess:
                schedule = {"device": device.tolist(), "order": orders(device, execution, instance.devices)}
                assert verify(instance, schedule).feasible, seed
                found += 1
            elif math.isfinite(excess):
                known += excess > 0
                assert fits(instance, device, execution) == (not excess), seed
    assert found > 20
    assert known > 10


def test_moves_by_one_pass_cost_what_simulated_ones_do() -> None:
    """After each move, although only devices at which times changed are measured anew."""
    draw, positive = random.Random(6), 0
    for seed in range(80):
        instance = tight(draw, 30) if seed % 2 else oracle_scheduling.draw(draw, 8)
        if instance.links == "share":
            continue
        simulator, order = Simulator(instance), instance.graph.topological_order.astype(np.int32)
        device = np.array(draw_devices(draw, instance), dtype=np.int32)
        for moves in (1, 2, 5, 40):
            excess, device, order = ordered_moves(simulator, device, order, seed, moves, 1.0)
            known = simulator.memory_moves(device, order, seed, 0, 0.0)[0]
            assert excess == pytest.approx(known, rel=1e-9, abs=0), seed
            positive += 0 < excess < math.inf
    assert positive > 50


def test_proofs_hold_against_every_schedule() -> None:
    draw, proofs = random.Random(8), 0
    for seed in range(some_of(200)):
        instance = tight(draw, 6) if seed % 2 else oracle_scheduling.draw(draw)
        if none_fits(instance, 60.0):
            assert oracle_scheduling.optimum(instance) is None, seed
            proofs += 1
    assert proofs > 1


def test_proofs_leave_what_a_random_schedule_holds() -> None:
    """Each device has as much memory as a schedule needs, so that any proof would be wrong."""
    draw, kept = random.Random(5), 0
    for _ in range(25):
        drawn = draw_instance(draw, 30)
        free = replace(drawn, memory=np.full(drawn.devices, np.inf))
        device = np.array(draw_devices(draw, free))
        execution = Simulator(free).by_priority(device, np.array([draw.random() for _ in range(free.nodes)]))
        needed = peaks(free, device, execution) * (1 + 4e-9) + 1e-12
        with suppress(ValueError):
            exact = replace(free, memory=needed)
            if np.isfinite(execution.makespan) and fits(exact, device, execution):
                assert not none_fits(exact, 0.3)
                kept += 1
    assert kept > 8


def test_sets_of_one_size_prove_what_the_start_of_no_vertex_does() -> None:
    instance = tight_memory(165)
    cuts = MemoryCuts(instance, np.arange(instance.devices), math.inf)
    assert not any(cuts.refuted(v) for v in range(instance.nodes))
    assert cuts.share_refuted(2 * instance.nodes // 5, 0, 60.0) == 1
    assert cuts.share_refuted(instance.nodes // 10, 0, 60.0) < 1


def closed_sets(instance: Instance) -> list[set[int]]:
    """All sets of vertices that contain the predecessors of each."""
    n, edges = instance.nodes, list(zip(instance.graph.tail.tolist(), instance.graph.head.tolist(), strict=True))
    subsets = [{v for v in range(n) if bits >> v & 1} for bits in range(1 << n)]
    return [part for part in subsets if all(u in part for u, v in edges if v in part)]


def least_held(instance: Instance, parts: list[int], prices: list[int] | None, every: list[set[int]]) -> float:
    """The least cut, by every set that may have started, or without prices finished, and all that may have finished."""
    edges = list(zip(instance.graph.tail.tolist(), instance.graph.head.tolist(), parts, strict=True))
    best, closed = math.inf, closed_sets(instance)
    for started in every:
        for finished in [part for part in closed if part <= started] if prices else [started]:
            between = sum(prices[v] for v in started - finished) if prices else 0
            best = min(best, between + sum(x for u, v, x in edges if u in finished and v not in started))
    return best


def test_sets_with_fixed_vertices_and_a_size_are_refuted_by_the_least_cut_of_all() -> None:
    draw, results = random.Random(7), {"all sizes": list[bool](), "some sizes": list[bool]()}
    for seed in range(some_of(600)):
        instance = draw_instance(draw, 6)
        n, parts = instance.nodes, [draw.randint(0, 9) for _ in range(instance.edges)]
        prices = [draw.randint(0, min(9, 2 * sum(parts))) for _ in range(n)] if seed % 2 else None
        enough = draw.randint(1, 5)
        closed = closed_sets(instance)
        inside, contained = draw.choice(closed), draw.choice(closed)
        fixed = [1 if v in inside & contained else 0 if v in inside | contained else -1 for v in range(n)]
        fixed = [value if draw.random() < 0.7 else 0 for value in fixed]
        counted = np.array([draw.random() < 0.8 for _ in range(n)])
        least = draw.randint(0, int(counted.sum()))
        form, sizes = draw.choice([("all sizes", (0, n)), ("some sizes", (least, least + draw.randint(0, 2)))])
        columns = np.array(parts, dtype=np.int64), prices and np.array(prices, dtype=np.int64), enough
        marks = np.array(fixed, dtype=np.int8), counted
        share = Simulator(instance).set_cuts(*columns, *marks, sizes, 60.0)
        every = [part for part in closed if all((v in part) != (mark < 0) for v, mark in enumerate(fixed) if mark)]
        every = [part for part in every if sizes[0] <= counted[list(part)].sum() <= sizes[1]]
        expected = least_held(instance, parts, prices, every) >= enough
        assert (share == 1) == expected, seed
        assert 0 <= share <= 1
        assert form == "some sizes" or share in (0, 1), seed
        results[form].append(expected)
    assert all(some_of(20) < sum(found) < len(found) - some_of(20) for found in results.values())


def fan(count: int, work: float = 1, **columns: object) -> Instance:
    """Vertices that make a tensor of 1 each, and one that is behind all of them and before their readers."""
    middle, n = count, 2 * count + 1
    edges = [[v, middle, 0] for v in range(count)] + [[middle, count + 1 + v, 0] for v in range(count)]
    edges += [[v, count + 1 + v, 1] for v in range(count)]
    return made([work] * n, edges, **columns)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("holding", "bandwidth", "memory", "none"),
    [
        ("reserved", 1e9, 2.5, True),  # 6 tensors, and room for 5
        ("reserved", 1e9, 3.5, False),
        ("waiting", 1e9, 1.5, True),  # 4 of 8 tensors have arrived when the middle starts, and there is room for 3
        ("waiting", 1e9, 4.0, False),
        ("waiting", 1e-3, 0.5, False),  # all may be on their way
    ],
)
def test_cuts_count_what_is_held_read_or_on_its_way(holding: str, bandwidth: float, memory: float, none: bool) -> None:
    instance = fan(
        6 if holding == "reserved" else 8,
        speed=[1, 1],
        bandwidth=bandwidth,
        memory=[memory] * 2,
        options={"holding": holding},
    )
    assert none_fits(instance, 60.0) == none


def test_queues_store_what_independent_links_do_not() -> None:
    """One tensor in 5 arrives while they are made, the others as they are read."""
    columns = {"speed": [1, 1], "bandwidth": 0.2, "memory": [9.4] * 2}
    queue = fan(40, **columns, options={"links": "queue"})
    schedule = {"device": [0] * 41 + [1] * 40, "order": [list(range(41)), list(range(41, 81))]}
    assert verify(queue, schedule).feasible
    assert not none_fits(queue, 0.2)
    assert none_fits(fan(40, **columns), 60.0)


@pytest.mark.parametrize("holding", ["waiting", "reserved"])
def test_what_takes_no_time_holds_nothing(holding: str) -> None:
    columns = {"speed": [1, 1], "bandwidth": 1e9, "memory": [1.5] * 2, "options": {"holding": holding}}
    instant = fan(8, 0, **columns)
    assert verify(instant, {"device": [0] * 17, "order": [list(range(17)), []]}).feasible
    assert not none_fits(instant, 0.2)
    assert none_fits(fan(8, 1, **columns), 60.0)


def test_no_cut_is_prepared_once_time_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shardmark.solvers.scheduling.schedules.memory_cuts.MemoryCuts", lambda *_: 1 / 0)
    assert not none_fits(fan(6, speed=[1, 1], bandwidth=1.0, memory=[1.5] * 2), 0.0)


def test_ends_with_a_schedule_a_proof_or_neither() -> None:
    proving, run = Claims(timeout=60), Claims(timeout=0.2)
    with pytest.raises(Declined, match="no schedule fits"):
        memory_first(fan(6, speed=[1, 1], memory=[2.5] * 2, options={"holding": "reserved"}), proving)
    with pytest.raises(Declined, match="no proof"):  # both tensors arrive late, and no device has room for one
        memory_first(made([1] * 3, [[0, 2, 1], [1, 2, 1]], [1, 1], memory=[0.5] * 2, options={"links": "queue"}), run)
    assert not proving.solutions
    assert not run.solutions


def test_finds_what_lists_without_reservations_miss() -> None:
    entry = catalog.find("waiting-room")
    room = load(catalog.locate(entry), **entry.options)
    flow = families()["random-dataflow"].build(1, nodes=120, devices=16, spare=0.0, holding="reserved")
    for instance in (room, flow):
        run, seconds = Claims(), 0.2
        while not run.solutions:  # the machine may be busy
            run, seconds = Claims(timeout=seconds), 2 * seconds
            with suppress(Declined):
                memory_first(instance, run)
            assert seconds < 30
        assert verify(instance, run.solutions[-1]).feasible


def test_a_list_of_a_tensor_with_thousands_of_readers_is_quick() -> None:
    """It took minutes while every reader was tried at every start."""
    leaves = 16000
    fan = made([1.0] * (leaves + 1), [[0, leaf, 1.0] for leaf in range(1, leaves + 1)], [1, 1], memory=[1.2, 1.2])
    simulator = Simulator(fan)
    _, sequence = simulator.reserving_list(np.zeros(leaves + 1), live=1.0, early=0.1)
    assert sorted(sequence.tolist()) == list(range(leaves + 1))
