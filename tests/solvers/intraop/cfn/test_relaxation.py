"""The integer program over what a bound leaves of costs, against brute force: sound, and exact where it ends."""

from __future__ import annotations

import time

import numpy as np
import pytest

from solvers.intraop.cfn.relaxation import solve
from solvers.intraop.network.memory import Timeline
from solvers.intraop.network.reduced_problem import Problem

IMPOSSIBLE = 10**18


def problems(tiny, count, *, wide):
    """Problems of several variables that have a solution, beside what it costs."""
    found, seed = [], 0
    while len(found) < count:
        instance = tiny.draw(np.random.default_rng(seed), nodes=7, arity=3 if wide else 2)
        excess, cost = tiny.fast_best(instance)
        seed += 1
        problem = None if excess or cost >= IMPOSSIBLE else Problem.of(instance, Timeline.of(instance))
        if problem is not None and problem.model.variables > 1 and bool(problem.model.wide) == wide:
            found.append((problem, cost))
    return found


def answer(problem, top, multipliers=None):
    """The answer, and what assignments it was found on the way to cost."""
    seen = []
    result = solve(problem, top, multipliers or {}, time.monotonic() + 60, seed=0, found=seen.append)
    return result, [problem.model.cost(value) for value in seen]


@pytest.mark.gate
@pytest.mark.parametrize("wide", [False, True])
def test_the_best_below_the_top_is_found_and_proved(tiny, wide):
    for problem, best in problems(tiny, 6, wide=wide):
        result, seen = answer(problem, best + 7)
        assert result.done
        assert result.bound == best
        assert problem.model.cost(result.value) == best
        assert (problem.overload(result.value) <= 0).all()
        assert best in seen


@pytest.mark.gate
@pytest.mark.parametrize("below", [0, 3])
def test_that_nothing_is_below_the_top_is_all_that_is_proved(tiny, below):
    for problem, best in problems(tiny, 6, wide=False):
        if (top := best - below) > 0:
            result, _ = answer(problem, top)
            assert result.bound is None or result.bound <= top
            assert result.value is None or problem.model.cost(result.value) >= top


@pytest.mark.gate
def test_bounds_hold_under_any_multipliers(tiny):
    rng = np.random.default_rng(0)
    for problem, best in problems(tiny, 6, wide=False):
        steps = rng.integers(0, problem.timeline.steps, 3) if problem.timeline.steps else []
        given = {int(step): float(rng.choice([0.5, 7.0, 1e30])) for step in steps}
        result, _ = answer(problem, best + 20, given)
        assert result.bound is not None
        assert result.bound <= best
        assert problem.model.cost(result.value) == best


def test_memory_of_steps_without_a_price_counts(tiny):
    nodes = [(t, t + 1, [0, 9 + t], [5, 1]) for t in range(4)] + [(0, 4, [0, 30], [3, 2])]
    instance = tiny.make(nodes, [((k, k + 1), [0, 2, 2, 0]) for k in range(4)], limit=7)
    problem = Problem.of(instance, Timeline.of(instance))
    result, _ = answer(problem, problem.model.forbidden)
    best = tiny.best(instance)[1]
    assert result.bound <= best
    assert result.value is None or problem.model.cost(result.value) == best


def test_without_time_nothing_wrong_is_proved(tiny):
    for problem, best in problems(tiny, 3, wide=False):
        result = solve(problem, best + 7, {}, time.monotonic(), seed=0, found=lambda _: None)
        assert result.bound <= best
