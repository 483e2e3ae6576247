"""The network of a model has the costs and the memory of the instance, before reduction and after it."""

from __future__ import annotations

import dataclasses
import math
from itertools import product

import numpy as np
import pytest
from effort import some_of
from hypothesis import given, settings
from hypothesis import strategies as st

from shardmark.solvers.intraop.network.memory import Footprint, Timeline
from shardmark.solvers.intraop.network.model import IMPOSSIBLE, build, exact_cost
from shardmark.solvers.intraop.network.ragged import offsets, spread, within
from shardmark.solvers.intraop.network.reduction import MORE_CELLS, prepare, reduce

seeds = st.integers(0, 2**32 - 1).map(np.random.default_rng)
many = settings(max_examples=some_of(150))


def nothing(instance):
    return np.zeros(len(instance.usage), dtype=bool)


def identity(size):
    """Two variables of ``size`` values tied to be equal."""
    return np.where(np.eye(size, dtype=bool), 0, IMPOSSIBLE).ravel().tolist()


def test_rows_of_unequal_length():
    counts = np.array([2, 0, 3])
    assert offsets(counts).tolist() == [0, 2, 2, 5]
    assert within(counts).tolist() == [0, 1, 0, 1, 2]
    assert spread(np.array([7, 1, 4]), counts).tolist() == [7, 8, 4, 5, 6]


@many
@given(rng=seeds)
def test_cost_of_every_assignment_before_reduction(tiny, rng):
    instance = tiny.draw(rng, nodes=4)
    model = build(instance, nothing(instance))
    assert (model.tail < model.head).all()
    for strategy in tiny.assignments(instance):
        cost = tiny.value(instance, strategy)[1]
        chosen = np.array(strategy)
        assert exact_cost(instance, chosen) == cost
        if cost < IMPOSSIBLE:
            assert model.cost(chosen) == cost < model.forbidden
        else:
            assert model.cost(chosen) >= model.forbidden
        assert model.lift(instance, chosen).tolist() == list(strategy)


@many
@given(rng=seeds)
def test_reduction_keeps_exactly_the_possible_assignments(tiny, rng):
    instance = tiny.draw(rng, nodes=4, impossible=0.5)
    timeline = Timeline.of(instance)
    never_fits, first = timeline.never_fits(), instance.strategy_start[:-1]
    possible = {
        strategy: cost
        for strategy in tiny.assignments(instance)
        if (cost := tiny.value(instance, strategy)[1]) < IMPOSSIBLE and not never_fits[first + strategy].any()
    }
    model = prepare(instance, timeline)
    if model is None:
        assert not possible
        return
    reached = {}
    for value in np.ndindex(*model.sizes):
        cost = model.cost(np.array(value, dtype=np.int64))
        if cost < model.forbidden:
            reached[tuple(model.lift(instance, np.array(value, dtype=np.int64)).tolist())] = cost
    assert reached == possible


@many
@given(rng=seeds)
def test_values_are_found_again_from_strategies(tiny, rng):
    instance = tiny.draw(rng, nodes=6, impossible=0.4)
    model = prepare(instance, Timeline.of(instance), tolerant=True)
    value = rng.integers(model.sizes)
    again = model.project(instance, model.lift(instance, value))
    assert again.tolist() == value.tolist()


def test_strategies_that_a_model_does_not_hold_have_no_values(tiny):
    rows = [(0, 1, [0, 1], [0, 0]), (0, 1, [0, 0, 5], [0, 0, 0])]
    instance = tiny.make(rows, [((0, 1), [0, 1, 2] + [10**18] * 3)])
    model = prepare(instance, Timeline.of(instance))
    held = [model.project(instance, np.array(strategy)) is not None for strategy in product(range(2), range(3))]
    assert held == [True] * 3 + [False] * 3


def test_an_instance_without_nodes_has_values_and_strategies_of_none(tiny):
    instance = tiny.make([])
    model = prepare(instance, Timeline.of(instance))
    strategy = model.lift(instance, np.zeros(0, dtype=np.int64))
    assert strategy.tolist() == model.project(instance, strategy).tolist() == []


@many
@given(rng=seeds)
def test_what_does_not_fit_with_the_least_memory_of_others_fits_nowhere(tiny, rng):
    instance = tiny.draw(rng, nodes=4)
    never_fits = Timeline.of(instance).never_fits()
    fitting = [s for s in tiny.assignments(instance) if tiny.value(instance, s)[0] == 0]
    for strategy in fitting:
        assert not never_fits[instance.strategy_start[:-1] + strategy].any()


@many
@given(rng=seeds)
def test_memory_profile(tiny, rng):
    instance = tiny.draw(rng, nodes=6)
    timeline = Timeline.of(instance)
    strategy = rng.integers(instance.strategies)
    profile = timeline.profile(timeline.usage[instance.strategy_start[:-1] + strategy])
    assert max(0, int(profile.max(initial=0)) - timeline.limit) == tiny.value(instance, strategy)[0]
    peaks = timeline.peak_of_node(profile)
    for v in range(instance.nodes):
        assert peaks[v] == profile[timeline.begin[v] : timeline.end[v]].max(initial=0)
        assert (timeline.begin[v] < timeline.end[v]) == (instance.begin[v] < instance.end[v])
    model = prepare(instance, timeline, tolerant=True)
    value = rng.integers(model.sizes)
    lifted = timeline.usage[instance.strategy_start[:-1] + model.lift(instance, value)]
    assert (Footprint(instance, timeline, model).profile(value) == timeline.profile(lifted)).all()


def test_a_chain_of_ties_becomes_one_variable(tiny):
    instance = tiny.make(
        [(t, t + 2, [1, 2, 3], [t, 0, 1]) for t in range(50)], [((t, t + 1), identity(3)) for t in range(49)]
    )
    model = prepare(instance, Timeline.of(instance))
    assert model.variables == 1
    assert model.unary.tolist() == [50, 100, 150]
    assert model.lift(instance, np.array([2])).tolist() == [2] * 50


def test_ties_in_a_circle_that_fit_in_one_way_only(tiny):
    turn = [IMPOSSIBLE, 0, IMPOSSIBLE, IMPOSSIBLE, IMPOSSIBLE, 0, 0, IMPOSSIBLE, IMPOSSIBLE]  # i with i + 1 modulo 3
    nodes = [(0, 1, [0, 0, 0], [0, 0, 0])] * 3
    circle = tiny.make(nodes, [((0, 1), turn), ((1, 2), turn), ((2, 0), turn)])
    assert prepare(circle, Timeline.of(circle)).unary.tolist() == [0, 0, 0]
    broken = tiny.make(nodes, [((0, 1), turn), ((1, 2), turn), ((0, 2), identity(3))])
    assert prepare(broken, Timeline.of(broken)) is None


def test_merging_stops_where_tables_would_explode(tiny):
    halves = np.where(np.arange(1000)[:, None] // 500 == np.arange(2), 0, IMPOSSIBLE)
    many_values = (0, 1, [1] * 1000, [0] * 1000)
    instance = tiny.make(
        [many_values, (0, 1, [1, 2], [0, 0]), *[many_values] * 30],
        [((0, 1), halves.ravel().tolist()), *(((1, 2 + i), list(range(2000))) for i in range(30))],
    )
    model = build(instance, nothing(instance))
    assert len(reduce(model).cell) <= 2 * len(model.cell) + MORE_CELLS < 30 * 10**6


def test_tables_of_three_follow_merged_variables(tiny):
    table = np.arange(27)
    instance = tiny.make(
        [(0, 1, [0, 0, 0], [0, 0, 0])] * 3, [((0, 1), identity(3)), ((2, 0, 1), table.tolist()), ((1, 0, 2), [1] * 27)]
    )
    model = prepare(instance, Timeline.of(instance))
    assert model.variables == 2
    assert model.wide == ()
    assert sorted(model.cell.tolist()) == sorted(1 + table.reshape(3, 3, 3)[:, range(3), range(3)].ravel())


def test_what_is_impossible_can_be_tolerated(tiny):
    instance = tiny.make([(0, 1, [1, 2], [0, 0]), (0, 1, [3], [0])], [((0, 1), [10**18, 10**18])])
    timeline = Timeline.of(instance)
    assert prepare(instance, timeline) is None
    model = prepare(instance, timeline, tolerant=True)
    assert model.forbidden > model.cost(np.zeros(model.variables, dtype=np.int64)) >= model.unary.min()


@many
@given(rng=seeds)
def test_huge_costs_that_no_good_solution_has_take_no_exactness_away(tiny, rng):
    instance = tiny.draw(rng, nodes=4, impossible=0.1)
    nodes, table = instance.node_cost.copy(), instance.table.copy()
    for costs in (nodes, table):
        costs[rng.random(len(costs)) < 0.2] = rng.integers(IMPOSSIBLE // 2, 2 * IMPOSSIBLE)
    instance = dataclasses.replace(instance, node_cost=nodes, table=table)
    costs = {strategy: tiny.value(instance, strategy)[1] for strategy in tiny.assignments(instance)}
    known = int(rng.choice(np.sort(list(costs.values()))[:3]))
    model = build(instance, nothing(instance), known=known)
    for strategy, cost in costs.items():
        if cost <= known < 1000:  # without huge ones
            assert model.cost(np.array(strategy)) == cost < model.forbidden
            assert model.shift == 0


def test_a_greedy_assignment_shows_which_costs_are_useless(tiny):
    nodes = [(0, 1, [9 * 10**16, 10**9, 1], [0, 0, 1])] * 8
    edges = [((0, 1), [IMPOSSIBLE, 0, 3, 7, 0, 0, 0, 0, 10**18 - 1]), ((2,), [8, 0, 9 * 10**16])]
    instance = tiny.make(nodes, edges)
    model = prepare(instance, Timeline.of(instance))
    assert model.shift == 0
    assert min(model.cost(np.array(value)) for value in np.ndindex(*model.sizes)) == tiny.fast_best(instance)[1]


def test_forbidden_costs_that_one_value_meets_add_up_in_64_bits(tiny):
    huge, leaves = 2**62, 300
    nodes = [(0, 1, [10**17, 10**17 + 1], [0, 0]), *[(0, 1, [0, 1], [0, 0])] * leaves]
    instance = tiny.make(nodes, [((0, 1 + v), [0, huge, huge, huge]) for v in range(leaves)])
    model = build(instance, nothing(instance), known=10**17 + 2)
    assert (model.cell == model.forbidden).sum() == 3 * leaves
    assert model.forbidden * (1 + leaves) < 2**63


def test_sums_beyond_64_bits(tiny):
    huge = 2**63 - 1
    instance = tiny.make([(0, 1, [huge, huge - 2**40], [0, 0])] * 4, [((0, 1), [huge, huge, huge, huge - 2**50])])
    assert exact_cost(instance, np.array([1, 1, 0, 0])) == 5 * huge - 2 * 2**40 - 2**50
    model = build(instance, nothing(instance), tolerant=True)
    assert model.forbidden < 2**58
    low, high = (model.cost(np.full(model.variables, k)) for k in (1, 0))
    assert low < high < model.forbidden
    assert high << model.shift <= 5 * huge


@pytest.mark.parametrize("limit", [2**62, 2**63 - 1])
def test_memory_beyond_64_bits_is_never_said_to_fit_where_it_does_not(tiny, limit):
    usage = [limit, limit // 2, limit // 8]
    instance = tiny.make([(0, 3, [0, 0, 0], usage)] * 3, limit=limit)
    timeline = Timeline.of(instance)
    for strategy in tiny.assignments(instance):
        profile = timeline.profile(timeline.usage[instance.strategy_start[:-1] + strategy])
        assert profile.min() >= 0
        fits = bool((profile <= timeline.limit).all())
        assert fits <= (tiny.value(instance, strategy)[0] == 0)
        if strategy == (2, 2, 2):
            assert fits


def test_usage_far_above_the_limit_is_no_less_than_it(tiny):
    instance = tiny.make([(0, 2, [0, 0], [2**63 - 1, 3])] * 1000, limit=3000)
    timeline = Timeline.of(instance)
    assert timeline.limit == 3000
    assert math.isclose(timeline.profile(timeline.most())[0], 2**62, rel_tol=0.01)
    assert timeline.profile(timeline.least())[0] == 3000
