"""The file that placement solvers start from: what it reports is feasible, and even where work is."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import pairwise

import pytest
from placements import built, cost_of, draw_instance

from shardmark.cli.templates.placement import name
from shardmark.solvers.registry import Declined, LocalRun


@pytest.mark.parametrize("contiguity", ["contiguous", "acyclic", "free"])
def test_what_it_reports_is_feasible(contiguity: str) -> None:
    draw, placed = random.Random(7), 0
    for _ in range(60):
        instance = draw_instance(draw, contiguity=contiguity)
        try:
            name(instance, run := LocalRun())
        except Declined:
            continue
        assert cost_of(instance, run.solutions[-1]) >= 0
        placed += 1
    assert placed > 20


def test_work_is_even_and_what_accelerators_do_not_support_is_on_a_cpu() -> None:
    instance = built([2] * 6, pairwise(range(6)), (3, 1, 3), supported=[v != 2 for v in range(6)])
    name(instance, run := LocalRun())
    assert run.solutions[0].tolist() == [0, 0, 3, 1, 1, 2]
    with pytest.raises(Declined, match="does not know overlap half"):
        name(replace(instance, overlap="half"), LocalRun())
    with pytest.raises(Declined, match="used up"):
        name(replace(instance, memory=1.0), LocalRun())
