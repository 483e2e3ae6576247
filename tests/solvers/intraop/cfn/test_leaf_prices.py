"""Prices of leaves and splits by memory use: bounds hold at any prices, and every assignment that fits stays."""

from __future__ import annotations

import itertools
import math
import time
from dataclasses import replace

import numpy as np
import pytest

from shardmark.solvers.intraop._kernels import FORBIDDEN, Trws
from shardmark.solvers.intraop.cfn import leaf_prices
from shardmark.solvers.intraop.cfn.lagrangian import FINE, Dual
from shardmark.solvers.intraop.cfn.leaf_prices import State, forbid_unfitting, memory_splits, polyak, repriced
from shardmark.solvers.intraop.cfn.multipliers import StepMultiplier
from shardmark.solvers.intraop.cfn.tree import Tree
from shardmark.solvers.intraop.network.memory import Timeline
from shardmark.solvers.intraop.network.reduced_problem import Problem
from shardmark.solvers.intraop.network.reduction import prepare

#: Seeds of problems on which memory keeps a price. They are rare: these are all of the first 803.
SEEDS = (124, 203, 232, 357, 398, 492, 550, 595, 623, 634, 683, 709, 715, 794, 802)


def priced_state(tiny, seed):
    """A problem with a state after a sweep at some prices, and the least cost of an assignment that fits; or None."""
    rng = np.random.default_rng(seed)
    drawn = tiny.draw(rng, arity=2)
    instance = replace(drawn, table=np.minimum(drawn.table, 99))
    if instance.usage_limit is None:
        return None
    model = prepare(instance, Timeline.of(instance))
    if model is None or model.variables < 2:
        return None
    problem = Problem(instance, Timeline.of(instance), model)
    if not problem.timeline.steps:
        return None
    excess, cost = tiny.fast_best(instance)
    if excess:
        return None
    prices = {int(step): float(rng.uniform(0, 20)) for step in rng.integers(problem.timeline.steps, size=2)}
    dual = Dual(problem, cost + 20, prices)
    dual.climb(math.inf)
    if dual.closed or not dual.priced:
        return None
    return dual, State(*dual.messages.state, tuple(dual.priced)), cost, rng


@pytest.fixture
def states(tiny):
    """Problems with states, which the test may change."""
    found = [priced_state(tiny, seed) for seed in SEEDS]
    assert None not in found
    return found


def fitting(problem):
    """All assignments of a problem that fit, as rows of values."""
    start = problem.model.start[:-1]
    for value in itertools.product(*map(range, problem.model.sizes)):
        if (problem.overload(np.array(value)) <= 0).all():
            yield start + np.array(value)


def test_bounds_hold_at_any_prices(states):
    for dual, state, best, rng in states:
        for factor in (0, 0.5, 2, 1e3, 1e30):
            prices = [int(min(price * factor * rng.random(), 2.0**62)) for _, price in state.priced]
            changed = repriced(state, prices, dual.problem.model.start)
            assert all(price >= 0 for _, price in changed.priced)
            assert (changed.cost[state.cost == FORBIDDEN] == FORBIDDEN).all()
            dual.messages.state = (changed.cost.copy(), changed.sent.copy(), changed.bound)
            dual.messages.sweep(int(rng.integers(4)))
            assert dual.in_costs(dual.messages.bound) <= best


@pytest.mark.parametrize("variables", [100, 127, 300, 400])
def test_prices_whose_sums_pass_64_bits_are_not_taken(variables):
    """Each variable costs 1 of 100,000 of the top or memory, of which one may have some; all were once full price."""
    start, pairs = 2 * np.arange(variables + 1), variables - 1
    off, usage = FINE // 100_000, 2**20
    tail, nothing = np.arange(pairs), np.zeros(4 * pairs, dtype=np.int64)
    messages = Trws(start, tail, tail + 1, nothing, np.tile([off, 0], variables), FINE)
    row = StepMultiplier(0, np.arange(2 * variables), np.tile([0, usage], variables), usage)
    price = FINE // 2 // usage
    messages.reparametrise(messages.cost + price * row.usage, -price * usage, nothing)
    messages.sweep(3)
    state = State(*messages.state, ((row, price),))
    for _ in range(3):
        state = repriced(state, [0], start)
        messages.state = (state.cost.copy(), state.sent.copy(), state.bound)
        messages.sweep(1)
        assert -FINE <= messages.bound <= (variables - 1) * off
        state = State(*messages.state, state.priced)


def test_the_way_back_is_exact(states):
    for dual, state, _, _ in states[:5]:
        start = dual.problem.model.start
        prices = [price for _, price in state.priced]
        there = repriced(state, [price + 5 for price in prices], start)
        back = repriced(there, prices, start)
        assert back.bound == state.bound
        assert (back.cost == state.cost).all()


def test_what_fits_is_not_forbidden(states):
    fewer = 0
    for dual, state, _, rng in states:
        model, top = dual.problem.model, dual.messages.top
        cost = np.where(rng.random(len(state.cost)) < 0.3, FORBIDDEN, 0)
        left = forbid_unfitting(state._replace(cost=cost.copy()), dual.problem.variable, top)
        kept = [rows for rows in fitting(dual.problem) if (cost[rows] < FORBIDDEN).all()]
        fewer += (left.cost != cost).any() or left.bound == top
        assert left.bound < top or not kept
        assert all((left.cost[rows] < FORBIDDEN).all() for rows in kept)
        assert len(cost) == model.start[-1]
    assert fewer > 3


@pytest.mark.parametrize("levels", [2, 8])
def test_splits_by_memory_use_are_partitions_in_order(states, monkeypatch, levels):
    monkeypatch.setattr(leaf_prices, "LEVELS", levels)
    monkeypatch.setattr(leaf_prices, "DIFFERENCE", 0.0)
    seen = 0
    for dual, state, _, _ in states:
        start = dual.problem.model.start
        for split in memory_splits(state, start, dual.messages.top, 3):
            seen += 1
            rows = np.arange(start[split.variable], start[split.variable + 1])
            usable = rows[state.cost[rows] < FORBIDDEN]
            row = next(row for row, price in state.priced if price and np.isin(usable, row.at).all())
            assert 2 <= len(split.groups) <= levels
            assert sorted(np.concatenate(split.groups)) == usable.tolist()
            assert len(row.at)
    assert seen > 5


def test_a_step_raises_prices_of_steps_that_are_too_full(states):
    for dual, state, _, _ in states[:10]:
        dual.messages.state = (state.cost.copy(), state.sent.copy(), state.bound)
        taken = dual.problem.model.start[:-1] + dual.messages.round()
        excess = leaf_prices.excesses(state, taken)
        for miss, (_, before), after in zip(excess, state.priced, polyak(state, taken, 1e6), strict=True):
            assert after >= 0
            assert after >= before if miss >= 0 else after <= before


def test_the_tree_closes_the_duality_gap_of_memory(states):
    """At its end the bound is the optimum, with a memory limit, too."""
    for dual, _, best, _ in states:
        tree = Tree(Dual(dual.problem, best + 20, dual.multipliers))
        tree.grow(time.monotonic() + 60, lambda best=best: best, lambda: False)
        assert tree.bound == best
