"""Every solver and bound on instances small enough to know all about, and on the contest's own."""

from __future__ import annotations

import sys
import time
from contextlib import nullcontext, suppress
from itertools import pairwise
from unittest.mock import patch

import numpy as np
import pytest
from patience import Looks, given_time

from shardmark.harness.verify import verify
from shardmark.instances import load
from shardmark.solvers.intraop.bounds.relaxed import cfn_relaxed
from shardmark.solvers.intraop.bounds.simple import simple
from shardmark.solvers.intraop.cfn import adaptive_penalty
from shardmark.solvers.intraop.cfn_penalty import cfn_penalty
from shardmark.solvers.intraop.greedy import greedy
from shardmark.solvers.intraop.random import random
from shardmark.solvers.intraop.search import greedy as priced_greedy
from shardmark.solvers.registry import Declined, LocalRun

pytestmark = pytest.mark.gate(cases=2)

SOLVERS = pytest.mark.parametrize("solver", [random, greedy, cfn_penalty])
SAMPLES = 1000  # of random, which never ends by itself, as the others do
BENCHMARKS = "google/iopddl/benchmarks/asplos-2025-iopddl-{}.json.gz"


def run(solver, instance, *, seconds=None, **limits):
    """A run with a limit, or else until it ends by itself, or until random has looked at the clock often enough."""
    trial, clock = LocalRun(timeout=seconds or 600.0, **limits), nullcontext()
    if solver is random and seconds is None:
        trial.deadline, clock = float(SAMPLES), patch.object(sys.modules[random.__module__], "time", Looks())
    with clock, suppress(Declined):  # what was reported before counts
        solver(instance, trial)
    return trial


def cost(instance, solution):
    verdict = verify(instance, solution)
    assert verdict.feasible, verdict.violations
    return verdict.cost


@pytest.mark.parametrize("solver", [random, greedy])
@pytest.mark.thorough(cases=6)
@pytest.mark.parametrize("seed", range(10))
def test_solutions_only_get_better(tiny, solver, seed):
    instance = tiny.draw(np.random.default_rng(seed), nodes=9)
    values = [tiny.value(instance, solution) for solution in run(solver, instance).solutions]
    assert all(later < earlier for earlier, later in pairwise(values))
    for value, solution in zip(values, run(solver, instance).solutions, strict=False):
        assert verify(instance, solution).cost is not None
        assert value[1] >= 0


@pytest.mark.thorough(cases=14)
@pytest.mark.parametrize("seed", range(40))
def test_bounds_never_exceed_the_optimum(tiny, seed):
    instance = tiny.draw(np.random.default_rng(2000 + seed))
    best = tiny.best(instance)
    without_limit = min(tiny.value(instance, strategy)[1] for strategy in tiny.assignments(instance))
    least, relaxed = run(simple, instance).bounds, run(cfn_relaxed, instance)
    assert len(least) == 1
    assert least[0] <= without_limit
    assert all(isinstance(bound, int) for bound in [*least, *relaxed.bounds])
    assert least[0] == relaxed.bounds[0]
    assert relaxed.bounds == sorted(relaxed.bounds)
    if best[0] == 0:
        assert relaxed.bounds[-1] <= best[1]
    if best[1] < 10**18:
        assert without_limit <= relaxed.bounds[-1]
    for solution in relaxed.solutions:
        assert tiny.value(instance, solution) == best
        assert best[1] >= 10**18 or relaxed.bounds[-1] == best[1]


@SOLVERS
def test_an_instance_in_which_nothing_fits(tiny, solver):
    instance = tiny.make([(0, 2, [1, 2], [70, 60]), (1, 3, [1, 2], [80, 50])], [((0, 1), [1, 2, 3, 4])], limit=100)
    found = run(solver, instance).solutions[-1]
    assert tiny.value(instance, found)[0] == 10
    assert not verify(instance, found).feasible


@SOLVERS
def test_an_empty_instance(tiny, solver):
    assert run(solver, tiny.make([])).solutions == [[]]


def test_the_relaxation_solves_what_leaves_no_choice(tiny):
    found = run(cfn_relaxed, tiny.make([(0, 2, [3], [1]), (1, 3, [4], [1])], [], limit=5))
    assert (found.bounds, found.solutions) == ([7], [[0, 0]])


@pytest.mark.parametrize("bound", [simple, cfn_relaxed])
def test_bounds_of_an_empty_instance(tiny, bound):
    assert run(bound, tiny.make([])).bounds == [0]


@pytest.mark.gate
@SOLVERS
def test_nodes_without_edges_choose_by_themselves(tiny, solver, monkeypatch):
    monkeypatch.setattr(adaptive_penalty, "PATIENCE", 3)
    instance = tiny.make([(0, 2, [5, 1, 9], [1, 3, 1]), (5, 6, [4, 2], [1, 9]), (3, 3, [7, 8], [99, 0])], limit=8)
    assert cost(instance, run(solver, instance).solutions[-1]) == 1 + 4 + 7


@pytest.mark.parametrize("solver", [random, greedy])
def test_costs_beyond_64_bits(tiny, solver):
    huge = 2**63 - 1
    nodes = [(0, 2, [huge, huge - 2**50], [0, 1])] * 3
    instance = tiny.make(nodes, [((0, 1, 2), [huge] * 8)], limit=2)
    assert cost(instance, run(solver, instance).solutions[-1]) == 4 * huge - 2 * 2**50


def test_what_is_impossible_is_chosen_where_nothing_else_fits(tiny):
    nodes = [(0, 2, [1, 5], [60, 50])] * 2
    nowhere = tiny.make(nodes, [((0, 1), [10**18] * 4)], limit=500)
    assert cost(nowhere, run(greedy, nowhere).solutions[-1]) == 10**18 + 2
    elsewhere = tiny.make(nodes, [((0, 1), [10**18, 3, 3, 10**18])], limit=100)  # what fits, both at 50, is impossible
    assert cost(elsewhere, run(greedy, elsewhere).solutions[-1]) == 10**18 + 10


def test_greedy_repeats_itself(tiny):
    instance = tiny.draw(np.random.default_rng(5), nodes=9)
    assert run(greedy, instance, seed=1).solutions == run(greedy, instance, seed=2).solutions


@pytest.mark.gate
@SOLVERS
@pytest.mark.thorough(cases=3)
@pytest.mark.parametrize("cores", [1, 3])
def test_a_run_ends_soon_after_its_time(tiny, solver, cores):
    instance = tiny.layered(1500)
    began = time.monotonic()
    trial = run(solver, instance, seconds=1.0, cores=cores)
    assert time.monotonic() - began < 20
    assert trial.solutions


@pytest.mark.gate
def test_cfn_penalty_is_better_than_greedy_and_that_than_random(tiny, monkeypatch):
    monkeypatch.setattr(adaptive_penalty, "PATIENCE", 1)
    instance = tiny.layered(80, seed=1)
    costs = [cost(instance, run(solver, instance).solutions[-1]) for solver in (cfn_penalty, greedy)]
    sampled = verify(instance, run(random, instance).solutions[-1])
    assert costs[0] < costs[1]
    assert not sampled.feasible or costs[1] < sampled.cost


def test_prices_of_memory_help_greedy(tiny, monkeypatch):
    instance = tiny.layered(300, seed=1)
    with_prices = cost(instance, run(greedy, instance).solutions[-1])
    monkeypatch.setattr(priced_greedy, "PRICES", ())
    assert with_prices < cost(instance, run(greedy, instance).solutions[-1])


def test_the_example_of_the_contest(mirror):
    instance = load(mirror / "google/iopddl/example.json")
    assert run(cfn_relaxed, instance).bounds[-1] <= 445


@pytest.mark.parametrize(("name", "optimum"), [("B", 532843), ("G", 217039)])
def test_contest_instances_that_the_relaxation_solves(mirror, name, optimum):
    instance = load(mirror / BENCHMARKS.format(name))
    relaxed = run(cfn_relaxed, instance)
    assert relaxed.bounds[-1] == optimum
    assert cost(instance, relaxed.solutions[-1]) == optimum


def test_greedy_on_a_large_contest_instance(mirror):
    instance = load(mirror / BENCHMARKS.format("A"))
    found = given_time(
        lambda seconds: run(greedy, instance, seconds=seconds), lambda found: _good(instance, found), 6.0
    )
    assert _good(instance, found)


def _good(instance, found):
    return 6548554000 <= cost(instance, found.solutions[-1]) < 7e9


@pytest.mark.gate
@pytest.mark.parametrize(("nodes", "choices"), [(14, 6), (20, 8)])
def test_a_bound_cut_short_is_below_every_solution(tiny, nodes, choices):
    rng = np.random.default_rng(0)
    pairs = [((i, j), rng.integers(0, 1000, choices**2).tolist()) for i in range(nodes) for j in range(i)]
    rows = [
        (0, 5, rng.integers(0, 1000, choices).tolist(), rng.integers(0, 1000, choices).tolist()) for _ in range(nodes)
    ]
    instance = tiny.make(rows, pairs, limit=10**6)
    known = cost(instance, run(greedy, instance).solutions[-1])
    for seconds in (0.5, 1.0):
        assert max(run(cfn_relaxed, instance, seconds=seconds).bounds) <= known


def test_memory_beyond_64_bits_rules_nothing_out(tiny):
    half = 2**61
    rows = [(0, 1, [0, 9], [half + 1, 0])] * 2
    instance = tiny.make(rows, [], limit=2 * half + 2)
    assert max(run(cfn_relaxed, instance).bounds) == 0
