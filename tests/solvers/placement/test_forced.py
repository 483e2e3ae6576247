"""Nodes that the only CPU must hold: the same placements are feasible, at the same costs."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest
from oracle_placement import judge
from placements import draw_instance, placements

from instances.placement import parse
from solvers.placement.throughput.forced import forced_nodes, with_forced_nodes


def chain(supported, **extra):
    times = {"cpuLatency": 2, "fpgaLatency": 1, "isBackwardNode": False, "size": 1}
    nodes = [{"id": v, "supportedOnFpga": yes, **times} for v, yes in enumerate(supported)]
    edges = [{"sourceId": v, "destId": v + 1, "cost": 1} for v in range(len(nodes) - 1)]
    devices = {"maxFPGAs": 2, "maxCPUs": 1, "maxSizePerFPGA": 9}
    return parse({**devices, "nodes": nodes, "edges": edges, **extra}, "chain")


def test_what_lies_between_is_there_too():
    instance = chain([True, False, True, True, False, True])
    assert forced_nodes(instance).tolist() == [False, True, True, True, True, False]
    less = with_forced_nodes(instance)
    assert less.supported.tolist() == [True, False, False, False, False, True]
    assert np.bincount(less.unit).tolist() == [1, 4, 1]


def test_colours_bring_others_along():
    instance = chain([True, False, True, True, False, True])
    tied = replace(instance, colour=np.array([-1, -1, 0, -1, -1, 0]))
    assert forced_nodes(tied).tolist() == [False, True, True, True, True, True]


@pytest.mark.parametrize(
    "changes", [{"maxCPUs": 2}, {"options": {"contiguity": "free"}}, {"options": {"objective": "latency"}}]
)
def test_more_cpus_or_other_modes_force_nothing(changes):
    instance = chain([True, False, True, False], **changes)
    assert with_forced_nodes(instance) is instance


@pytest.mark.gate
def test_all_placements_stay_with_their_costs():
    draw = random.Random("forced")
    changed = 0
    for _ in range(400):
        instance = draw_instance(draw, 5, contiguity=draw.choice(["contiguous", "acyclic"]))
        less = with_forced_nodes(instance)
        if less is instance:
            continue
        changed += 1
        for solution in placements(instance):
            cost = judge(instance, solution)
            assert judge(less, solution) == cost
    assert changed > 30
