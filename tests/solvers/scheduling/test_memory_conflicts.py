"""Proofs by conflicts of units, against every schedule."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from itertools import combinations, islice

import numpy as np
import oracle_scheduling
import pytest
from schedules import made

from instances.generate.dataflows import tight_memory
from instances.scheduling import Instance
from solvers.scheduling.schedules.memory_conflicts import too_many_conflicts
from solvers.scheduling.schedules.memory_cuts import _Cuts

pytestmark = pytest.mark.gate(cases=2)


def conflicting(instance: Instance) -> bool:
    """Say if more units than devices exclude each other."""
    cuts = _Cuts(instance, np.arange(instance.devices), math.inf)
    return too_many_conflicts(instance, cuts.devices, cuts.lasting, math.inf)


@pytest.mark.parametrize("number", [3, 39, 45, 52])
def test_more_units_exclude_each_other_than_there_are_devices(number: int) -> None:
    assert conflicting(next(islice(tight_memory(), number, None)))


def test_units_conflict_only_if_no_schedule_fits() -> None:
    draw, proofs = random.Random(23), 0
    for seed in range(400):
        n, k = draw.randint(4, 6), draw.choice([1, 2, 2])
        edges = [[u, v, draw.choice([0, 1, 5, 9])] for u, v in combinations(range(n), 2) if draw.random() < 0.6]
        loose = made(
            [draw.choice([0, 1, 2, 3]) for _ in range(n)],
            edges,
            [draw.choice([1, 2]) for _ in range(k)],
            2,
            colocation=[draw.choice([None, None, None, 0]) for _ in range(n)],
            options={"holding": "reserved", "links": draw.choice(["independent", "queue", "share"])},
        )
        most = np.bincount(loose.graph.head, loose.size, n).max(initial=0.0)
        instance = replace(loose, memory=np.full(k, most * draw.choice([1.0, 1.3]) + draw.choice([1e-6, 1])))
        if conflicting(instance):
            assert oracle_scheduling.optimum(instance) is None, seed
            proofs += 1
    assert proofs > 10


def test_waiting_tensors_and_vertices_that_take_no_time_cause_no_conflicts() -> None:
    """Two readers of 5 each on one device with room for 6: what both read is made before either runs."""
    edges = [[0, 2, 3], [1, 2, 2], [0, 3, 3], [1, 3, 2]]
    for times, holding in (([1] * 4, "reserved"), ([1] * 4, "waiting"), ([1, 1, 0, 0], "reserved")):
        instance = made(times, edges, [1], memory=[6], options={"holding": holding})
        assert conflicting(instance) == (times[2] > 0 and holding == "reserved")
