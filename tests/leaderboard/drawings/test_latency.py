"""Drawings of placements for latency: they end at the cost, and the critical chain takes all the time."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest
from oracle_placement import draw_solution
from placements import draw_instance

from shardmark.harness.verify import verify
from shardmark.leaderboard.drawings.best import pictures_of
from shardmark.leaderboard.drawings.latency_layout import CPUS, drawing
from shardmark.leaderboard.drawings.pictures import key
from shardmark.leaderboard.report import Loads, Schedule


def test_a_schedule_ends_at_the_cost_and_its_chain_has_no_gap() -> None:
    rng, drawn, causes = random.Random(5), 0, set()
    while drawn < 80:
        instance = draw_instance(rng, objective="latency")
        solution = draw_solution(rng, instance)
        verdict, found = verify(instance, solution), drawing(instance, solution)
        assert (found is None) == (verdict.cost is None)
        if found is None or not instance.nodes:
            continue
        drawn += 1
        assert max(found.finish) == verdict.cost
        assert found.start[found.chain[0].vertex] == 0
        assert found.finish[found.chain[-1].vertex] == verdict.cost
        for before, after in pairwise(found.chain):
            assert found.finish[before.vertex] == found.start[after.vertex]
            same = found.device[before.vertex] == found.device[after.vertex]
            assert same == (after.cause != "transfer")
        causes |= {link.cause for link in found.chain}
        assert [device.name for device in found.devices if device.cpu] in ([], [CPUS])
    assert causes >= {"start", "transfer", "input"}


@pytest.mark.parametrize(("objective", "first"), [("latency", Schedule), ("throughput", Loads)])
def test_the_objective_decides_what_is_drawn_first(objective: str, first: type) -> None:
    rng = random.Random(1)
    instance = draw_instance(rng, objective=objective)
    picture = pictures_of(instance, [0] * instance.nodes, bound=None)[0]
    assert isinstance(picture, first)
    assert key(picture).startswith("Each row is a device")
