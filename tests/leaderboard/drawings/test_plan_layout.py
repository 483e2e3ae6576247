"""Drawings of plans: what memory holds, and passes of a batch as 1F1B orders them."""

from __future__ import annotations

import random
from collections import defaultdict
from fractions import Fraction
from itertools import pairwise

import pytest
from one_f_one_b import makespan, one_f_one_b
from oracle_hybrid import draw, draw_solution

from shardmark.harness import verify
from shardmark.harness.verify import Stages
from shardmark.instances import catalog, load
from shardmark.leaderboard.drawings import plan_layout
from shardmark.leaderboard.drawings.best import pictures_of
from shardmark.leaderboard.drawings.pictures import draw as drawn
from shardmark.leaderboard.drawings.plan_layout import FORWARD, simulate
from shardmark.leaderboard.report import Loads, Schedule

PLAN = {
    "stage": [0, 0, 1],
    "configuration": ["recomputed", "recomputed", "stored"],
    "data_parallel": [2, 1],
    "tensor_parallel": [1, 1],
}


def stages_of(data: list[int], times: list[float]) -> Stages:
    flying = [-(-sum(data[i:]) // d) for i, d in enumerate(data)]
    return Stages(data, [1] * len(data), flying, times, [0.0] * len(data), [{}] * len(data))


@pytest.mark.parametrize("seed", range(20))
def test_stages_of_one_replica_run_as_simulated_by_the_oracle(seed):
    rng = random.Random(seed)
    times = [rng.randint(0, 9) for _ in range(rng.randint(1, 5))]
    count = rng.randint(1, 9)
    share = Fraction(FORWARD)
    exact = makespan([t * share for t in times], [t * (1 - share) for t in times], count, one_f_one_b)
    passes = simulate(stages_of([1] * len(times), [float(t) for t in times]), count, [FORWARD * t for t in times])
    assert max(task.finish for task in passes) == pytest.approx(float(exact))


@pytest.mark.parametrize("seed", range(40))
def test_replicas_run_every_pass_once_after_its_input(seed):
    rng = random.Random(seed)
    data = [rng.choice([1, 1, 2, 3, 4, 6]) for _ in range(rng.randint(1, 5))]
    found = stages_of(data, [rng.random() for _ in data])
    count = rng.randint(1, 30)
    passes = simulate(found, count, [FORWARD * time for time in found.microbatch])
    finish = {(task.device[0], task.microbatch, task.back): task.finish for task in passes}
    assert len(passes) == len(finish) == 2 * count * len(data)
    rows, flying = defaultdict(list), defaultdict(int)
    for task in sorted(passes, key=lambda task: (task.start, task.finish)):
        stage, replica = task.device
        before = (stage + 1, task.microbatch, True) if task.back and stage + 1 < len(data) else None
        before = before or (stage - 1 if not task.back else stage, task.microbatch, False)
        assert task.start >= finish.get(before, 0.0)
        assert replica == task.microbatch % data[stage]
        rows[task.device].append(task)
    for device, row in rows.items():
        assert all(a.finish <= b.start for a, b in pairwise(row))
        for task in row:
            flying[device] += -1 if task.back else 1
            assert 0 <= flying[device] <= found.in_flight[device[0]]


def test_the_pictures_of_a_plan_are_loads_memory_and_for_a_batch_its_passes():
    entry = catalog.find("trade-step")
    instance = load(catalog.locate(entry), **entry.options)
    loads, memory, timeline, _ = pictures_of(instance, PLAN, bound=30.0)
    assert isinstance(loads, Loads)
    assert loads.bound is None  # of a batch, not of a load
    assert isinstance(memory, Loads)
    assert [round(row.load * plan_layout.GIB) for row in memory.rows] == [10, 9]
    assert memory.limit == 16 / plan_layout.GIB
    assert isinstance(timeline, Schedule)
    assert [device.name for device in timeline.devices] == ["stage 0.0", "stage 0.1", "stage 1"]
    assert len(timeline.nodes) == 2 * 2 * 4
    assert len(timeline.light) == len(timeline.nodes) / 2
    assert timeline.finish[timeline.chain[-1].vertex] == max(timeline.finish)
    assert timeline.chain[0].cause == "start"
    assert 'class="limit"' in drawn(memory)
    assert "run light" in drawn(timeline)
    entry = catalog.find("trade")
    assert len(pictures_of(load(catalog.locate(entry)), PLAN, bound=7.0)) == 3


def test_long_batches_are_drawn_in_part(monkeypatch):
    entry = catalog.find("trade-step")
    instance = load(catalog.locate(entry), **{**entry.options, "batch": 5000})
    found = plan_layout.timeline(instance, PLAN)
    assert found is not None
    assert len(found.nodes) == plan_layout.MOST_PASSES
    assert "Only 1,000 of 5,000 microbatches are drawn." in found.caption


def test_drawn_plans_hold_what_the_verifier_counts():
    for seed in range(30):
        rng = random.Random(seed)
        instance = draw(rng)
        solution = draw_solution(rng, instance)
        memory, held = plan_layout.memory(instance, solution), verify.stages(instance, solution)
        assert (memory is None) == (held is None)
        if memory is not None and held is not None:
            assert [row.load for row in memory.rows] == [sum(h.values()) / plan_layout.GIB for h in held.held]
