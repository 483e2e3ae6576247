"""Iterated local search: what it reaches, what it repeats, and when it stops; see also `test_brute_force`."""

from __future__ import annotations

import numpy as np
import pytest
from effort import some_of

from shardmark.solvers.intraop.local_search import local_search
from shardmark.solvers.registry import Declined, LocalRun

IMPOSSIBLE = 10**18


def run(instance, *, iterations, kick=4, **limits):
    trial = LocalRun(**{"timeout": 60.0, **limits})
    local_search(instance, trial, iterations=iterations, kick=kick)
    return trial


def ring(tiny, n=60):
    """Nodes in a ring, each live with a few others, in a limit that the cheapest strategies exceed."""
    rng = np.random.default_rng(1)
    rows = [(v, v + 5, rng.integers(0, 99, 6).tolist(), rng.integers(0, 30, 6).tolist()) for v in range(n)]
    edges = [((v, (v + skip) % n), rng.integers(0, 99, 36).tolist()) for v in range(n) for skip in (1, 7)]
    return tiny.make(rows, edges, limit=50)


def dense(tiny, seed, n=8):
    """Every node with every other, too dense to be reduced to nothing."""
    rng = np.random.default_rng(seed)
    rows = [(v % 3, v % 3 + 2, rng.integers(0, 50, 3).tolist(), rng.integers(0, 10, 3).tolist()) for v in range(n)]
    edges = [((v, w), rng.integers(0, 50, 9).tolist()) for v in range(n) for w in range(v)]
    return tiny.make(rows, edges, limit=28)


@pytest.mark.gate
def test_the_optimum_of_tiny_instances_is_found_though_a_descent_stops_before_it(tiny):
    early = 0
    for seed in range(some_of(6)):
        instance = dense(tiny, seed)
        best = tiny.fast_best(instance)
        assert best[0] == 0
        assert tiny.value(instance, run(instance, iterations=200).solutions[-1]) == best
        early += tiny.value(instance, run(instance, iterations=0).solutions[-1]) > best
    assert early > some_of(2)


def test_the_result_depends_on_the_seed_and_the_number_of_iterations_alone(tiny):
    instance = ring(tiny)
    first, again, longer, other = (
        run(instance, iterations=count, seed=seed).solutions for count, seed in ((25, 1), (25, 1), (50, 1), (25, 2))
    )
    assert first == again == longer[: len(first)] != other
    assert tiny.value(instance, longer[-1]) < tiny.value(instance, longer[1])
    assert all(tiny.value(instance, solution)[0] == 0 for solution in longer[1:])


def test_it_ends_where_nothing_can_be_chosen(tiny):
    trial = run(tiny.make([(0, 1, [3], [1])] * 3), iterations=10**9)
    assert trial.solutions == [[0, 0, 0]]
    assert run(tiny.make([]), iterations=10**9).solutions == [[]]


def test_a_lack_of_memory_is_declined_and_a_contradiction_searched(tiny):
    with pytest.raises(Declined, match="time step 0: expected a limit of 7 or more"):
        run(tiny.make([(0, 1, [1, 2], [8, 7])], limit=6), iterations=1)
    unequal = [IMPOSSIBLE, 0, 0, IMPOSSIBLE]
    instance = tiny.make([(0, 1, [0, 1], [0, 0])] * 3, [((0, 1), unequal), ((1, 2), unequal), ((0, 2), unequal)])
    assert tiny.value(instance, run(instance, iterations=20).solutions[-1]) == tiny.best(instance)
