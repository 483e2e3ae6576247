"""Proofs by conflicts of units, against every schedule."""

from __future__ import annotations

import random
import time
from typing import Any

import numpy as np
import oracle_scheduling
import pytest
from effort import some_of
from schedules import conflicting, made, proofs_held

from shardmark.instances.generate.dataflows import tight_memory
from shardmark.solvers.scheduling.schedules.memory_conflicts import too_many_conflicts

pytestmark = pytest.mark.gate(cases=2)


@pytest.mark.parametrize("number", [3, 39, 45, 52])
def test_more_units_exclude_each_other_than_there_are_devices(number: int) -> None:
    assert conflicting(tight_memory(number))


def test_units_conflict_only_if_no_schedule_fits() -> None:
    assert proofs_held(conflicting, random.Random(23), some_of(600)) > some_of(30)


#: Two readers, 2 and 3, of the same two tensors of 5 together, and memory for 6.
FAN = {"complexity": [1] * 4, "edges": [[0, 2, 3], [1, 2, 2], [0, 3, 3], [1, 3, 2]], "speed": [1], "memory": [6]}

#: Vertex 2 reads a tensor that takes half the memory; so does 3, also from 2.
CHAIN = {"complexity": [1] * 4, "edges": [[0, 2, 3], [0, 3, 3], [2, 3, 1]], "speed": [1], "memory": [6]}

#: Vertices 1 and 2 on one device read 3 each, which 0 makes on another one, and have memory for 6.
SENT = {
    "complexity": [1] * 3,
    "edges": [[0, 1, 3], [0, 2, 3]],
    "speed": [1, 1],
    "memory": [6, None],
    "devices": [[1], [0], [0]],
    "options": {"holding": "reserved", "links": "queue"},
}


@pytest.mark.parametrize(
    ("columns", "conflict"),
    [
        pytest.param(FAN, True, id="too much in both orders"),
        pytest.param(SENT, True, id="reserved tensors that queue"),
        pytest.param(
            {**SENT, "options": {"holding": "waiting", "links": "queue"}}, False, id="waiting tensors that queue"
        ),
        pytest.param({**FAN, "complexity": [1, 1, 0, 0]}, False, id="readers that take no time"),
        pytest.param(
            {**FAN, "complexity": [1, 1, 1e-9, 1e-9]}, False, id="readers that take no more than the tolerance"
        ),
        pytest.param({**FAN, "complexity": [0, 1e-9, 1, 1]}, True, id="makers that take no more than the tolerance"),
        pytest.param({**FAN, "memory": [10 * (1 + 5e-10)]}, True, id="memory that is equal within the tolerance"),
        pytest.param(
            {**FAN, "memory": [10 * (1 + 2e-9)]}, False, id="memory that is larger by more than the tolerance"
        ),
        pytest.param({**FAN, "speed": [1, 1], "memory": [6, 6]}, False, id="a device for each"),
        pytest.param(
            {**FAN, "speed": [1, 1], "memory": [6, 6], "colocation": [None, None, 0, 0]},
            True,
            id="one unit fits nowhere",
        ),
        pytest.param(
            {**FAN, "speed": [1, 1], "memory": [6, None], "devices": [None, None, [0], [0]]},
            True,
            id="one device for both",
        ),
        pytest.param(
            {**FAN, "speed": [1, 1], "memory": [6, None], "devices": [[0], None, None, [0]]},
            False,
            id="a device without a limit for one of them",
        ),
        pytest.param(
            {**FAN, "speed": [1, 1], "memory": [6, 11], "colocation": [None, None, 0, 0]}, False, id="a large device"
        ),
        pytest.param(CHAIN, True, id="too much in the only order"),
        pytest.param({**CHAIN, "edges": [[0, 2, 3], [2, 3, 5]]}, False, id="a tensor from the first to the second"),
        pytest.param(
            {**FAN, "edges": [[0, 2, 0], [0, 3, 0]], "memory": [0]}, False, id="tensors of no size, no memory"
        ),
        pytest.param({**FAN, "edges": []}, False, id="no tensors"),
    ],
)
def test_conflicts_of_two_readers_are_found_if_no_schedule_fits(columns: dict[str, Any], conflict: bool) -> None:
    instance = made(**{"options": {"holding": "reserved"}, **columns})
    assert conflicting(instance) == conflict
    assert (oracle_scheduling.optimum(instance) is None) == conflict


def test_nothing_is_proven_after_the_time() -> None:
    instance = made(**FAN, colocation=[None, None, 0, 0], options={"holding": "reserved"})
    assert not too_many_conflicts(instance, np.arange(1), np.arange(2, 4), time.monotonic())
