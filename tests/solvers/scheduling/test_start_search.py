"""Search of all starts: its schedules against the verifier, its proofs against every schedule."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import islice

import numpy as np
import oracle_scheduling
import pytest
from schedules import Claims, made

from harness.verify.scheduling import verify
from instances.generate.dataflows import tight_memory
from instances.scheduling import Instance
from solvers.registry import Declined
from solvers.scheduling._kernels import Simulator
from solvers.scheduling.heuristics.local import orders
from solvers.scheduling.memory_first import NONE, memory_first
from solvers.scheduling.schedules.annealing import begin
from solvers.scheduling.schedules.memory_cuts import none_fits
from solvers.scheduling.schedules.start_search import MOST_BYTES, every_vertex_lasts, in_parts, search_starts

pytestmark = pytest.mark.gate(cases=2)


def draw_full(draw: random.Random) -> Instance:
    """Three to six vertices that last and read from others; some device holds little more than its largest tensor."""
    n, k = draw.randint(3, 6), draw.choice([1, 2, 2, 3])
    edges = [[u, v, draw.choice([0, 1, 2, 3, 7])] for v in range(n) for u in range(v) if draw.random() < 0.6]
    options = {
        "links": draw.choice(["independent", "queue", "share"]),
        "holding": draw.choice(["waiting", "waiting", "reserved"]),
    }
    columns = {
        "colocation": [draw.choice([None, None, None, 0]) for _ in range(n)],
        "options": options,
        "bandwidth": draw.choice([0.3, 1, 2, 50]),
    }
    instance = made(
        [draw.randint(1, 4) for _ in range(n)], edges, [draw.choice([1, 1, 2]) for _ in range(k)], **columns
    )
    read = np.bincount(instance.graph.head, instance.size, n).max(initial=0.0)
    most = read if options["holding"] == "reserved" else max(1.0, draw.choice([read / 2, read]))
    return replace(instance, memory=np.full(k, draw.choice([1.01, 1.01, 1.4]) * most + 1e-6))


def test_each_search_ends_with_a_schedule_that_fits_or_a_true_proof() -> None:
    draw, fitting, proofs = random.Random(11), 0, 0
    for seed in range(250):
        instance = draw_full(draw)
        simulator = Simulator(instance)
        schedule, none_is_left = simulator.start_search(*in_parts(instance), 60.0, MOST_BYTES)
        assert none_is_left == (oracle_scheduling.optimum(instance) is None), seed
        assert none_is_left == (schedule is None), seed
        if schedule:
            device, sequence = schedule
            execution = simulator.in_sequence(device.astype(np.int64), sequence)
            order = orders(device, execution, instance.devices)
            assert verify(instance, {"device": device.tolist(), "order": order}).feasible, seed
        fitting += schedule is not None
        proofs += none_is_left
    assert fitting > 100
    assert proofs > 20


@pytest.mark.parametrize("number", [114, 189])
def test_a_beginning_that_fits_nowhere_is_a_proof(number: int) -> None:
    """In 114 tensors wait and links queue, so that cuts prove nothing."""
    best = begin(Simulator(next(islice(tight_memory(), number, None))), Claims())
    assert search_starts(best, 60.0)
    assert not best.fits


def test_a_schedule_that_is_found_is_handed_over() -> None:
    run = Claims()
    best = begin(Simulator(next(islice(tight_memory(), 103, None))), run)
    assert not best.fits
    assert not search_starts(best, 60.0)
    assert best.fits
    assert verify(best.simulator.instance, run.solutions[-1]).feasible


def test_without_time_or_room_nothing_is_proven() -> None:
    instance = next(islice(tight_memory(), 189, None))
    best = begin(Simulator(instance), Claims())
    assert not search_starts(best, 0.0)
    assert Simulator(instance).start_search(*in_parts(instance), 60.0, 1000) == (None, False)


def test_devices_without_a_limit_hold_anything() -> None:
    chain = made([1, 1, 1], [[0, 1, 5], [0, 2, 5]], [1, 1], memory=[None, 5.5], options={"holding": "reserved"})
    assert np.isinf(in_parts(chain)[1][0])
    schedule, none_is_left = Simulator(chain).start_search(*in_parts(chain), 60.0, MOST_BYTES)
    assert schedule is not None
    assert not none_is_left


def test_vertices_that_take_no_time_are_left_to_other_methods() -> None:
    instant = made([1, 0, 1], [[0, 1, 2], [0, 2, 2]], [1], memory=[3], options={"holding": "waiting"})
    assert not every_vertex_lasts(instant)
    assert not search_starts(begin(Simulator(instant), Claims()), 60.0)


def test_the_solver_tells_what_only_this_search_proves() -> None:
    draw, proofs = random.Random(12), 0
    while proofs < 2:
        instance = draw_full(draw)
        if search_starts(begin(Simulator(instance), Claims()), 60.0) and not none_fits(instance, 0.5):
            with pytest.raises(Declined, match=NONE):
                memory_first(instance, Claims(timeout=2.0))
            proofs += 1
