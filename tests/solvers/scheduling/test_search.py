"""The search over devices and priorities: what it claims, what it keeps to, how good it is."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from effort import some_of
from schedules import Claims, draw_instance, flow, made, moves_of, optimum

from shardmark.harness.verify.scheduling import verify
from shardmark.instances import catalog, load
from shardmark.instances.files.columns import Ints
from shardmark.instances.generate import families
from shardmark.instances.scheduling import Instance
from shardmark.solvers.scheduling._kernels import PathMoves, SimulatedMoves, Simulator
from shardmark.solvers.scheduling.heuristics.heft import earliest_finish
from shardmark.solvers.scheduling.heuristics.local import path_computation_time, schedule
from shardmark.solvers.scheduling.heuristics.path import around_the_path
from shardmark.solvers.scheduling.schedules.annealing import begin, improve
from shardmark.solvers.scheduling.schedules.memory import fits
from shardmark.solvers.scheduling.search import search

pytestmark = pytest.mark.gate(cases=2)


def searched(
    instance: Instance,
    seconds: float,
    good: Callable[[Claims], Any] = lambda run: True,
    most: float = 5.0,
    **limits: Any,
) -> Claims:
    """Search until the result is good, in longer and longer times, as the machine may be busy, until ``most``."""
    while True:
        run = Claims(timeout=seconds, **limits)
        search(instance, run)
        if good(run) or seconds >= most:
            return run
        seconds = min(most, 4 * seconds)


def has_found(run: Claims) -> bool:
    return bool(run.solutions)


def costs_at_most(cost: float) -> Callable[[Claims], bool]:
    return lambda run: bool(run.claimed) and run.claimed[-1] is not None and run.claimed[-1] <= cost * (1 + 1e-9)


def embedded(name: str) -> Instance:
    entry = catalog.find(name)
    instance: Instance = load(catalog.locate(entry), **entry.options)
    return instance


def roomy(draw: random.Random, most_nodes: int, **options: str) -> Instance:
    """An instance on which any device holds all tensors at once, and all are linked."""
    while True:
        instance = draw_instance(draw, most_nodes, **options)
        if (instance.memory > instance.size.sum()).all() and (instance.bandwidth > 0).all():
            return instance


def test_what_is_claimed_is_what_the_verifier_finds_and_it_falls() -> None:
    draw = random.Random(21)
    for seed in range(25):
        instance = roomy(draw, 12)
        run = searched(instance, 0.03, has_found, seed=seed)
        verdicts = [verify(instance, solution) for solution in run.solutions]
        assert run.claimed
        assert all(verdict.feasible for verdict in verdicts)
        assert [verdict.cost for verdict in verdicts] == run.claimed
        assert all(later < before for before, later in zip(run.claimed, run.claimed[1:], strict=False))


@pytest.mark.gate
def test_memory_is_kept_to_and_nothing_else_is_reported() -> None:
    draw, limited, found = random.Random(23), 0, 0
    while limited < some_of(25):
        instance = draw_instance(draw, 10)
        if np.isfinite(instance.memory).any() and (instance.bandwidth > 0).all():
            limited += 1
            run = searched(instance, 0.02, has_found, most=0.5)
            found += bool(run.solutions)
            assert all(verify(instance, solution).feasible for solution in run.solutions)
    assert found >= some_of(20)


@pytest.mark.gate
def test_memory_that_nearly_all_schedules_exceed_is_kept_to_where_a_schedule_does() -> None:
    """The least makespan of all orders, on instances where schedules that take no heed of memory exceed it."""
    draw, tight, best = random.Random(31), 0, 0
    while tight < some_of(5):
        instance = draw_instance(draw, 5)
        device = earliest_finish(instance)
        run_by_path = Simulator(instance).by_priority(device, path_computation_time(instance, device))
        if not np.isfinite(run_by_path.makespan) or fits(instance, device, run_by_path):
            continue
        least = optimum(instance)
        if not np.isfinite(least):
            assert not searched(instance, 0.02).solutions
            continue
        tight += 1
        run = searched(instance, 0.1, costs_at_most(least), most=1.6)
        assert run.claimed
        assert verify(instance, run.solutions[-1]).feasible
        best += costs_at_most(least)(run)
    assert best >= some_of(2)


def test_little_memory_suffices_whatever_the_size_of_other_tensors() -> None:
    """Two of three tensors wait for the third on a device with room for one; a large one is read elsewhere."""
    edges = [[0, 2, 1e-6], [1, 2, 1e-6], [3, 2, 1e-6], [3, 4, 1e12]]
    instance = made([1] * 5, edges, [1, 1, 1], memory=[None, 1.5e-6, 1e15], devices=[[0], [0], [1], [0], [2]])
    device = np.array([0, 0, 1, 0, 2])
    assert not fits(instance, device, Simulator(instance).in_order(device, np.array([0, 1, 3, 2, 4])))
    roomy = replace(instance, memory=np.array([np.inf, 2.1e-6, 1e15]))
    assert fits(roomy, device, Simulator(roomy).in_order(device, np.array([0, 1, 3, 2, 4])))
    assert not searched(instance, 0.1, most=0.3).solutions
    assert math.isinf(moved(instance, device))
    assert math.isfinite(moved(roomy, device))


def moved(instance: Instance, device: Ints) -> float:
    """The least makespan that moves find that fits."""
    moves = SimulatedMoves(Simulator(instance), device, np.zeros(instance.nodes), 0)
    moves.search(100, 1.0)
    return moves.best


def test_moves_of_any_temperature_leave_a_schedule_behind() -> None:
    """Makespans that might grow by far more than floats have digits."""
    draw = random.Random(3)
    complexity = [draw.randint(1, 9) for _ in range(30)]
    edges = [[u, v, draw.randint(1, 9)] for v in range(30) for u in range(v) if draw.random() < 0.1]
    instance = made(complexity, edges, [1, 1, 1e-10, 1e-20])
    simulator, device = Simulator(instance), earliest_finish(instance)
    run = simulator.by_priority(device, path_computation_time(instance, device))
    moves = PathMoves(simulator, device, run.sequence[np.argsort(device[run.sequence], kind="stable")], 0)
    for _ in range(20):
        moves.search(200, 1e30)
        assert sorted(moves.order.tolist()) == list(range(30))
        assert np.isfinite(simulator.in_order(moves.device, moves.order).makespan)
        assert simulator.in_order(moves.best_device, moves.best_order).makespan == pytest.approx(moves.best)


def test_moves_do_not_depend_on_the_unit_of_time() -> None:
    """Times in units of 2^30: every sum and difference has the same digits."""
    plain, found = flow(0), []
    for unit in (1.0, 2.0**30):
        instance = replace(plain, complexity=plain.complexity / unit, size=plain.size / unit)
        moves = moves_of(Simulator(instance), seed=0)
        before = moves.run()[1].makespan
        moves.search(500, 0.0)
        for _ in range(20):
            moves.search_window(100, 0.1 * before, 0.001 * before, nodes=20)
        assert moves.best < before
        found.append((moves.best * unit, moves.best_device.tolist(), moves.best_order.tolist()))
    assert found[0] == found[1]


def test_a_graph_without_vertices_takes_no_time() -> None:
    assert searched(made([], [], [1]), 0.5).claimed == [0.0]


@pytest.mark.gate
def test_comes_near_the_best_of_all_schedules_of_tiny_graphs() -> None:
    draw, best, reached = random.Random(22), 0, []
    for _ in range(20):
        instance = roomy(draw, 5)
        least = optimum(instance)
        found = searched(instance, 0.05, costs_at_most(least), most=0.8).claimed[-1]
        assert found is not None
        assert found >= least * (1 - 1e-9)
        best += found <= least * (1 + 1e-9)
        reached.append(found / least if least else 1.0)
    assert best >= 15
    assert np.mean(reached) < 1.05


@pytest.mark.thorough(cases=5)
@pytest.mark.parametrize("name", [e.id for e in catalog.suite("standard") if e.track == "scheduling"])
def test_embedded_instances_end_feasible_and_no_worse_than_what_it_begins_with(name: str) -> None:
    instance = embedded(name)
    run = searched(instance, 0.4, has_found)
    verdict = verify(instance, run.solutions[-1])
    assert verdict.feasible, verdict.violations
    assert verdict.cost == run.claimed[-1]
    for device in (earliest_finish(instance), around_the_path(instance)):
        by_path = schedule(instance, device, "pct", np.random.default_rng(0))
        assert verdict.cost is not None
        comparable = instance.links == "independent" and fits(instance, device, by_path)
        assert verdict.cost <= by_path.makespan * (1 + 1e-9) or not comparable
    known = catalog.find(name).published.get("best_cost")
    assert known is None or verdict.cost >= float(known) * (1 - 1e-9)


@pytest.mark.gate
def test_the_search_is_better_than_heft_with_any_scheduler_on_the_convolutional_network() -> None:
    instance = embedded("convolutional-training")
    device = earliest_finish(instance)
    pairs = [schedule(instance, device, name, np.random.default_rng(0)) for name in ("pct", "msr")]
    least = min(execution.makespan for execution in pairs)
    assert costs_at_most(0.95 * least)(searched(instance, 1.0, costs_at_most(0.95 * least)))


def test_tensors_without_a_link_are_never_sent() -> None:
    """Two islands of devices: what reads each other has to be on one of them."""
    plain = families()["random-dataflow"].build(5, nodes=30, devices=4, restricted=0.0)
    bandwidth = plain.bandwidth.copy()
    bandwidth[:2, 2:] = bandwidth[2:, :2] = 0
    instance = replace(plain, bandwidth=bandwidth)
    run = searched(instance, 0.2, has_found)
    assert run.solutions
    assert all(verify(instance, solution).feasible for solution in run.solutions)


def test_priorities_are_at_first_the_paths_behind() -> None:
    instance = embedded("dataflow-60")
    time = path_computation_time(instance, earliest_finish(instance))
    tail, head = instance.graph.tail, instance.graph.head
    assert (time[tail] > time[head]).all()


def test_vertices_that_take_no_time_are_put_where_their_tensors_need_none() -> None:
    draw = random.Random(29)
    for _ in range(10):
        drawn = roomy(draw, 10, links="independent")
        instance = replace(drawn, complexity=np.zeros(drawn.nodes))
        free = bool((instance.choice < 0).all())
        run = searched(instance, 0.05, costs_at_most(0) if free else has_found)
        verdict = verify(instance, run.solutions[-1])
        assert verdict.feasible
        assert verdict.cost == run.claimed[-1]
        assert verdict.cost == 0 or not free


def test_a_single_vertex_goes_to_the_fastest_device() -> None:
    draw = random.Random(23)
    instance = next(x for x in (roomy(draw, 1) for _ in range(50)) if x.nodes == 1)
    least = float(instance.complexity[0] / instance.fastest()[0])
    assert searched(instance, 0.1, costs_at_most(least)).claimed[-1] == least


def test_moves_improve_what_they_begin_with_as_far_as_there_is_time() -> None:
    plain = families()["random-dataflow"].build(10, nodes=40, devices=4)
    free = replace(plain, memory=np.full(4, np.inf))
    for options in ({}, {"links": "queue"}, {"memory": np.full(4, 700.0), "holding": "reserved"}):
        run = Claims(cores=2)
        best = begin(Simulator(replace(free, **options)), run)  # type: ignore[arg-type]
        before = not best.fits, best.makespan
        improve(best, 0.0)
        assert (not best.fits, best.makespan) == before
        for seconds in (0.2, 1.0, 5.0):  # the machine may be busy
            improve(best, seconds)
            if (not best.fits, best.makespan) < before:
                break
        assert (not best.fits, best.makespan) < before
        assert best.fits
        verdict = verify(best.simulator.instance, run.solutions[-1])
        assert verdict.feasible
        assert verdict.cost == pytest.approx(best.makespan, rel=1e-9)
