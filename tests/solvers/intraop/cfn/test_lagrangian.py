"""The Lagrangian bound of small problems against brute force: sound, repeatable, and pruning keeps what matters."""

from __future__ import annotations

import time

import numpy as np
import pytest

from shardmark.instances.intraop import parse
from shardmark.solvers.intraop.cfn.lagrangian import Dual
from shardmark.solvers.intraop.network.memory import Timeline
from shardmark.solvers.intraop.network.reduced_problem import Problem
from shardmark.solvers.intraop.search.construction import construct

IMPOSSIBLE = 10**18


def problems(tiny, count):
    """Problems of instances that have a solution, with its cost."""
    found, seed = [], 0
    while len(found) < count:
        instance = tiny.draw(np.random.default_rng(seed), nodes=6)
        excess, cost = tiny.best(instance)
        seed += 1
        problem = None if excess or cost >= IMPOSSIBLE else Problem.of(instance, Timeline.of(instance))
        if problem is not None:
            found.append((problem, cost))
    return found


def climbed(problem, top, multipliers=None):
    """The bound as far as it rises."""
    dual = Dual(problem, top, multipliers)
    dual.climb(time.monotonic() + 60)
    return dual


def test_bounds_hold_under_any_multipliers(tiny):
    rng = np.random.default_rng(0)
    for problem, best in problems(tiny, 20):
        steps = rng.integers(0, problem.timeline.steps, 3) if problem.timeline.steps else []
        given = {int(step): float(rng.choice([0.0, 0.5, 7.0, 1e30])) for step in steps}
        dual = Dual(problem, problem.model.forbidden, given)
        assert dual.bound <= best
        dual.climb(time.monotonic() + 60)
        assert dual.bound <= best


@pytest.mark.parametrize("above", [1, 5])
def test_pruning_keeps_an_optimum_below_the_top(tiny, above):
    for problem, best in problems(tiny, 20):
        left = climbed(problem, best + above).prune()
        assert left is not None
        assert climbed(left, best + above).bound <= best


def test_the_same_again(tiny):
    for problem, _ in problems(tiny, 5):
        one, other = (climbed(problem, problem.model.forbidden) for _ in range(2))
        assert (one.bound, one.multipliers) == (other.bound, other.multipliers)
        assert (one.values() == other.values()).all()


def test_each_note_is_no_worse(tiny):
    instance = tiny.make([(0, 5, [0, 100 + v], [10, 0]) for v in range(10)], limit=55)
    problem = Problem.of(instance, Timeline.of(instance))
    dual, seen = Dual(problem, problem.model.forbidden), []
    dual.climb(time.monotonic() + 60, lambda: seen.append(dual.bound))
    assert len(seen) > 3
    assert seen == sorted(seen)
    assert seen[-1] <= tiny.best(instance)[1]


def huge_sums(nodes=500, colours=3):
    """Nodes of one colour each, two of which may have memory; the first three cost much without."""
    rng = np.random.default_rng(4)
    costs = [[200_000 if node < 3 else 1, 0] * colours for node in range(nodes)]
    pairs = sorted({(min(a, b), max(a, b)) for a, b in rng.integers(nodes, size=(3 * nodes, 2)).tolist() if a != b})
    colour = np.arange(2 * colours) // 2
    same = 1000 * (colour[:, None] == colour).ravel()
    tables = [(same + rng.integers(3, size=same.size)).tolist() for _ in pairs]
    columns = {"intervals": [[0, 1]] * nodes, "costs": costs, "usages": [[0, 2**20] * colours] * nodes}
    edges = {"nodes": [list(pair) for pair in pairs], "costs": tables}
    return parse({"problem": {"nodes": columns, "edges": edges, "usage_limit": 2**21 + 1000}}, "test")


def test_bounds_whose_sums_pass_64_bits_are_not_taken():
    instance = huge_sums()
    problem = Problem.of(instance, Timeline.of(instance))
    coloured = construct(problem.footprint, np.zeros(len(problem.variable)), time.monotonic() + 60)
    coloured.repair(time.monotonic() + 60)
    assert (problem.overload(coloured.value) <= 0).all()
    cost = problem.model.cost(coloured.value)
    dual = Dual(problem, cost + 1)
    dual.climb(time.monotonic() + 60)
    assert dual.bound <= cost
