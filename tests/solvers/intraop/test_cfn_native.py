"""`cfn-native` on instances made for it, and on the contest's; see also `test_brute_force` and `test_bad_input`."""

from __future__ import annotations

import time
from functools import partial

import numpy as np
import pytest
from fuzz import attempt
from patience import given_time

from shardmark.harness.verify import verify
from shardmark.instances import load
from shardmark.solvers.intraop.cfn import portfolio
from shardmark.solvers.intraop.cfn_native import cfn_native

IMPOSSIBLE = 10**18
BENCHMARKS = "google/iopddl/benchmarks/asplos-2025-iopddl-{}.json.gz"
run = partial(attempt, cfn_native)


def until_best(tiny, instance, best):
    """A run that never proves that it is done, with enough time to find the best on a busy machine as well."""

    def found_best(found):
        return tiny.value(instance, found[0].solutions[-1]) == best

    return given_time(lambda seconds: run(instance, timeout=seconds), found_best)


def test_an_empty_instance(tiny):
    trial, reason = run(tiny.make([]))
    assert (trial.solutions, trial.bounds, reason) == ([[]], [0], None)


def test_duplicate_edges_add_up_and_loops_count_their_diagonal(tiny):
    nodes = [(0, 1, [0, 0], [1, 1])] * 2
    edges = [((0, 1), [9, 1, 2, 9]), ((0, 1), [0, 5, 1, 0]), ((1, 0), [0, 0, 3, 0]), ((0, 0), [2, 0, 0, 7])]
    instance = tiny.make(nodes, edges)
    trial, reason = run(instance)
    assert reason is None
    assert tiny.value(instance, trial.solutions[-1]) == tiny.best(instance) == (0, trial.bounds[-1])


def test_a_limit_of_0_that_a_later_step_exceeds(tiny):
    trial, reason = run(tiny.make([(0, 2, [1, 7], [1, 0]), (4, 7, [2, 5], [4, 3])], limit=0))
    assert len(trial.solutions) == 1
    assert reason.startswith("time step 4: expected a limit of 3 or more")


def test_the_first_edge_without_a_way_out_is_named(tiny):
    same, other = [0, IMPOSSIBLE, IMPOSSIBLE, 0], [IMPOSSIBLE, 0, 0, IMPOSSIBLE]
    edges = [((0, 1), same), ((2, 3), other), ((1, 2), same), ((3, 0), same), ((0, 2), other)]
    trial, reason = run(tiny.make([(0, 1, [1, 2], [0, 0])] * 4, edges))
    assert reason.startswith("edges.costs[3]")
    assert trial.bounds[-1] == 10**17


def test_a_node_of_impossible_costs_is_named(tiny):
    reason = run(tiny.make([(0, 1, [1], [0]), (0, 1, [IMPOSSIBLE, IMPOSSIBLE], [0, 0])], [((0,), [1])]))[1]
    assert reason.startswith("nodes.costs")


def test_memory_that_allows_only_what_is_impossible(tiny):
    nodes = [(0, 1, [0, 0], [2, 3])] * 3 + [(0, 1, [0, 0], [1, 2])]
    unequal = [IMPOSSIBLE, 0, 0, IMPOSSIBLE]
    edges = [((0, 1), unequal), ((2, 3), unequal)]
    instance = tiny.make(nodes, edges, limit=8)
    trial, reason = run(instance)
    assert reason is not None
    assert trial.bounds == [0, 10**17]
    assert verify(instance, trial.solutions[-1]).cost == IMPOSSIBLE


@pytest.mark.gate
def test_sums_beyond_64_bits(tiny):
    huge = 2**63 - 1
    instance = tiny.make([(0, 1, [huge, huge - 2**52], [0, 3])] * 3, [((0, 1), [huge] * 4)], limit=6)
    best = tiny.best(instance)
    trial, reason = until_best(tiny, instance, best)
    assert tiny.value(instance, trial.solutions[-1]) == best
    assert trial.bounds[-1] <= best[1]
    assert "10^17" in reason


@pytest.mark.gate
def test_memory_beyond_64_bits_proves_nothing_wrong(tiny):
    half = 2**62
    instance = tiny.make([(0, 1, [0, 9], [half - 1, half - 100])] * 2, limit=2 * half - 90)
    trial, reason = run(instance, timeout=1.5)
    assert reason is None
    assert all(bound <= 9 for bound in trial.bounds)
    assert tiny.value(instance, trial.solutions[-1])[0] == 0


def test_too_much_memory_beyond_64_bits_is_named(tiny):
    rows = [(0, 9, [0], [1]), *[(4, 7, [0, 1], [2**62, 2**62 + 5])] * 4]
    trial, reason = run(tiny.make(rows, limit=2**63 - 1))
    assert reason.startswith(f"time step 4: expected a limit of {2**64 + 1} or more")
    assert trial.bounds == []


def test_what_is_too_large_for_a_program_is_searched(tiny, monkeypatch):
    monkeypatch.setattr(portfolio, "LARGEST_PROGRAM", 0)
    monkeypatch.setattr(portfolio, "SMALL", 0)
    rng = np.random.default_rng(7)
    for _ in range(6):
        instance = tiny.larger(rng)
        best = tiny.fast_best(instance)
        if best[1] < IMPOSSIBLE and not best[0]:
            trial, _ = until_best(tiny, instance, best)
            assert trial.bounds[-1] <= best[1]
            assert tiny.value(instance, trial.solutions[-1]) == best


@pytest.mark.gate
@pytest.mark.parametrize("largest", [0, 10**6])
def test_a_run_ends_soon_after_its_time(tiny, monkeypatch, largest):
    monkeypatch.setattr(portfolio, "LARGEST_PROGRAM", largest)
    monkeypatch.setattr(portfolio, "SMALL", 0)
    rng = np.random.default_rng(0)
    rows = [(v, v + 20, rng.integers(0, 999, 8).tolist(), rng.integers(0, 99, 8).tolist()) for v in range(400)]
    pairs = [((v, v + skip), rng.integers(0, 999, 64).tolist()) for v in range(380) for skip in (1, 3, 11)]
    instance = tiny.make(rows, pairs, limit=600)
    began = time.monotonic()
    trial, reason = run(instance, timeout=1.5, cores=2)
    assert time.monotonic() - began < 20
    assert reason is None
    assert trial.bounds[-1] <= verify(instance, trial.solutions[-1]).cost
    assert verify(instance, trial.solutions[-1]).feasible


@pytest.mark.thorough(cases=2)
@pytest.mark.parametrize(("name", "optimum"), [("B", 532843), ("G", 217039), ("P", 651833115436)])
def test_contest_instances_are_proved_optimal(mirror, name, optimum):
    instance = load(mirror / BENCHMARKS.format(name))
    trial, _ = run(instance, cores=2)
    assert verify(instance, trial.solutions[-1]).feasible
    assert verify(instance, trial.solutions[-1]).cost == trial.bounds[-1] == optimum
