"""Windows of a schedule: what they change, that they cool down, and when the search reheats them."""

from __future__ import annotations

import itertools
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from schedules import Claims

from instances.files.columns import Ints
from instances.generate import families
from instances.scheduling import Instance
from solvers.scheduling._kernels import Execution, PathMoves, Simulator
from solvers.scheduling.heuristics.heft import earliest_finish
from solvers.scheduling.heuristics.local import path_computation_time
from solvers.scheduling.schedules import annealing, windows


def flow(seed: int, nodes: int = 80) -> Instance:
    """A random data flow graph with room for all tensors."""
    plain = families()["random-dataflow"].build(seed, nodes=nodes, devices=4, restricted=0.0)
    return replace(plain, memory=np.full(4, np.inf))


def moves_of(simulator: Simulator, seed: int) -> PathMoves:
    device = earliest_finish(simulator.instance)
    run = simulator.by_priority(device, path_computation_time(simulator.instance, device))
    return PathMoves(simulator, device, run.sequence[np.argsort(device[run.sequence], kind="stable")], seed)


def mean_time(moves: PathMoves, instance: Instance) -> float:
    return float((instance.complexity / instance.speed[moves.best_device]).mean())


def clock() -> SimpleNamespace:
    """A clock that goes on by 1 whenever it is read."""
    return SimpleNamespace(monotonic=itertools.count().__next__)


def test_a_window_changes_the_best_schedule_among_vertices_that_end_one_after_another() -> None:
    instance = flow(1)
    moves = moves_of(Simulator(instance), 0)
    each, places = mean_time(moves, instance), set()
    moves.search(300, 2 * each)
    for _ in range(20):
        best, run = moves.run()
        moves.search_window(400, 2 * each, each, 20)
        rank = np.argsort(np.argsort(run.finish, kind="stable"))
        changed = rank[moves.device != best]
        assert np.ptp(changed) < 20
        places.add(int(changed.min()))
    assert len(places) > 5


def test_a_window_cools_down() -> None:
    """What is there last is nearly as good as the best, and far better than without cooling."""
    instance = flow(2)
    simulator = Simulator(instance)
    ends = []
    for cold in (1.0, 0.01):
        moves = moves_of(simulator, 0)
        each = mean_time(moves, instance)
        moves.search_window(5000, each, cold * each, instance.nodes)
        ends.append(simulator.in_order(moves.device, moves.order).makespan)
    assert ends[1] <= 1.01 * moves.best
    assert ends[1] < 0.95 * ends[0]


def test_reheated_windows_better_what_no_move_betters_and_all_searches_end_with_the_best(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(windows, "WINDOW_VERTICES", 30)
    gained = []
    for seed in range(4):
        instance = flow(seed)
        simulator = Simulator(instance)
        searches = [moves_of(simulator, number) for number in range(2)]
        for search in searches:
            search.search(20_000, 0.0)
        before, taken = min(search.best for search in searches), list[Execution]()
        monkeypatch.setattr(windows, "time", clock())

        def take(device: Ints, execution: Execution, taken: list[Execution] = taken) -> None:
            taken.append(execution)

        windows.reheat(searches, take, 60, 3000, mean_time(searches[0], instance))
        assert windows.time.monotonic() >= 60
        assert len(taken) >= windows.EXCHANGES
        gained.append(1 - taken[-1].makespan / before)
        for search in searches:
            assert search.best == pytest.approx(taken[-1].makespan, rel=1e-9)
            assert search.run()[1].makespan == taken[-1].makespan
    assert np.mean(gained) > 0.01, gained


@pytest.mark.parametrize("fewest", [0, 10**9])
def test_half_of_the_time_goes_to_windows_if_it_suffices_for_enough_moves(
    fewest: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []

    def reheated(searches: object, take: object, end: float, most: int, each: float) -> None:
        calls.append((end - now.monotonic(), most, each))

    now = clock()
    monkeypatch.setattr(annealing, "time", now)
    monkeypatch.setattr(annealing, "reheat", reheated)
    monkeypatch.setattr(annealing, "SOME_WINDOWS", 0)
    monkeypatch.setattr(annealing, "MOVES_FOR_WINDOWS", fewest)
    best = annealing.begin(Simulator(flow(1)), Claims(cores=2))
    annealing.improve(best, 1000)
    assert bool(calls) == (not fewest)
    assert now.monotonic() >= (900 if fewest else 450)
    for left, most, each in calls:
        assert 400 <= left <= 500
        assert most >= 1
        assert each > 0
