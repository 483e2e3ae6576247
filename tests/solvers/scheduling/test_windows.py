"""``windows``: what it cuts out and puts back, what it claims, and that it gets to the best of all schedules."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from schedules import Claims, draw_document, draw_instance, made, optimum, parsed

from harness.verify import verify
from instances.generate import families
from instances.scheduling import Instance
from solvers.registry import Declined, LocalRun
from solvers.scheduling._kernels import Simulator
from solvers.scheduling.exact.window import Cutter, Schedule, Timing, in_sequence
from solvers.scheduling.heuristics.heft import earliest_finish
from solvers.scheduling.heuristics.local import orders, path_computation_time
from solvers.scheduling.schedules.annealing import begin, improve
from solvers.scheduling.windows import arrange, windows


def improved(instance: Instance, seconds: float, first: float = 0.0, **limits: Any) -> Claims:
    """A run, each schedule of which is as claimed and shorter than the one before."""
    run = Claims(seconds=seconds, **limits)
    windows(instance, run, first=first)
    verdicts = [verify(instance, solution) for solution in run.solutions]
    assert all(verdict.feasible for verdict in verdicts)
    assert [verdict.cost for verdict in verdicts] == pytest.approx(run.claimed, rel=1e-9)
    assert all(later < before for before, later in zip(run.claimed, run.claimed[1:], strict=False))
    return run


def begun(instance: Instance, timing: Timing) -> Schedule:
    device = earliest_finish(instance)
    return timing.schedule(device, timing.forward.by_priority(device, path_computation_time(instance, device)))


def dataflow(seed: int, **options: Any) -> Instance:
    plain = families()["random-dataflow"].build(seed, nodes=40, devices=4)
    return replace(plain, memory=np.full(4, np.inf), **{"links": "independent", **options})


def sparse(draw: random.Random) -> Instance:
    """An instance in which tensors are worth sending now and then, and HEFT may miss the best schedule."""
    while True:
        document = draw_document(draw, 6, links="independent")
        document["devices"]["memory"], document["nodes"]["colocation"] = None, None
        document["edges"] = [edge for edge in document["edges"] if draw.random() < 0.5]
        rows = [[None if width is None else 3 * (width or 1) for width in row] for row in document["bandwidth"]]
        if (instance := parsed({**document, "bandwidth": rows})) is not None:
            return instance


@pytest.mark.gate
def test_reaches_the_best_of_all_schedules_of_tiny_graphs() -> None:
    draw, reached = random.Random(31), 0
    while reached < 8:
        instance = sparse(draw)
        best = optimum(instance)
        if begun(instance, Timing(instance)).makespan > best * (1 + 1e-6):
            found = (improved(instance, seconds).claimed[-1] for seconds in (0.3, 1.5, 5.0))  # the machine may be busy
            assert any(cost == pytest.approx(best, rel=1e-6) for cost in found)
            reached += 1


def test_whatever_the_options_schedules_are_as_claimed_and_fit() -> None:
    draw, found = random.Random(32), 0
    for seed in range(20):
        instance = draw_instance(draw, 9)
        try:
            runs = (improved(instance, seconds, seed % 3 / 4, seed=seed) for seconds in (0.1, 0.5, 2.0))
            found += any(run.solutions for run in runs)
        except Declined:
            assert not (instance.bandwidth > 0).all()
    assert found >= 10


def test_a_window_put_back_makes_the_schedule_as_much_shorter_as_its_model_says() -> None:
    shorter = 0
    for seed in range(4):
        instance = dataflow(seed)
        timing, rng = Timing(instance), np.random.default_rng(seed)
        schedule = begun(instance, timing)
        for first in range(0, instance.nodes - 10, 5):
            window = Cutter(instance, 3, rng).cut(schedule, first, first + 12, 8)
            answer = window and arrange(window, lambda: 10.0, seed)
            if window is not None and answer and len(answer.order):
                device, sequence = window.put_back(schedule, answer.device, answer.order)
                execution = in_sequence(timing.forward, device, sequence)
                assert execution.makespan == pytest.approx(answer.makespan, rel=1e-6)
                assert execution.makespan < schedule.makespan
                schedule = timing.schedule(device, execution)
                shorter += 1
    assert shorter >= 5


def test_what_lies_behind_is_what_the_end_waits_for() -> None:
    instance = dataflow(5)
    schedule = begun(instance, Timing(instance))
    finish = schedule.execution.finish + schedule.behind
    assert finish.max() == pytest.approx(schedule.makespan)
    assert schedule.behind[schedule.sequence[-1]] == 0
    tail, head = instance.graph.tail, instance.graph.head
    time = (instance.complexity / instance.speed[schedule.device])[head]
    assert (schedule.behind[tail] >= (schedule.behind[head] + time) * (1 - 1e-12)).all()


def test_groups_move_as_a_whole_or_not_at_all() -> None:
    instance = dataflow(6)
    assert len(instance.unit_choice) < instance.nodes
    schedule, moved = begun(instance, Timing(instance)), 0
    for first in range(instance.nodes - 10):
        window = Cutter(instance, 4, np.random.default_rng(first)).cut(schedule, first, first + 10, 10)
        if window is not None:
            part, inside = window.ends.instance, np.isin(np.arange(instance.nodes), window.vertices)
            for v, number in zip(window.vertices.tolist(), part.unit_choice[part.unit].tolist(), strict=True):
                mates = instance.unit == instance.unit[v]
                devices = window.devices[part.unit_choices[number]]
                if not inside[mates].all():
                    assert devices.tolist() == [schedule.device[v]]
                elif mates.sum() > 1:
                    moved += len(devices) > 1
    assert moved


def test_a_window_takes_the_places_that_its_vertices_have_in_a_later_schedule() -> None:
    instance = dataflow(7)
    timing = Timing(instance)
    schedule = begun(instance, timing)
    window = Cutter(instance, 3, np.random.default_rng(0)).cut(schedule, 10, 20, 5)
    assert window is not None
    other = schedule.execution.sequence.copy()
    other[[3, 12]] = other[[12, 3]]
    later = Schedule(schedule.device, replace(schedule.execution, sequence=other), schedule.behind)
    places = np.zeros(10, dtype=np.int64)
    _, sequence = window.put_back(later, places, np.arange(10)[::-1])
    inside = np.isin(other, window.vertices)
    assert sequence[~inside].tolist() == other[~inside].tolist()
    assert sequence[inside].tolist() == window.vertices[::-1].tolist()


def test_nothing_is_cut_where_nothing_can_get_better() -> None:
    instance = made([1] * 6, [[v, v + 1, 1] for v in range(5)], [2, 1])
    schedule = begun(instance, Timing(instance))
    assert schedule.makespan == 3
    cutter = Cutter(instance, 2, np.random.default_rng(0))
    assert cutter.cut(schedule, 2, 3, 1) is None
    window = cutter.cut(schedule, 1, 4, 3)
    assert window is not None
    answer = arrange(window, lambda: 10.0, 0)
    assert answer.proved
    assert answer.makespan == math.inf
    run = improved(instance, 8.0)
    assert run.claimed == [3]
    assert run.remaining() > 1  # a simple bound says that this is the best


def test_no_vertices_take_no_time_and_partitions_without_links_are_declined() -> None:
    assert improved(made([], [], [1]), 5.0).claimed == [0.0]
    apart = made(
        [1, 1, 1], [[0, 2, 1], [1, 2, 1]], [1, 1], bandwidth=[[None, 0], [0, None]], devices=[[0], [1], [0, 1]]
    )
    with pytest.raises(Declined, match="first"):
        windows(dataflow(9), LocalRun(seconds=0.5), first=1.0)
    with pytest.raises(Declined, match="link"):
        windows(apart, LocalRun(seconds=0.5))


def test_moves_come_before_windows_if_they_get_a_share_of_the_time() -> None:
    for options in ({}, {"links": "queue"}, {"memory": np.full(4, 700.0), "holding": "reserved"}):
        run = Claims(cores=2)
        best = begin(Simulator(replace(dataflow(10), **options)), run)
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


def test_several_threads_improve_one_schedule() -> None:
    instance = dataflow(8)
    alone = begun(instance, Timing(instance))
    runs = (improved(instance, seconds, cores=2) for seconds in (0.6, 2.0, 8.0))  # the machine may be busy
    run = next(run for run in runs if run.claimed[-1] < alone.makespan)
    assert orders(alone.device, alone.execution, 4) != run.solutions[-1]["order"]
