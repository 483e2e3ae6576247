"""Drawings of strategies: steps of the cost add up exactly, and memory peaks where the instance says."""

from __future__ import annotations

import random

import numpy as np
import pytest
from oracle_intraop import draw, draw_solution

from shardmark.harness.verify import choices, verify
from shardmark.leaderboard.drawings import pictures
from shardmark.leaderboard.drawings.choices.choices_layout import drawings, peak
from shardmark.leaderboard.drawings.choices.memory_svg import busiest


@pytest.mark.parametrize("seed", range(20))
def test_the_steps_of_the_cost_add_up_and_memory_peaks_where_it_does(seed: int) -> None:
    rng = random.Random(seed)
    instance = draw(rng)
    solution = draw_solution(rng, instance)
    found, chosen = drawings(instance, solution, bound=0.0), choices(instance, solution)
    if not instance.nodes:
        assert found is None
        return
    assert found is not None
    assert chosen is not None
    rows, cost = found.costs.rows, verify(instance, solution).cost
    assert rows[-1].start + rows[-1].length == pytest.approx(cost)
    assert rows[1].start + rows[1].length == pytest.approx(instance.cheapest_parts())
    assert sum(row.length for row in found.strategies.rows) == instance.nodes
    usage = instance.usage[chosen.row]
    assert peak(found.memory)[0] == pytest.approx(instance.peak(usage))
    if len(found.memory.begin):
        totals = np.sum([values for _, values in found.memory.used] or [[0.0]], axis=0)
        assert max(totals[busiest(found.memory, 7)]) == pytest.approx(max(totals))
    for picture in found:
        page = str(pictures.draw(picture))
        assert page.count("<svg") >= 2
        assert "nan" not in page


def test_what_is_no_solution_has_no_drawing() -> None:
    instance = draw(random.Random(3))
    assert drawings(instance, [99] * instance.nodes) is None
    assert drawings(instance, "nonsense") is None
