"""The yardstick: fixed pieces of work whose results never change, and the speed that follows from their times."""

from __future__ import annotations

import math

import numpy as np
import pytest

from shardmark.cli import matrix
from shardmark.harness.campaign import yardstick
from shardmark.harness.campaign.discover import SolverInfo
from shardmark.harness.campaign.jobs import Job
from shardmark.harness.campaign.problems import Problem
from shardmark.harness.sandbox.contract import Limits
from shardmark.solvers.native import array_in, array_out, lib

SIZE, SIDE = 1000, 64
MASK = 2**64 - 1


def hashed(counter: int) -> int:
    """SplitMix64 of a counter."""
    x = (counter + 0x9E3779B97F4A7C15) & MASK
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
    return x ^ (x >> 31)


def integers(rounds: int) -> int:
    """The work on integers, in Python."""
    table, total = [0] * 1024, 0
    for counter in range(rounds):
        drawn = hashed(counter ^ total)
        at = drawn % 1024
        if table[at] < drawn:
            total, table[at] = (total + table[at]) & MASK, drawn >> 1
        else:
            total, table[at] = total ^ drawn, table[at] + 1
    return total


def floats(rounds: int) -> float:
    """The work on floats, by NumPy."""
    left = np.array([[float(hashed(i * SIDE + j) >> 40) for j in range(SIDE)] for i in range(SIDE)])
    right = left.T.copy()
    for _ in range(rounds):
        left = (left[:, :, None] + right[None]).min(axis=1)
    return float(left[0, 0] + left[-1, -1])


def test_the_work_is_the_same_everywhere() -> None:
    assert lib.shard_yardstick_integers(5000) == integers(5000)
    assert lib.shard_yardstick_floats(3) == floats(3)


def test_memory_is_read_along_one_cycle() -> None:
    links = np.empty(SIZE, np.int32)
    lib.shard_yardstick_cycle(SIZE, array_out(links))
    places = [lib.shard_yardstick_memory(SIZE, array_in(links), rounds) for rounds in range(SIZE + 1)]
    assert sorted(places[:-1]) == list(range(SIZE))
    assert places[-1] == 0


def test_a_machine_is_as_many_times_as_fast_as_its_work_takes_less_time() -> None:
    here, there = {"integers": 0.2, "memory": 0.1}, {"integers": 0.1, "memory": 0.2}
    assert yardstick.speed(here, here) == pytest.approx(1.0)
    assert yardstick.speed(here, there) == pytest.approx(1.0)
    assert yardstick.speed({"integers": 0.4, "memory": 0.2}, there) == pytest.approx(0.5)


@pytest.mark.parametrize(("limits", "is_measured"), [([20.0, 39.0], False), ([20.0, 40.0], True)])
def test_a_campaign_is_measured_if_its_runs_may_take_a_minute(
    limits: list[float], is_measured: bool, chain: Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(yardstick, "measured", lambda: {"integers": 0.1})
    jobs = [Job(SolverInfo("s", "pipeline", "solver", "s.py", ""), chain, 0, Limits(limit, 1024.0)) for limit in limits]
    assert matrix.facts_for(jobs).get("yardstick") == ({"integers": 0.1} if is_measured else None)


def test_every_kind_of_work_takes_time(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, rounds in (("INTEGERS", 1000), ("FLOATS", 1), ("MEMORY", 1000), ("CYCLE", 1000)):
        monkeypatch.setattr(yardstick, name, rounds)
    found = yardstick.measured.__wrapped__()
    assert set(found) == {"integers", "floats", "memory"}
    assert all(0 <= seconds < math.inf for seconds in found.values())
