"""Dominance keeps an optimum, at its cost; trees and domains shrink to the values that matter."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from effort import some_of
from hypothesis import given, settings
from hypothesis import strategies as st

from shardmark.solvers.intraop.network.dominance import may_bind, memory_by_span, simplify
from shardmark.solvers.intraop.network.memory import Footprint, Timeline
from shardmark.solvers.intraop.network.reduction import prepare

seeds = st.integers(0, 2**32 - 1).map(np.random.default_rng)
many = settings(max_examples=some_of(150))
IMPOSSIBLE = 10**18


def simplified(instance):
    timeline = Timeline.of(instance)
    return simplify(instance, timeline, prepare(instance, timeline))


def best(tiny, instance, model):
    """``(excess, cost)`` of the best assignment of a model, in the instance."""
    lifted = (model.lift(instance, np.array(value, dtype=np.int64)) for value in np.ndindex(*model.sizes))
    return min(tiny.value(instance, strategy.tolist()) for strategy in lifted)


@many
@given(rng=seeds)
def test_an_optimum_is_left(tiny, rng):
    instance = tiny.draw(rng, nodes=5)
    timeline = Timeline.of(instance)
    model = prepare(instance, timeline)
    if model is None:
        return
    before, simple = best(tiny, instance, model), simplify(instance, timeline, model)
    if not before[0] and before[1] < IMPOSSIBLE:
        assert best(tiny, instance, simple) == before


def tree(tiny, rng, usage):
    """A random tree of 30 nodes, all live at once, in which only the first two nodes' memory varies."""
    nodes = [(0, 9, rng.integers(0, 99, 4).tolist(), usage if v < 2 else [1] * 4) for v in range(30)]
    pairs = [((v, int(rng.integers(0, v))), rng.integers(0, 99, 16).tolist()) for v in range(1, 30)]
    return tiny.make(nodes, pairs, limit=40)


def test_a_tree_without_choice_of_memory_becomes_one_value(tiny):
    assert len(simplified(tree(tiny, np.random.default_rng(0), [1] * 4)).unary) == 1


def test_branches_merge_into_what_uses_memory(tiny):
    instance = tree(tiny, np.random.default_rng(0), [9, 7, 5, 3])
    model = simplified(instance)
    assert (model.sizes > 1).sum() == 2
    assert len(model.tail) == 1
    for value in np.array(list(np.ndindex(*model.sizes)), dtype=np.int64):
        assert model.cost(value) == tiny.value(instance, model.lift(instance, value).tolist())[1]


def test_a_menu_shrinks_to_its_front(tiny):
    menu = ([7, 3, 5, 9, 3, 8], [1, 5, 4, 1, 6, 1])  # 9 and 8 cost more than 7, the second 3 uses more than the first
    model = simplified(tiny.make([(0, 2, *menu), (1, 3, *menu)], limit=9))
    assert model.sizes.tolist() == [3, 3]
    assert model.unary.tolist() == [7, 3, 5] * 2


def test_memory_that_cannot_bind_is_no_reason_to_keep_a_value(tiny):
    rows = [(0, 2, [1, 2, 3], [5, 4, 3]), (1, 4, [1, 2, 3], [5, 4, 3]), (3, 6, [1, 2, 3], [4, 2, 1])]
    instance = tiny.make(rows, limit=9)
    timeline = Timeline.of(instance)
    model = prepare(instance, timeline)
    footprint = Footprint(instance, timeline, model)
    assert may_bind(footprint).tolist() == [True, False]
    start, usage = memory_by_span(footprint, may_bind(footprint))
    assert [usage[a:b].max(initial=0) for a, b in pairwise(start.tolist())] == [5, 5, 0]
    assert simplify(instance, timeline, model).sizes.tolist() == [3, 3, 1]


@pytest.mark.parametrize(("spans_of_two", "others", "left"), [(((0, 4), (2, 6)), 5, 2), (((0, 4), (0, 4)), 2, 1)])
def test_nodes_of_one_variable_count_together_while_both_are_live(tiny, spans_of_two, others, left):
    first, second = spans_of_two
    nodes = [(*first, [5, 0], [3, 5]), (*second, [0, 0], [5, 3]), (0, 6, [0, 4], [3, 2])]
    nodes += [(0, 2, [0], [others]), (4, 6, [0], [others])]
    instance = tiny.make(nodes, [((0, 1), [0, IMPOSSIBLE, IMPOSSIBLE, 0])], limit=12)
    assert (simplified(instance).sizes > 1).sum() == left


@pytest.mark.parametrize("seed", [1464, 2655, 9813])
def test_that_nothing_is_left_may_show_late(tiny, seed):
    rng, pairs = np.random.default_rng(seed), []
    for i in range(4):
        for j in range(i):
            table = rng.integers(0, 9, 9)
            table[rng.random(9) < 0.45] = IMPOSSIBLE
            pairs.append(((j, i), table.tolist()))
    instance = tiny.make([(0, 1, [0, 0, 0], [0, 0, 0])] * 4, pairs)
    timeline = Timeline.of(instance)
    model = prepare(instance, timeline)
    assert model is not None  # every pair by itself leaves something
    assert simplify(instance, timeline, model) is None
    assert tiny.best(instance)[1] >= IMPOSSIBLE


def test_tables_of_three_keep_their_values(tiny):
    instance = tiny.make([(0, 1, [0, 9], [0, 0])] * 3, [((0, 1, 2), [99, 0, 0, 0, 0, 0, 0, 0])])
    assert simplified(instance).sizes.tolist() == [2, 2, 2]
