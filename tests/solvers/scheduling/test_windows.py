"""Windows of a schedule: what they change, that they cool down, and when the search reheats them."""

from __future__ import annotations

import itertools
from types import SimpleNamespace

import numpy as np
import pytest
from effort import draws, some_of
from schedules import Claims, flow, mean_time, moves_of

from shardmark.instances.files.columns import Ints
from shardmark.solvers.scheduling._kernels import Execution, Simulator
from shardmark.solvers.scheduling.schedules import annealing, parts, windows
from shardmark.solvers.scheduling.schedules.parts import Parts


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
    """On average, what is there last is nearly as good as the best, and far better than without cooling."""
    to_best, to_hot = [], []
    for seed in range(some_of(8)):
        instance = flow(seed)
        simulator = Simulator(instance)
        ends = []
        for cold in (1.0, 0.01):
            moves = moves_of(simulator, seed)
            each = mean_time(moves, instance)
            moves.search_window(5000, each, cold * each, instance.nodes)
            ends.append(simulator.in_order(moves.device, moves.order).makespan)
        to_best.append(ends[1] / moves.best)
        to_hot.append(ends[1] / ends[0])
    assert np.mean(to_best) <= 1.01
    assert np.mean(to_hot) < 0.95


@pytest.mark.thorough(cases=1)
@pytest.mark.parametrize("least", [parts.LEAST, 30])
def test_reheated_windows_better_what_no_move_betters_and_all_searches_end_with_the_best(
    least: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(windows, "WINDOW_VERTICES", 30)
    monkeypatch.setattr(parts, "LEAST", least)
    gained = []
    for seed in range(draws(3, 3, 4)):
        instance = flow(seed)
        simulator = Simulator(instance)
        searches = [moves_of(simulator, number) for number in range(2)]
        for search in searches:
            search.search(20_000, 0.0)
        before, taken = min(search.best for search in searches), list[Execution]()
        monkeypatch.setattr(windows, "time", clock())

        def take(device: Ints, execution: Execution, taken: list[Execution] = taken) -> None:
            taken.append(execution)

        of_searches = Parts(simulator, searches, seed)
        assert of_searches.several == (least == 30)
        windows.reheat(of_searches, take, 120, 3000, mean_time(searches[0], instance))
        assert windows.time.monotonic() >= 120
        assert len(taken) > windows.EXCHANGES / 2
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

    def reheated(parts: object, take: object, end: float, most: int, each: float) -> None:
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
