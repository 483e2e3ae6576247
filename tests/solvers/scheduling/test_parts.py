"""Parts of a schedule: what each search may change, and what they are together."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from schedules import flow, mean_time, moves_of

from shardmark.solvers.scheduling._kernels import Simulator
from shardmark.solvers.scheduling.schedules import parts
from shardmark.solvers.scheduling.schedules.parts import Parts


def shared(seed: int, count: int) -> tuple[Parts, Simulator]:
    simulator = Simulator(flow(seed))
    searches = [moves_of(simulator, number) for number in range(count)]
    for search in searches:
        search.search(0, 0.0)
    return Parts(simulator, searches, seed), simulator


@pytest.mark.parametrize("least", [20, 41])
def test_each_search_changes_a_part_of_its_own_if_there_are_vertices_enough(
    least: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parts, "LEAST", least)
    places = [list[int](), list[int]()]
    for seed in range(5):
        divided, simulator = shared(seed, 2)
        assert divided.several == (least == 20)
        each = mean_time(divided.searches[0], simulator.instance)
        for _ in range(6):
            before, execution = divided.searches[0].run()
            place = np.argsort(execution.sequence)
            divided.divide()
            for search, found in zip(divided.searches, places, strict=True):
                search.search(200, 2 * each)
                found.extend(place[search.device != before].tolist())
                assert np.isfinite(simulator.in_order(search.device, search.order).makespan)
            divided.join()
    first, second = (set(found) for found in places)
    assert (min(second) > 20) == (least == 20)
    assert (max(first) < 60) == (least == 20)


def test_the_best_parts_together_are_no_longer_than_the_best_schedule(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "LEAST", 20)
    joined = 0
    for seed, count in itertools.product(range(6), (2, 3)):
        divided, simulator = shared(seed, count)
        each = mean_time(divided.searches[0], simulator.instance)
        for _ in range(4):
            divided.divide()
            for search in divided.searches:
                search.search(100, each / 4)
            best = min(search.best for search in divided.searches)
            device, execution = divided.join()
            assert np.isfinite(execution.makespan)
            assert execution.makespan <= best * (1 + 1e-9)
            joined += execution.makespan < best * (1 - 1e-6)
            for search in divided.searches:
                assert search.best == execution.makespan == search.run()[1].makespan
                assert (search.device == device).all()
    assert joined >= 3
