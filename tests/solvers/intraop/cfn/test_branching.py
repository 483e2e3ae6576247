"""Branch and bound on memory, against brute force: nothing is below the optimum, and something below any more."""

from __future__ import annotations

import time

import numpy as np
import pytest

from solvers.intraop.cfn import branching
from solvers.intraop.cfn.branching import nothing_below
from solvers.intraop.network.memory import Timeline
from solvers.intraop.network.reduced_problem import Problem

IMPOSSIBLE = 10**18


def problems(tiny, count):
    """Problems of several variables that have a solution, beside its cost."""
    found, seed = [], 0
    while len(found) < count:
        instance = tiny.draw(np.random.default_rng(seed), nodes=7, arity=2)
        excess, cost = tiny.fast_best(instance)
        seed += 1
        problem = None if excess or not 0 < cost < IMPOSSIBLE else Problem.of(instance, Timeline.of(instance))
        if problem is not None and problem.model.variables > 1:
            found.append((problem, cost))
    return found


@pytest.mark.gate
@pytest.mark.parametrize("left_open", [0.0, branching.LEFT_OPEN])
def test_nothing_is_below_the_optimum_and_something_below_the_next_cost(tiny, monkeypatch, left_open):
    """With 0 left open every part is split until its own bound closes it, or one assignment is left."""
    monkeypatch.setattr(branching, "LEFT_OPEN", left_open)
    proved = 0
    for problem, best in problems(tiny, 4):
        until = time.monotonic() + 60
        proved += nothing_below(best, problem, {}, until, seed=0)
        assert not nothing_below(best + 1, problem, {}, until, seed=0)
    assert proved >= 2


def test_nothing_is_claimed_without_time(tiny):
    ((problem, best),) = problems(tiny, 1)
    assert not nothing_below(best, problem, {}, time.monotonic(), seed=0)
