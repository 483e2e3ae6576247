"""The contest winner's method and its ablations: against brute force, where nothing is possible, when children fail."""

from __future__ import annotations

import os
import time

import numpy as np
import pytest
from effort import some_of
from patience import given_time

from shardmark.harness.verify import verify
from shardmark.instances import load
from shardmark.solvers import registry
from shardmark.solvers.intraop.cfn import adaptive_penalty
from shardmark.solvers.intraop.cfn_penalty import cfn_penalty, cfn_penalty_global, cfn_penalty_nopost
from shardmark.solvers.intraop.network.memory import Timeline
from shardmark.solvers.intraop.network.model import build
from shardmark.solvers.intraop.network.reduction import reduce
from shardmark.solvers.intraop.programs.child_processes import TOLERATED, Workers
from shardmark.solvers.registry import Declined, LocalRun

pytestmark = pytest.mark.gate(cases=1)

IMPOSSIBLE = 10**18
ALL = pytest.mark.parametrize("solver", [cfn_penalty, cfn_penalty_global, cfn_penalty_nopost])


@pytest.fixture
def brief(monkeypatch):
    """Runs that lose patience soon."""
    monkeypatch.setattr(adaptive_penalty, "PATIENCE", 3)


def run(instance, solver=cfn_penalty, *, seconds=60.0, slice_s=12.0, **limits):
    trial = LocalRun(timeout=seconds, **limits)
    solver(instance, trial, slice_s=slice_s)
    return trial


def declined(instance, solver=cfn_penalty):
    """Why, and the last solution reported before."""
    trial = LocalRun(timeout=60.0)
    with pytest.raises(Declined) as reason:
        solver(instance, trial)
    return str(reason.value), trial.solutions[-1]


# ---------------------------------------------------------------- what it finds


@ALL
def test_solutions_fit_whenever_any_does_and_are_never_better_than_the_best(tiny, brief, solver):
    optimal = 0
    for seed in range(some_of(6)):
        instance = tiny.draw(np.random.default_rng(1000 + seed), impossible=0.05)
        best = tiny.best(instance)
        trial = LocalRun(timeout=60.0)
        try:
            solver(instance, trial)
        except Declined:
            assert best[0] > 0 or best[1] >= 10**17
            continue
        found = [tiny.value(instance, solution) for solution in trial.solutions]
        assert found == sorted(set(found), reverse=True)
        assert best[0] == 0
        assert found[-1] >= best
        assert found[-1][0] == 0
        optimal += found[-1] == best
    assert optimal >= some_of(3)  # a weight does not lead to all that fits


@ALL
def test_without_need_of_memory_one_network_is_solved_and_optimal(tiny, solver, monkeypatch):
    launched = []
    launch = Workers.launch
    monkeypatch.setattr(Workers, "launch", lambda *given: (launched.append(given[1]), launch(*given)))
    rng = np.random.default_rng(0)
    for _ in range(some_of(4)):
        nodes = [(t, t + 2, rng.integers(0, 20, 3).tolist(), rng.integers(0, 9, 3).tolist()) for t in range(5)]
        edges = [((t, t + 1), rng.integers(0, 20, 9).tolist()) for t in range(4)]
        instance = tiny.make(nodes, edges, limit=18)
        assert tiny.value(instance, run(instance, solver).solutions[-1]) == tiny.best(instance)
    assert launched == [0] * some_of(4)


@pytest.mark.gate
def test_memory_gets_dear_where_it_binds_and_only_there(tiny, brief):
    cheap, dear = [(0, 1, [0, 5], [9, 1])] * 4, [(5, 6, [0, 500], [9, 1])] * 4
    instance = tiny.make([*cheap, *dear], limit=20)
    assert tiny.value(instance, run(instance).solutions[-1]) == tiny.best(instance) == (0, 2 * 5 + 2 * 500)


@pytest.mark.gate
def test_costs_repeat_for_a_seed_whatever_the_number_of_cores(tiny, brief):
    instance = tiny.layered(12)
    costs = [verify(instance, run(instance, cores=cores, seed=3).solutions[-1]).cost for cores in (1, 2)]
    assert len(set(costs)) == 1


@pytest.mark.gate
def test_little_memory_means_fewer_children(tiny, brief):
    instance = tiny.layered(12)
    assert verify(instance, run(instance, cores=4, memory=1.0).solutions[-1]).feasible


def test_post_processing_only_improves(tiny):
    instance = tiny.layered(60)
    timeline = Timeline.of(instance)
    every = build(instance, np.zeros(len(instance.usage), dtype=bool))
    weight = np.full(instance.nodes, 100.0)
    costs = []
    for network in (None, every):
        relaxation = adaptive_penalty._Relaxation(instance, timeline, reduce(every), network)
        end = time.monotonic() + 30
        with Workers() as workers:
            workers.launch(None, lambda: relaxation.minimise(relaxation.penalty(weight), 30.0, end, end), 30.0)  # noqa: B023
            [(_, answer)] = workers.collect(end)
        verdict = verify(instance, answer[1:].tolist())
        assert verdict.feasible
        costs.append(verdict.cost)
    assert costs[1] < costs[0]


@pytest.mark.gate
def test_a_network_that_has_no_solution_in_its_slice_gets_more_time(tiny, monkeypatch):
    monkeypatch.setattr(adaptive_penalty, "LONGER_AFTER_NOTHING", 0.6)
    rng = np.random.default_rng(0)
    place = np.arange(900).reshape(30, 30)
    pairs = [*zip(place[:, :-1].ravel(), place[:, 1:].ravel(), strict=True)]
    pairs += [*zip(place[:-1].ravel(), place[1:].ravel(), strict=True)]
    edges = [((int(a), int(b)), rng.integers(0, 1000, 64).tolist()) for a, b in pairs]
    instance = tiny.make([(0, 1, [1000] * 8, [0] * 8)] * 900, edges)

    def within(seconds):
        return run(instance, seconds=seconds, slice_s=0.01).solutions

    frugal, *better = given_time(within, lambda solutions: len(solutions) > 1, 2.5)
    assert verify(instance, better[0]).cost < verify(instance, frugal).cost


# ---------------------------------------------------------------- where nothing is possible


@ALL
def test_a_slice_of_no_time_is_declined(tiny, solver):
    with pytest.raises(Declined, match="slice_s: expected a number above 0, found -1"):
        solver(tiny.draw(np.random.default_rng(0)), LocalRun(), slice_s=-1.0)


@ALL
def test_a_lack_of_memory_is_told_with_its_time_step(tiny, solver):
    instance = tiny.make([(0, 2, [1, 2], [70, 60]), (1, 3, [1, 2], [80, 50])], [((0, 1), [1, 2, 3, 4])], limit=100)
    reason, last = declined(instance, solver)
    assert reason.startswith("time step 1: expected a limit of 110 or more")
    assert last == [1, 1]


@ALL
def test_edges_that_contradict_each_other_are_told(tiny, solver):
    same, other = [0, IMPOSSIBLE, IMPOSSIBLE, 0], [IMPOSSIBLE, 0, 0, IMPOSSIBLE]
    edges = [((0, 1), same), ((1, 2), same), ((0, 2), other)]
    reason, last = declined(tiny.make([(0, 1, [0, 0], [0, 0])] * 3, edges), solver)
    assert reason.startswith("edges.costs[2]: expected a combination of strategies")
    assert len(last) == 3


def test_contradictions_that_only_a_search_finds_are_told(tiny):
    different = np.where(np.eye(3, dtype=bool), IMPOSSIBLE, 0).ravel().tolist()
    edges = [((a, b), different) for a in range(4) for b in range(a)]  # four colours among three
    reason, _ = declined(tiny.make([(0, 1, [0] * 3, [0] * 3)] * 4, edges))
    assert "10^17 or more" in reason


def test_what_fits_only_with_an_infinite_entry_is_what_is_reported(tiny, brief):
    nodes = [(0, 2, [1, 5], [60, 50])] * 2
    instance = tiny.make(nodes, [((0, 1), [IMPOSSIBLE, 3, 3, IMPOSSIBLE])], limit=100)
    assert tiny.value(instance, run(instance).solutions[-1]) == (0, IMPOSSIBLE + 10)


# ---------------------------------------------------------------- children


def failing(monkeypatch, fails):
    """Let children fail whose number, in the order of their start, ``fails`` says so."""
    launch, count = Workers.launch, iter(range(10**6))

    def instead(self, tag, job, seconds):
        launch(self, tag, (lambda: os._exit(7)) if fails(next(count)) else job, seconds)

    monkeypatch.setattr(Workers, "launch", instead)


@pytest.mark.gate
def test_children_that_fail_now_and_then_cost_their_level_and_no_more(tiny, brief, monkeypatch):
    instance = tiny.layered(20)
    failing(monkeypatch, lambda number: number % 3 == 1)
    trial = run(instance, cores=2)
    frugal, *better = trial.solutions
    assert verify(instance, better[-1]).feasible
    assert verify(instance, better[-1]).cost < verify(instance, frugal).cost


def test_children_that_all_fail_are_an_error(tiny, monkeypatch):
    failing(monkeypatch, lambda number: True)
    with pytest.raises(RuntimeError, match=f"{TOLERATED + 1} children in a row failed, the last with exit status 7"):
        run(tiny.layered(20))


# ---------------------------------------------------------------- parameters, and the contest


def test_the_slice_is_a_parameter_that_a_file_of_ones_own_can_set(tmp_path):
    [known] = [solver for solver in registry._declared if solver.name == "cfn-penalty"]
    assert known.params == {"slice_s": 12.0}
    file = tmp_path / "mine.py"
    file.write_text(
        "from shardmark.solvers.intraop.cfn_penalty import cfn_penalty\n"
        "from shardmark.solvers.registry import solver\n\n\n"
        "@solver(track='intraop', variants={'cfn-penalty-30s': {'slice_s': 30.0}})\n"
        "def longer(instance, run, slice_s):\n"
        "    cfn_penalty(instance, run, slice_s=slice_s)\n"
    )
    [mine] = registry.load_file(file)
    assert (mine.name, mine.params) == ("cfn-penalty-30s", {"slice_s": 30.0})


def test_the_example_of_the_contest(mirror, brief):
    instance = load(mirror / "google/iopddl/example.json")
    assert verify(instance, run(instance).solutions[-1]).cost == 445


def test_a_contest_instance_comes_to_the_published_cost(mirror, brief):
    instance = load(mirror / "google/iopddl/benchmarks/asplos-2025-iopddl-G.json.gz")
    assert verify(instance, run(instance, cores=2).solutions[-1]).cost == 217039
