"""Comparison of incumbents, also if memory is too large for the timeline's numbers."""

from __future__ import annotations

import numpy as np

from shardmark.solvers.intraop.network.memory import Timeline
from shardmark.solvers.intraop.search.incumbent import Incumbent
from shardmark.solvers.registry import LocalRun


def test_excess_is_exact_where_the_timeline_rounds(tiny):
    half = 2**62
    instance = tiny.make([(0, 1, [0, 9], [half - 98, half - 99])] * 2, limit=2 * half - 198)
    run, timeline = LocalRun(timeout=1.0), Timeline.of(instance)
    assert not timeline.exact
    incumbent = Incumbent(instance, run, timeline)
    offers = [[0, 0], [1, 0], [0, 1], [1, 1]]
    assert [incumbent.offer(np.array(offer)) for offer in offers] == [True, True, False, True]
    assert (incumbent.excess, incumbent.cost) == tiny.best(instance) == (0, 18)
    assert run.solutions == [[0, 0], [1, 0], [1, 1]]
