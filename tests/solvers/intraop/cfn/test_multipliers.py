"""Messages move costs and never change what an assignment costs; pruning loses nothing of interest."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from effort import some_of
from hypothesis import given, settings
from hypothesis import strategies as st

from shardmark.solvers.intraop._kernels import FORBIDDEN, Trws

seeds = st.integers(0, 2**32 - 1).map(np.random.default_rng)
many = settings(max_examples=some_of(150))


def draw(rng, largest=100, never=0.2):
    """Columns of a network of up to six variables, and the costs of all its assignments."""
    sizes = rng.integers(1, 4, int(rng.integers(1, 7)))
    start = np.concatenate([[0], np.cumsum(sizes)])
    joined = [(i, j) for j in range(len(sizes)) for i in range(j) if rng.random() < 0.6]
    tables = [rng.integers(0, largest, (sizes[i], sizes[j])) for i, j in joined]
    for table in tables:
        table[rng.random(table.shape) < never] = 2**56
    cost = rng.integers(0, largest, int(start[-1]))
    tail, head = np.array(joined, dtype=np.int64).reshape(-1, 2).T
    cell = np.concatenate([np.zeros(0, dtype=np.int64), *(table.ravel() for table in tables)])

    def cost_of(value):
        total = sum(int(cost[start[v] + k]) for v, k in enumerate(value))
        return total + sum(int(t[value[i], value[j]]) for (i, j), t in zip(joined, tables, strict=True))

    return (start, tail, head, cell, cost), joined, {value: cost_of(value) for value in np.ndindex(*sizes)}


@many
@given(rng=seeds)
def test_the_bound_rises_and_holds(rng):
    columns, _, costs = draw(rng)
    messages = Trws(*columns, top=2**20)
    bounds = [0]
    for _ in range(10):
        messages.sweep(1)
        bounds.append(messages.bound)
    assert all(earlier <= later for earlier, later in pairwise(bounds))
    assert bounds[-1] <= min(2**20, *costs.values())


@many
@given(rng=seeds)
def test_trees_are_solved(rng):
    columns, joined, costs = draw(rng, never=0.3)
    parent = list(range(len(columns[0])))
    for i, j in joined:
        while parent[i] != i:
            i = parent[i]
        while parent[j] != j:
            j = parent[j]
        if i == j:
            return
        parent[i] = j
    messages = Trws(*columns, top=2**40)
    messages.sweep(40)
    best = min(costs.values())
    assert messages.bound == (best if best < 2**40 else 2**40)


@many
@given(rng=seeds, above=st.integers(0, 30))
def test_what_costs_less_than_the_top_stays(rng, above):
    columns, joined, costs = draw(rng)
    top = min(2**30, min(costs.values()) + above)
    messages = Trws(*columns, top=top)
    messages.sweep(3)
    of_interest = [value for value, cost in costs.items() if cost < top]
    if messages.bound == top:
        assert not of_interest
        return
    values, cells = messages.prune()
    start = columns[0]
    sizes = np.diff(start)
    first = np.concatenate([[0], np.cumsum([sizes[i] * sizes[j] for i, j in joined])])
    for value in of_interest:
        assert messages.bound <= costs[value]
        assert values[start[:-1] + value].all()
        assert (messages.cost[start[:-1] + value] < FORBIDDEN).all()
        for e, (i, j) in enumerate(joined):
            assert cells[first[e] + value[i] * sizes[j] + value[j]]


def test_pruning_rules_out_most():
    kept = []
    for seed in range(30):
        columns, _, costs = draw(np.random.default_rng(seed), never=0.0)
        messages = Trws(*columns, top=min(costs.values()) + 1)
        messages.sweep(20)
        kept.append([mask.mean() if len(mask) else 0.0 for mask in messages.prune()])
    values, cells = np.mean(kept, axis=0)
    assert values < 0.7
    assert cells < 0.4


def test_numbers_as_large_as_they_may_be():
    half = 2**55
    start, tail, head = np.array([0, 2, 4]), np.array([0]), np.array([1])
    cell = np.array([half, half, half, half - 1])
    messages = Trws(start, tail, head, cell, np.array([half - 1, 5, half - 1, 7]), 2**56)
    messages.sweep(50)
    assert messages.bound == half - 1 + 12


@pytest.mark.parametrize("top", [-1, 2**56 + 1])
def test_a_top_out_of_range(top):
    nothing = np.zeros(0, dtype=np.int64)
    with pytest.raises(ValueError, match="top: expected 0 to 2"):
        Trws(np.zeros(1, dtype=np.int64), nothing, nothing, nothing, nothing, top)


def test_a_network_of_nothing():
    nothing = np.zeros(0, dtype=np.int64)
    messages = Trws(np.zeros(1, dtype=np.int64), nothing, nothing, nothing, nothing, 10)
    messages.sweep(2)
    assert messages.bound == 0
    assert [len(mask) for mask in messages.prune()] == [0, 0]


def test_a_bound_far_below_zero_rules_nothing_out():
    nothing = np.zeros(0, dtype=np.int64)
    messages = Trws(np.array([0, 2]), nothing, nothing, nothing, np.array([0, 5]), 100)
    messages.cost += np.array([0, 2**57])
    messages.bound = -(2**58)
    messages.sweep(3)
    assert messages.bound == -(2**58)
    assert messages.cost.tolist() == [0, 2**57 + 5]
