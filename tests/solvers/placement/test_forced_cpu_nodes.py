"""Nodes that the only CPU must hold: the same placements are feasible, at the same costs."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest
from effort import some_of
from oracle_placement import judge
from placements import built, draw_instance, placements

from shardmark.solvers.placement.throughput.forced_cpu_nodes import forced_nodes, with_forced_nodes


def chain(*supported, devices=(2, 1), **options):
    edges = [(v, v + 1, 1) for v in range(len(supported) - 1)]
    return built([1] * len(supported), edges, devices, cpu=2, supported=supported, **options)


def test_what_lies_between_is_there_too():
    instance = chain(True, False, True, True, False, True)
    assert forced_nodes(instance).tolist() == [False, True, True, True, True, False]
    less = with_forced_nodes(instance)
    assert less.supported.tolist() == [True, False, False, False, False, True]
    assert np.bincount(less.unit).tolist() == [1, 4, 1]


def test_colours_bring_others_along():
    tied = replace(chain(True, False, True, True, False, True), colour=np.array([-1, -1, 0, -1, -1, 0]))
    assert forced_nodes(tied).tolist() == [False, True, True, True, True, True]


@pytest.mark.parametrize("changes", [{"devices": (2, 2)}, {"contiguity": "free"}, {"objective": "latency"}])
def test_more_cpus_or_other_modes_force_nothing(changes):
    instance = chain(True, False, True, False, **changes)
    assert with_forced_nodes(instance) is instance


@pytest.mark.gate
def test_all_placements_stay_with_their_costs():
    draw = random.Random("forced")
    changed = 0
    for _ in range(some_of(400)):
        instance = draw_instance(draw, 5, contiguity=draw.choice(["contiguous", "acyclic"]))
        less = with_forced_nodes(instance)
        if less is instance:
            continue
        changed += 1
        assert all(judge(less, solution) == judge(instance, solution) for solution in placements(instance))
    assert changed > some_of(30)
