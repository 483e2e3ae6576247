"""Odd and contradictory instances, on every solver and bound of the track that ends by itself."""

from __future__ import annotations

import time
from functools import partial

import numpy as np
import pytest
from fuzz import attempt, methods

from shardmark.harness.verify import verify
from shardmark.solvers.intraop.network import reduction
from shardmark.solvers.intraop.network.infeasibility import contradiction
from shardmark.solvers.intraop.network.memory import Timeline

pytestmark = pytest.mark.gate(cases=2)

IMPOSSIBLE = 10**18
METHODS = methods("intraop")
SOLVERS = ("cfn-native", "ilp-cpsat", "ilp-scip", "toulbar2-exact")
BOUNDS = ("simple", "cfn-relaxed", "lagrange", "lp", "toulbar2")
#: Methods that say why they decline.
DECLINING = (*SOLVERS, "lagrange", "lp", "toulbar2")
#: Less work for methods that would take all of their time.
SHORT = {"local-search": {"iterations": 50}}


def run(name, instance, **limits):
    """The run of a method, if need be with less work, and why it declined the instance, if it did."""
    return attempt(
        partial(METHODS[name].function, **{**METHODS[name].params, **SHORT.get(name, {})}), instance, **limits
    )


def odd(make):
    """Instances by what is odd about them; each has an assignment worth the name."""
    rng = np.random.default_rng(0)
    pair, three = [(0, 1, [0, 0], [1, 1])] * 2, [(0, 1, [0, 1, 2], [3, 1, 0])] * 4
    edges = [((k,), rng.integers(0, 9, 3).tolist()) for k in range(4)]
    edges += [(scope, rng.integers(0, 99, 27).tolist()) for scope in ((0, 1, 2), (3, 1, 2), (2, 0, 3))]
    tied = [((0, 1), [0, IMPOSSIBLE, IMPOSSIBLE, 0]), ((1, 2), [IMPOSSIBLE, 4, 9, IMPOSSIBLE])]
    loops = [((0, 0), [2, 0, 0, 7]), ((1, 1), [8, IMPOSSIBLE, 0, 3]), ((0, 1), [5, 0, 0, 5])]
    return {
        "no nodes": make([]),
        "no limit": make([(0, 9, [5, 1], [0, 2**63 - 1])] * 3, [((0, 1), [3, 0, 0, 3])], limit=None),
        "the largest limit": make([(0, 9, [5, 1], [0, 2**40])] * 3, [((0, 1), [3, 0, 0, 3])], limit=2**63 - 1),
        "intervals of no length": make([(3, 3, [1, 2], [99, 0]), (0, 0, [5, 1], [1, 99])], limit=0),
        "duplicate edges": make(pair, [((0, 1), [9, 1, 2, 9]), ((0, 1), [0, 5, 1, 0]), ((1, 0), [0, 0, 3, 0])]),
        "self loops": make(pair, loops),
        "edges of one and three nodes": make(three, edges, limit=5),
        "a node twice in an edge of three": make(pair, [((0, 1, 0), [1, 2, 3, 4, 5, 6, 7, 0])], limit=2),
        "one strategy each": make([(0, 2, [3], [5]), (1, 4, [4], [5])], [((0, 1), [7]), ((1,), [1])], limit=10),
        "costs of 0": make([(0, 1, [0, 0], [1, 2])] * 3, [((0, 1), [0] * 4), ((1, 2), [0] * 4)], limit=4),
        "costs of 10^18": make([(0, 1, [IMPOSSIBLE, 7], [1, 2]), *[(0, 1, [0, 0], [1, 2])] * 2], tied, limit=5),
        "useless costs": make([(0, 1, [9 * 10**16 + 1, 7], [1, 2])] * 8, [((0, 1), [IMPOSSIBLE, 1, 2, 0])], limit=16),
        "a limit of 0": make([(0, 2, [1, 7], [1, 0]), (1, 3, [2, 5], [4, 0])], [((0, 1), [0, 0, 0, 9])], limit=0),
    }


@pytest.mark.parametrize("name", SOLVERS)
def test_what_is_odd_is_solved(tiny, name):
    for what, instance in odd(tiny.make).items():
        trial, reason = run(name, instance)
        best = tiny.best(instance)
        assert reason is None, what
        assert tiny.value(instance, trial.solutions[-1]) == best == (0, trial.bounds[-1]), what


@pytest.mark.parametrize("name", BOUNDS)
def test_what_is_odd_is_bounded(tiny, name):
    for what, instance in odd(tiny.make).items():
        trial, reason = run(name, instance)
        assert reason is None, what
        assert instance.cheapest_parts() <= max(trial.bounds) <= tiny.best(instance)[1], what


@pytest.mark.parametrize("name", METHODS)
def test_without_a_limit_the_cheapest_assignment_is_found_whatever_memory_it_uses(tiny, name):
    """The cheapest strategies use 2^64 - 2 of memory in the first time step."""
    instance = tiny.make([(0, 9, [5, 1], [0, 2**63 - 1])] * 2, [((0, 1), [0, 0, 0, 0])], limit=None)
    trial, _ = run(name, instance, timeout=0.0 if name == "random" else 60.0)  # random never ends by itself
    assert all(verify(instance, solution).feasible for solution in trial.solutions)
    if name in BOUNDS:
        assert trial.bounds[-1] == 2
    elif name != "random":
        assert trial.solutions[-1] == [1, 1]


@pytest.mark.parametrize("name", DECLINING)
@pytest.mark.parametrize("limit", [0, 109])
def test_too_little_memory_is_declined_with_the_time_step(tiny, name, limit):
    nodes = [(0, 2, [1, 2], [70, 60]), (1, 3, [1, 2], [80, 50])]
    instance = tiny.make(nodes, [((0, 1), [1, 2, 3, 4])], limit=limit)
    trial, reason = run(name, instance)
    assert reason.startswith(f"time step {0 if limit == 0 else 1}: expected a limit of {60 if limit == 0 else 110} or")
    assert all(not verify(instance, solution).feasible for solution in trial.solutions)
    assert not trial.bounds or name not in SOLVERS


@pytest.mark.parametrize("name", DECLINING)
def test_contradictory_edges_are_declined_with_the_edge(tiny, name):
    same, other = [0, IMPOSSIBLE, IMPOSSIBLE, 0], [IMPOSSIBLE, 0, 0, IMPOSSIBLE]
    edges = [((0, 1), same), ((2, 3), other), ((1, 2), same), ((3, 0), same), ((0, 2), other)]
    instance = tiny.make([(0, 1, [1, 2], [0, 0])] * 4, edges)
    trial, reason = run(name, instance)
    assert reason.startswith("edges.costs[3]")
    assert 10**17 <= trial.bounds[-1] <= tiny.best(instance)[1]
    assert all(verify(instance, solution).cost >= IMPOSSIBLE for solution in trial.solutions)


def test_an_edge_that_time_was_too_short_for_is_no_matter_of_search(tiny):
    edges = [((0, 1), [0, IMPOSSIBLE, IMPOSSIBLE, 0]), ((0, 1), [IMPOSSIBLE, 0, 0, IMPOSSIBLE])]
    instance = tiny.make([(0, 1, [1, 2], [0, 0])] * 2, edges)
    reason = contradiction(instance, Timeline.of(instance), time.monotonic())
    assert reason.startswith("every assignment that fits into memory has an entry of 10^17 or more, as propagation")
    assert "search" not in reason


@pytest.mark.parametrize("name", ["random", "greedy", "local-search", *SOLVERS[1:], "lagrange", "lp", "toulbar2"])
def test_nothing_is_prepared_when_time_is_up(tiny, monkeypatch, name):
    def fail(*_):
        raise AssertionError("reduced after the deadline")

    monkeypatch.setattr(reduction, "_Support", fail)
    nodes = [(0, 1, [1, 2], [2, 1])] * 4
    instance = tiny.make(nodes, [((v, v + 1), [0, 3, 3, IMPOSSIBLE]) for v in range(3)])
    trial, reason = run(name, instance, timeout=0.0)
    assert reason is None
    assert [tiny.value(instance, solution)[0] for solution in trial.solutions] == [0] * (name not in BOUNDS)


def test_the_edge_is_looked_for_by_propagation_alone(tiny, monkeypatch):
    monkeypatch.setattr(reduction, "construct", None)
    nodes = [(0, 1, [9 * 10**16, 5], [0, 0]), *[(0, 1, [1, 2], [0, 0])] * 100]
    edges = [((0, 1 + v), [1, 2, 3, 4]) for v in range(100)]
    edges += [((0, 1), [0, IMPOSSIBLE, IMPOSSIBLE, 0]), ((0, 1), [IMPOSSIBLE, 0, 0, IMPOSSIBLE])]
    instance = tiny.make(nodes, edges)
    reason = contradiction(instance, Timeline.of(instance), time.monotonic() + 60.0)
    assert reason.startswith("edges.costs[101]")


@pytest.mark.parametrize("name", DECLINING)
def test_entries_of_10_to_the_17_are_costs_where_others_cost_as_much(tiny, name):
    instance = tiny.make([(0, 1, [6 * 10**16] * 2, [0, 0])] * 2, [((0, 1), [IMPOSSIBLE] * 4)])
    trial, reason = run(name, instance)
    assert reason is None
    assert 12 * 10**16 <= trial.bounds[-1] <= tiny.best(instance)[1] == IMPOSSIBLE + 12 * 10**16


@pytest.mark.parametrize("name", SOLVERS)
def test_memory_that_allows_only_what_is_impossible_is_declined(tiny, name):
    """No single edge is to blame, nor propagation enough: the search itself has to prove it."""
    nodes = [(0, 1, [0, 0], [2, 3])] * 3 + [(0, 1, [0, 0], [1, 2])]
    unequal = [IMPOSSIBLE, 0, 0, IMPOSSIBLE]
    edges = [((0, 1), unequal), ((2, 3), unequal)]
    assert run(name, tiny.make(nodes, edges, limit=9))[1] is None
    instance = tiny.make(nodes, edges, limit=8)
    trial, reason = run(name, instance)
    assert reason.endswith("as a complete search shows")
    assert 10**17 <= trial.bounds[-1] <= IMPOSSIBLE
    assert verify(instance, trial.solutions[-1]).cost == IMPOSSIBLE


@pytest.mark.gate
@pytest.mark.parametrize("name", DECLINING)
def test_numbers_beyond_64_bits_prove_nothing_wrong(tiny, name):
    half, huge = 2**62, 2**63 - 1
    memory = tiny.make([(0, 1, [0, 9], [half - 1, half - 100])] * 2, limit=2 * half - 90)
    costs = tiny.make([(0, 1, [huge, huge - 2**52], [0, 3])] * 3, [((0, 1), [huge] * 4)], limit=6)
    for instance in (memory, costs):
        trial, _ = run(name, instance, timeout=2.0)
        best = tiny.best(instance)
        assert all(bound <= best[1] for bound in trial.bounds)
        assert all(tiny.value(instance, solution) >= best for solution in trial.solutions)


def test_memory_that_rules_out_one_value_after_the_other_ends(tiny):
    length = 500
    rows, pairs = [], []
    for step in range(length):
        rows += [(step, step + 1, [0 if step else IMPOSSIBLE, 10 if step else 0], [0, 1])]
        rows += [(step, step + 1, [10, 0], [0, 1])]
        pairs += [((2 * step + 1, 2 * step + 2), [IMPOSSIBLE, 0, 0, 0])] if step < length - 1 else []
    trial, reason = run("lagrange", tiny.make(rows, pairs, 1))
    assert reason is None
    assert trial.bounds


@pytest.mark.parametrize("name", ["greedy", "local-search", "cfn-native"])
def test_a_variable_that_meets_many_forbidden_entries_near_the_largest(tiny, name):
    hubs = 150
    rows = [(0, 1, [0, 9 * 10**16], [0, 0]), (0, 1, [0, 1], [0, 0]), *[(0, 1, [0, 0], [0, 0])] * (hubs - 1)]
    rows += [(0, 1, [0, 0], [0, 1])] * hubs
    pairs = [((1 + i, 2 + i), [0, IMPOSSIBLE, IMPOSSIBLE, 0]) for i in range(hubs - 1)]
    pairs += [((1 + i, 1 + hubs + i), [IMPOSSIBLE, 0, 0, 0]) for i in range(hubs)]
    instance = tiny.make(rows, pairs, 1)
    trial, _ = run(name, instance)
    assert min(verify(instance, solution).cost for solution in trial.solutions) == 1


@pytest.mark.parametrize("name", DECLINING)
def test_large_entries_stay_costs_when_useless_ones_have_gone(tiny, name):
    rows = [(0, 1, [1, 9 * 10**16], [0, 0]), (0, 1, [2, 9 * 10**16], [0, 0])]
    trial, reason = run(name, tiny.make(rows, [((0, 1), [10**18] * 4)]))
    assert (trial.bounds[-1], reason) == (10**18 + 3, None)
