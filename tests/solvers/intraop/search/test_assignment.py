"""The values that a search keeps up to date equal those computed anew, and its moves do what they say."""

from __future__ import annotations

import time

import numpy as np
from effort import some_of
from hypothesis import given, settings
from hypothesis import strategies as st

from shardmark.solvers.intraop.network.memory import Footprint, Timeline
from shardmark.solvers.intraop.network.ragged import argmin
from shardmark.solvers.intraop.network.reduction import prepare
from shardmark.solvers.intraop.search.assignment import Search
from shardmark.solvers.intraop.search.construction import construct, least_memory

seeds = st.integers(0, 2**32 - 1).map(np.random.default_rng)
many = settings(max_examples=some_of(150))


def footprint_of(instance):
    timeline = Timeline.of(instance)
    return Footprint(instance, timeline, prepare(instance, timeline, tolerant=True))


def soon():
    return time.monotonic() + 60


@many
@given(rng=seeds)
def test_moves_keep_costs_and_memory_up_to_date(tiny, rng):
    footprint = footprint_of(tiny.draw(rng, nodes=7))
    model = footprint.model
    search = Search(footprint, rng.integers(model.sizes))
    for _ in range(10):
        variable = int(rng.integers(model.variables))
        value = int(rng.integers(model.sizes[variable]))
        before, rows = model.cost(search.value), search.rows(variable)
        gain = int(rows[value] - rows[search.value[variable]])
        after = search.value.copy()
        after[variable] = value
        profile = footprint.profile(after)
        harmless = ((profile <= search.limit) | (profile <= search.profile)).all()
        assert search.fits(variable, value) == harmless
        search.move(variable, value)
        assert (search.value == after).all()
        assert model.cost(after) - before == gain
        assert (search.profile == profile).all()
    again = Search(footprint, search.value)
    assert (again.local == search.local).all()


@many
@given(rng=seeds)
def test_descent_ends_where_no_single_move_helps(tiny, rng):
    footprint = footprint_of(tiny.draw(rng, nodes=7))
    model = footprint.model
    search = Search(footprint, rng.integers(model.sizes))
    before, excess = model.cost(search.value), np.maximum(search.profile - search.limit, 0)
    search.descend(soon())
    assert model.cost(search.value) <= before
    assert (np.maximum(search.profile - search.limit, 0) <= excess).all()
    for variable in range(model.variables):
        rows = search.rows(variable)
        for value in np.flatnonzero(rows < rows[search.value[variable]]).tolist():
            assert not search.fits(variable, value)


@many
@given(rng=seeds)
def test_repair_says_whether_it_succeeded(tiny, rng):
    footprint = footprint_of(tiny.draw(rng, nodes=7))
    search = Search(footprint, rng.integers(footprint.model.sizes))
    excess = np.maximum(search.profile - search.limit, 0)
    assert search.repair(soon()) == search.feasible()
    assert (np.maximum(search.profile - search.limit, 0) <= excess).all()


@many
@given(rng=seeds)
def test_construction_never_overloads_more_than_least_memory(tiny, rng):
    footprint = footprint_of(tiny.draw(rng, nodes=7))
    least = footprint.profile(least_memory(footprint))
    price = rng.random(len(footprint.model.unary)) * 10
    search = construct(footprint, price, soon())
    assert ((search.profile <= search.limit) | (search.profile <= least)).all()


def test_without_time_construction_is_least_memory_and_descent_stands_still(tiny):
    footprint = footprint_of(tiny.draw(np.random.default_rng(1), nodes=7))
    search = construct(footprint, np.zeros(len(footprint.model.unary)), 0.0)
    assert (search.value == least_memory(footprint)).all()
    search.descend(0.0)
    assert (search.value == least_memory(footprint)).all()


def test_argmin_takes_the_first_of_equals():
    assert argmin(np.array([3, 1, 1, 5, 2, 2]), np.array([0, 3, 4, 6])).tolist() == [1, 0, 0]
