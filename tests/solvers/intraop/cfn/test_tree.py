"""Branch and bound on values against brute force: sound at any time, and exact at the end without a memory limit."""

from __future__ import annotations

import math
import time
from dataclasses import replace

import numpy as np
import pytest

from solvers.intraop.cfn import tree as tree_module
from solvers.intraop.cfn.lagrangian import Dual
from solvers.intraop.cfn.tree import Tree
from solvers.intraop.network.memory import Timeline
from solvers.intraop.network.reduced_problem import Problem
from solvers.intraop.network.reduction import prepare

IMPOSSIBLE = 10**18


def problems(tiny, count, *, limit=True, scale=1):
    """Problems, before dominance leaves little of them, that have a solution; costs times ``scale``; and its cost."""
    found, seed = [], 0
    while len(found) < count:
        drawn, seed = tiny.draw(np.random.default_rng(seed), arity=2), seed + 1
        table = np.where(drawn.table == IMPOSSIBLE, IMPOSSIBLE, scale * np.minimum(drawn.table, 99))
        costs = {"node_cost": scale * drawn.node_cost, "table": table}
        instance = replace(drawn, **costs, usage_limit=drawn.usage_limit if limit else None)
        excess, cost = tiny.fast_best(instance)
        model = prepare(instance, Timeline.of(instance))
        if not excess and 0 < cost < IMPOSSIBLE and model is not None and model.variables > 1:
            found.append((Problem(instance, Timeline.of(instance), model), cost))
    return found


def grown(problem, top, seconds=60.0):
    """The tree on messages that had no time to settle, grown to its end."""
    dual = Dual(problem, top)
    tree = Tree(dual)
    tree.grow(time.monotonic() + seconds, lambda: top, lambda: False)
    return dual, tree


@pytest.mark.parametrize("scale", [1, 10**14 + 7])
def test_the_bound_is_the_optimum_without_a_limit(tiny, scale):
    for problem, best in problems(tiny, 12, limit=False, scale=scale):
        _, tree = grown(problem, best + 10 * scale)
        assert not tree.open
        assert tree.bound == best
        assert grown(problem, best)[1].bound == best


def test_the_bound_holds_while_it_grows(tiny):
    rose = 0
    for problem, best in problems(tiny, 20):
        dual = Dual(problem, best + 50)
        tree, seen = Tree(dual), [dual.bound]
        tree.grow(math.inf, lambda top=dual.top: top, lambda tree=tree, seen=seen: seen.append(tree.bound) or False)
        assert seen == sorted(seen)
        assert tree.bound <= best
        rose += tree.bound > dual.bound
    assert rose > 5


def test_leaves_stay_within_memory(tiny, monkeypatch):
    most = []
    for problem, best in problems(tiny, 12):
        monkeypatch.setattr(tree_module, "MEMORY", 1)
        dual, tree = grown(problem, best + 50)
        assert not tree.open
        assert tree.bound == dual.bound
        leaf = sum(part.nbytes for part in dual.messages.state[:2])
        monkeypatch.setattr(tree_module, "MEMORY", (4 + tree_module.TRIED) * leaf)
        most.append(len(grown(problem, best + 50)[1]._leaves))
    assert max(most) == 4


def test_a_leaf_without_memory_ends_the_tree_with_its_bound(tiny, monkeypatch):
    ((problem, best),) = problems(tiny, 1, limit=False)
    dual, tree = grown(problem, best + 50, seconds=0.0)
    tree.grow(time.monotonic() + 60, lambda: best + 50, iter([False] * 40 + [True] * 99).__next__)
    before = tree.bound

    def none_left(*_):
        raise MemoryError

    monkeypatch.setattr(tree, "_swept", none_left)
    monkeypatch.setattr(tree, "_repriced", none_left)
    tree.grow(time.monotonic() + 60, lambda: best + 50, lambda: False)
    assert not tree.open
    assert dual.bound <= tree.bound == before


def test_without_time_nothing_changes(tiny):
    ((problem, best),) = problems(tiny, 1, limit=False)
    dual, tree = grown(problem, best + 1, seconds=0.0)
    assert tree.bound == dual.bound
    tree.grow(time.monotonic() + 60, lambda: best + 1, lambda: False)
    assert tree.bound == best


def test_a_better_solution_lowers_the_top(tiny):
    """All leaves end at the optimum, none proves more than the last top."""
    for problem, best in problems(tiny, 12, limit=False):
        tree, tops = Tree(Dual(problem, problem.model.forbidden)), iter([best + 5, best + 1])
        tree.grow(time.monotonic() + 60, lambda tops=tops, best=best: next(tops, best), lambda: False)
        assert tree.bound == best


def test_prices_of_memory_follow_the_leaves(tiny, monkeypatch):
    instance = tiny.layered(20)
    problem = Problem.of(instance, Timeline.of(instance))
    dual = Dual(problem, problem.model.forbidden)
    dual.climb(time.monotonic() + 60)
    proved = []
    for least_step in (tree_module.LEAST_STEP, np.inf):
        monkeypatch.setattr(tree_module, "LEAST_STEP", least_step)
        tree, left = Tree(dual), iter(range(5000))
        tree.grow(time.monotonic() + 60, lambda: 2 * dual.bound, lambda left=left: next(left, None) is None)
        proved.append(tree.bound)
    assert proved[0] > proved[1] >= dual.bound
