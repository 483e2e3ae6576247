"""Branch and bound on memory, against brute force: sound at any time and under any prices, exact at its end."""

from __future__ import annotations

import time

import numpy as np
import pytest

from shardmark.solvers.intraop.cfn import branching
from shardmark.solvers.intraop.cfn.branching import lower_bound
from shardmark.solvers.intraop.cfn.lagrangian import Dual
from shardmark.solvers.intraop.network.memory import Timeline
from shardmark.solvers.intraop.network.reduced_problem import Problem

IMPOSSIBLE = 10**18


@pytest.fixture(scope="module")
def problems(tiny):
    """Problems of several variables that have a solution, with its cost: six narrow ones, or wide ones."""
    return {wide: drawn(tiny, 6, wide) for wide in (False, True)}


def drawn(tiny, count, wide):
    found, seed = [], 0
    while len(found) < count:
        instance = tiny.draw(np.random.default_rng(seed), nodes=7, arity=3 if wide else 2)
        excess, cost = tiny.fast_best(instance)
        seed += 1
        problem = None if excess or not 0 < cost < IMPOSSIBLE else Problem.of(instance, Timeline.of(instance))
        if problem is not None and problem.model.variables > 1 and bool(problem.model.wide) == wide:
            found.append((problem, cost))
    return found


def bounded(problem, top, multipliers=None, seconds=60.0, *, lowers=True):
    """The bound, and the least cost of an assignment that was found and fits; the top falls to it if it ``lowers``."""
    least = [IMPOSSIBLE]

    def found(part, value):
        if (part.overload(value) <= 0).all():
            least[0] = min(least[0], part.model.cost(value))

    def present():
        return min(top, least[0]) if lowers else top

    until = time.monotonic() + seconds
    return lower_bound(problem, multipliers or {}, until, seed=0, top=present, found=found), least[0]


@pytest.fixture(params=[0, 9, branching.LARGEST])
def largest(request, monkeypatch):
    """Parts that CP-SAT solves: with 0, all are split until their bounds close them or one assignment is left."""
    monkeypatch.setattr(branching, "LARGEST", request.param)


@pytest.mark.gate
@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.thorough(cases=4)
@pytest.mark.parametrize("lowers", [True, False])
def test_the_best_below_the_top_is_found_and_proved(problems, largest, wide, lowers):
    for problem, best in problems[wide]:
        assert bounded(problem, best + 7, lowers=lowers) == (best, best)
        assert bounded(problem, problem.model.forbidden, lowers=lowers) == (best, best)


def knapsack(tiny, seed):
    """Fourteen nodes in one time step, whose memory costs nearly the same everywhere; its best cost."""
    rng = np.random.default_rng(seed)
    usage = rng.integers(0, 50, (14, 2))
    costs = 10 * (usage.max(axis=1, keepdims=True) - usage) + rng.integers(0, 9, usage.shape)
    nodes = [(0, 1, cost.tolist(), use.tolist()) for cost, use in zip(costs, usage, strict=True)]
    edges = [((k, k + 1), rng.integers(0, 6, 4).tolist()) for k in range(13)]
    instance = tiny.make(nodes, edges, limit=int(usage.mean(axis=1).sum()))
    return Problem.of(instance, Timeline.of(instance)), tiny.fast_best(instance)[1]


@pytest.mark.thorough(cases=5)
@pytest.mark.parametrize("seed", [2, 3, 4])
def test_a_knapsack_is_split_until_its_optimum_is_proved(tiny, largest, monkeypatch, seed):
    problem, best = knapsack(tiny, seed)
    halves, splits = Dual.halves, []
    monkeypatch.setattr(Dual, "halves", lambda *given: splits.append(given) or halves(*given))
    assert bounded(problem, best + 40) == (best, best)
    assert splits or branching.LARGEST


@pytest.mark.gate
@pytest.mark.parametrize("below", [0, 1, 3])
def test_that_nothing_is_below_the_top_is_all_that_is_proved(problems, largest, below):
    for problem, best in problems[False]:
        if (top := best - below) > 0:
            assert bounded(problem, top)[0] == top


@pytest.mark.gate
def test_bounds_hold_under_any_multipliers(problems, largest):
    rng = np.random.default_rng(0)
    for problem, best in problems[False]:
        steps = rng.integers(0, problem.timeline.steps, 3) if problem.timeline.steps else []
        given = {int(step): float(rng.choice([0.5, 7.0, 1e30])) for step in steps}
        assert bounded(problem, best + 20, given) == (best, best)


def test_memory_of_steps_without_a_price_counts(tiny, largest):
    nodes = [(t, t + 1, [0, 9 + t], [5, 1]) for t in range(4)] + [(0, 4, [0, 30], [3, 2])]
    instance = tiny.make(nodes, [((k, k + 1), [0, 2, 2, 0]) for k in range(4)], limit=7)
    problem = Problem.of(instance, Timeline.of(instance))
    best = tiny.best(instance)[1]
    assert bounded(problem, problem.model.forbidden) == (best, best)


@pytest.mark.parametrize("seconds", [0.0, 0.001, 0.01])
def test_the_bound_holds_whenever_time_is_up(problems, largest, seconds):
    for problem, best in problems[False]:
        assert 0 <= bounded(problem, best + 7, seconds=seconds)[0] <= best


def test_a_program_that_runs_out_of_time_is_split(problems, monkeypatch):
    monkeypatch.setattr(branching, "SECONDS", 0.0)
    for problem, best in problems[False][:4]:
        assert bounded(problem, best + 7) == (best, best)
