"""The Lagrangian bounds against brute force, and what they say of odd instances."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from fuzz import attempt

from shardmark.solvers.intraop.bounds.lagrange import lagrange

IMPOSSIBLE = 10**18


def run(instance, *, seconds=20.0):
    """The bounds, and why the instance was declined, if it was."""
    trial, reason = attempt(lagrange, instance, timeout=seconds)
    assert all(earlier < later for earlier, later in pairwise(trial.bounds))
    assert all(type(value) is int for value in trial.bounds)
    return trial.bounds, reason


@pytest.mark.thorough(cases=14)
@pytest.mark.parametrize("seed", range(40))
def test_bounds_stay_below_the_optimum(tiny, seed):
    instance = tiny.draw(np.random.default_rng(seed))
    excess, cost = tiny.best(instance)
    bounds, reason = run(instance)
    if excess:
        assert reason.startswith("time step")
        assert not bounds
    else:
        assert bounds[-1] <= cost
        assert reason is None or cost >= IMPOSSIBLE


def test_a_tree_is_bounded_exactly(tiny):
    rng = np.random.default_rng(5)
    rows = [(0, 1, rng.integers(0, 99, 3).tolist(), [0, 0, 0]) for _ in range(7)]
    tree = [((int(rng.integers(0, v)), v), rng.integers(0, 99, 9).tolist()) for v in range(1, 7)]
    instance = tiny.make(rows, tree)
    assert run(instance)[0][-1] == tiny.best(instance)[1]


def test_multipliers_raise_the_bound(tiny):
    # menus of cost against memory: the relaxation of ten equal knapsacks is worth half of what the most frugal cost
    instance = tiny.make([(0, 5, [0, 100], [10, 0]) for _ in range(10)], limit=50)
    assert run(instance)[0][-1] == tiny.best(instance)[1] == 500


def test_two_steps_share_no_price_that_belongs_to_one(tiny):
    # both steps are overloaded alike at first; where the second one has room, the first one has more
    rows = [(0, 2, [0, 100 * (1 + v)], [10, 0]) for v in range(8)]
    rows += [(0, 1, [0, 2000], [4, 0]), (1, 2, [0, 2000], [10, 0])]
    instance = tiny.make(rows, limit=40)
    assert run(instance)[0][-1] == tiny.best(instance)[1] == 1500


def test_costs_near_the_largest_integer_are_bounded_exactly(tiny):
    big = 2**55
    instance = tiny.make(
        [(0, 1, [big + 1, big + 4], [0, 0]), (0, 1, [3, big], [0, 0])], [((0, 1), [big, 5, 7, big + 9])]
    )
    bounds, reason = run(instance)
    assert reason is None
    assert bounds[-1] <= tiny.best(instance)[1]
    assert bounds[-1] >= tiny.best(instance)[1] * (1 - 1e-9)


def test_memory_beyond_64_bits_is_left_out(tiny):
    huge = 2**62
    instance = tiny.make([(0, 1, [1, 9], [huge, 0]), (0, 1, [2, 9], [huge, 0])], limit=2**63 - 1)
    bounds, reason = run(instance)
    assert reason is None
    assert 3 <= bounds[-1] <= tiny.best(instance)[1]


@pytest.mark.parametrize(
    ("rows", "edges", "limit", "optimum"),
    [
        ([], [], 10, 0),
        ([(0, 3, [7], [2])], [], 2, 7),
        ([(2, 2, [5, 4], [9, 9])], [], 0, 4),
        ([(0, 1, [0, 0], [0, 1])], [((0,), [3, 2])], 0, 3),
        ([(0, 1, [1, 2], [0, 0])], [((0, 0), [9, 0, 0, 4])], 5, 6),
        ([(0, 1, [0, 0], [0, 0])] * 2, [((0, 1), [1, 2, 3, 4]), ((1, 0), [5, 0, 0, 0])], 5, 2),
    ],
    ids=["no node", "one strategy", "never live", "limit of zero", "self loop", "duplicate edge"],
)
def test_degenerate_instances(tiny, rows, edges, limit, optimum):
    bounds, reason = run(tiny.make(rows, edges, limit))
    assert reason is None
    assert bounds[-1] == optimum


def test_contradictory_edges_are_named(tiny):
    no, rows = IMPOSSIBLE, [(0, 1, [0, 0], [0, 0])] * 2
    instance = tiny.make(rows, [((0, 1), [0, no, no, 0]), ((0, 1), [no, 0, 0, no])])
    bounds, reason = run(instance)
    assert "edges.costs[1]" in reason
    assert bounds[-1] == 10**17


def test_a_run_without_time_reports_the_simple_bound(tiny):
    instance = tiny.draw(np.random.default_rng(3))
    assert run(instance, seconds=0.0)[0][0] == instance.cheapest_parts()
