"""Blocks keep memory and gains as their definitions have them, whatever the model is like."""

from __future__ import annotations

import numpy as np
import pytest
from effort import some_of
from hypothesis import given, settings
from hypothesis import strategies as st

from shardmark.solvers.intraop._kernels import BlockLimits
from shardmark.solvers.intraop.cfn.neighbourhoods import LargeNeighbourhood
from shardmark.solvers.intraop.network.memory import Timeline
from shardmark.solvers.intraop.network.reduced_problem import Problem
from shardmark.solvers.intraop.network.reduction import prepare

EFFORT = BlockLimits(50, 1e4, 1e5)
seeds = st.integers(0, 2**32 - 1).map(np.random.default_rng)
many = settings(max_examples=some_of(40))


def problem_of(instance):
    """The problem before dominance, so that more is left of it."""
    timeline = Timeline.of(instance)
    return Problem(instance, timeline, prepare(instance, timeline, tolerant=True))


def least_cost(problem, price):
    """The least cost and price of all assignments."""
    model = problem.model
    assignments = (np.array(value, dtype=np.int64) for value in np.ndindex(*model.sizes))
    return min(model.cost(value) + price[model.start[:-1] + value].sum() for value in assignments)


def span_of_steps(blocks):
    """Number of the span of every step."""
    problem = blocks.problem
    cuts = np.unique(np.concatenate([[0], problem.footprint.begin, problem.footprint.end]))
    return np.searchsorted(cuts, np.arange(problem.timeline.steps), side="right") - 1


@many
@given(rng=seeds)
def test_load_against_room_is_the_profile_against_the_limit_at_its_tightest_step(tiny, rng):
    problem = problem_of(tiny.draw(rng, nodes=7))
    blocks, value = LargeNeighbourhood(problem), rng.integers(problem.model.sizes)
    overload, span = problem.overload(value), span_of_steps(blocks)
    above = blocks.load(value) - blocks.room
    assert above.tolist() == [overload[span == number].max() for number in range(len(blocks.room))]


def test_a_span_has_the_room_of_its_tightest_step(tiny):
    fixed = [(0, 2, [0], [1]), (2, 4, [0], [5]), (4, 6, [0], [2])]
    blocks = LargeNeighbourhood(problem_of(tiny.make([(0, 6, [0, 1], [3, 2]), *fixed], limit=20)))
    assert blocks.room.tolist() == [15]


@many
@given(rng=seeds)
def test_the_price_of_a_value_is_that_of_its_memory_in_every_step(tiny, rng):
    problem = problem_of(tiny.draw(rng, nodes=7))
    blocks = LargeNeighbourhood(problem)
    steps = rng.integers(0, problem.timeline.steps, 4) if problem.timeline.steps else []
    multipliers = {int(step): float(rng.integers(1, 9)) for step in steps}
    of_row = blocks.price(blocks.span_prices(multipliers))
    expected = sum((times * problem.memory(step) for step, times in multipliers.items()), np.zeros(len(of_row)))
    assert of_row.tolist() == expected.tolist()


@many
@given(rng=seeds)
def test_blocks_of_everything_find_the_optimum_where_memory_only_has_a_price(tiny, rng):
    problem = problem_of(tiny.draw(rng, nodes=6, impossible=0.0))
    blocks, value = LargeNeighbourhood(problem), rng.integers(problem.model.sizes)
    price = blocks.price(rng.integers(0, 3, len(blocks.room)).astype(np.float64))
    before = value.copy()
    after, load, gain = blocks.improve(value, price, EFFORT, 1e5, rng, fits=False)
    first = problem.model.start[:-1]
    total = problem.model.cost(after) + price[first + after].sum()
    assert total == least_cost(problem, price)
    assert gain == problem.model.cost(before) + price[first + before].sum() - total
    assert (load == blocks.load(after)).all()
    assert (value == before).all()


@many
@given(rng=seeds)
def test_what_fits_still_fits_and_what_does_not_becomes_no_worse(tiny, rng):
    problem = problem_of(tiny.larger(rng))
    blocks, value = LargeNeighbourhood(problem), rng.integers(problem.model.sizes)
    price = blocks.price(rng.random(len(blocks.room)))
    before = problem.overload(value)
    after, load, gain = blocks.improve(value, price, EFFORT, 1e4, rng, fits=True)
    assert ((problem.overload(after) <= 0) | (problem.overload(after) <= before)).all()
    assert (load == blocks.load(after)).all()
    assert gain >= 0


def test_wide_tables_count(tiny):
    table = [9] * 27
    table[2 * 9 + 1 * 3 + 2] = 0  # strategies 1, 2 and 2 of nodes 1, 0 and 2
    instance = tiny.make([(0, 1, [0, 0, 0], [k, 1, 0]) for k in range(3)], [((0, 1, 2), table)])
    problem = problem_of(instance)
    assert len(problem.model.wide) == 1
    start, price, random = np.zeros(3, dtype=np.int64), np.zeros(9), np.random.default_rng(0)
    value, _, gain = LargeNeighbourhood(problem).improve(start, price, EFFORT, 1e4, random, fits=True)
    assert (value.tolist(), gain) == ([2, 1, 2], 9.0)


def test_only_what_has_to_fit_is_held_to_the_limit(tiny):
    problem = problem_of(tiny.make([(0, 1, [5, 0], [0, 9])] * 3, limit=10))
    value, price = np.zeros(3, dtype=np.int64), np.zeros(6)
    for fits, expected in ((True, 5.0), (False, 15.0)):
        gain = LargeNeighbourhood(problem).improve(value, price, EFFORT, 1e4, np.random.default_rng(0), fits=fits)[2]
        assert gain == expected


@pytest.mark.parametrize(
    ("nodes", "edges"),
    [
        ([], []),  # neither variables nor steps
        ([(0, 2, [3], [5])], []),  # a variable without a choice
        ([(1, 1, [3, 2], [5, 4])], []),  # no steps
        ([(0, 2, [3, 2], [5, 5])], []),  # steps, but no node whose memory varies
        ([(0, 2, [3, 2], [5, 4])], []),  # no tables
        ([(1, 1, [3, 2], [5, 4])] * 2, [((0, 1), [0, 1, 2, 0])]),
        ([(0, 2, [3], [5]), (1, 3, [1, 0], [2, 9])], [((0, 1), [4, 1])]),
    ],
)
def test_whatever_there_is_none_of(tiny, nodes, edges):
    problem = problem_of(tiny.make(nodes, edges))
    blocks = LargeNeighbourhood(problem)
    price = blocks.price(blocks.span_prices({}))
    value = np.zeros(problem.model.variables, dtype=np.int64)
    for fits in (True, False):
        after, load, _ = blocks.improve(value, price, EFFORT, 1e4, np.random.default_rng(0), fits=fits)
        assert problem.model.cost(after) == least_cost(problem, price)
        assert (load == blocks.load(after)).all()
