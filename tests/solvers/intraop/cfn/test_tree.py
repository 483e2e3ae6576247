"""Branch and bound on values against brute force: sound at any time, and exact at the end without a memory limit."""

from __future__ import annotations

import math
import time
from dataclasses import replace

import numpy as np
import pytest

from shardmark.solvers.intraop.cfn import tree as tree_module
from shardmark.solvers.intraop.cfn.lagrangian import Dual
from shardmark.solvers.intraop.cfn.tree import Tree
from shardmark.solvers.intraop.network.memory import Timeline
from shardmark.solvers.intraop.network.reduced_problem import Problem
from shardmark.solvers.intraop.network.reduction import prepare

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


@pytest.mark.parametrize("states", [0, 1, 3])
def test_leaves_share_states_when_memory_is_short(tiny, monkeypatch, states):
    """The number of states stays within memory, and the bound still reaches the optimum."""
    counted = []
    for problem, best in problems(tiny, 12, limit=False):
        leaf = sum(part.nbytes for part in Dual(problem, best + 50).messages.state[:2])
        monkeypatch.setattr(tree_module, "MEMORY", states * leaf)
        tree = Tree(Dual(problem, best + 50))

        def count(tree=tree):
            counted.append(len({id(leaf.state) for leaf in tree._leaves}))
            return False

        tree.grow(time.monotonic() + 60, lambda best=best: best + 50, count)
        assert tree.bound == best
    assert max(counted) == max(1, states)


def test_a_leaf_without_memory_ends_the_tree_with_its_bound(tiny, monkeypatch):
    ((problem, best),) = problems(tiny, 1, limit=False)
    dual, tree = grown(problem, best + 50, seconds=0.0)
    tree.grow(time.monotonic() + 60, lambda: best + 50, iter([False] * 40 + [True] * 99).__next__)
    before = tree.bound

    def none_left(*_):
        raise MemoryError

    monkeypatch.setattr(tree, "_sweep", none_left)
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


@pytest.mark.parametrize("parts", [2, 3])
def test_a_last_part_of_many_values(tiny, monkeypatch, parts):
    monkeypatch.setattr(tree_module, "PARTS", parts)
    for problem, best in problems(tiny, 12, limit=False):
        assert grown(problem, best + 9)[1].bound == best


def test_a_climb_in_a_leaf_proves_and_finds(tiny):
    instance = tiny.layered(20)
    problem = Problem.of(instance, Timeline.of(instance))
    tree = Tree(Dual(problem, problem.model.forbidden))
    tree.grow(time.monotonic() + 60, lambda: tree.top, iter([False] * 40 + [True] * 99).__next__)
    tree._until, tree._enough = time.monotonic() + 60, lambda: False
    leaf = tree._leaves[0]
    state = tree._climb(tree._restricted_state(leaf))
    assert state.bound > leaf.bound
    assert any(price for _, price in state.priced)
    value, multipliers = tree.found[-1]
    assert problem.model.cost(value) < problem.model.forbidden
    assert set(multipliers) <= {row.step for row, _ in state.priced}


def test_leaves_climb_if_splits_gain_little(tiny):
    """The bounds of leaves that climbed hold, and so do those of their parts."""
    climbs = 0
    for problem, best in problems(tiny, 40):
        tree = Tree(Dual(problem, best + 50))
        climbed = tree._climb

        def counted(state, climbed=climbed):
            nonlocal climbs
            climbs += 1
            return climbed(state)

        tree._climb = counted
        tree.grow(time.monotonic() + 60, lambda best=best: best + 50, lambda: False)
        assert tree.bound <= best
        assert all(problem.model.cost(value) < best + 50 for value, _ in tree.found)
    assert climbs > 5


def test_the_search_receives_the_latest_assignments_once(tiny):
    for problem, best in problems(tiny, 12, limit=False):
        tree = Tree(Dual(problem, best + 50))
        tree.grow(time.monotonic() + 60, lambda best=best: best + 50, lambda: False)
        costs = [problem.model.cost(value) for value, _ in tree.found]
        assert len(costs) == len(set(costs)) <= tree_module.KEPT
        assert all(best <= cost < best + 50 for cost in costs)
