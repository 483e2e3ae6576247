"""The searches over orders: what they report, what they may spend, and that the same seed gives the same."""

from __future__ import annotations

import itertools
import time
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from shardmark.harness.verify import verify
from shardmark.instances.pipeline import Instance
from shardmark.solvers.pipeline._kernels import PipelineCore
from shardmark.solvers.pipeline.search import genetic
from shardmark.solvers.pipeline.search.genetic import breed, evolve
from shardmark.solvers.pipeline.search.orders import Search
from shardmark.solvers.registry import LocalRun, load

pytestmark = pytest.mark.gate(cases=4)

#: Vectors to decode; a fifth of a generation is kept from the one before.
EVALUATIONS = {
    "random-1": 1,
    "random-100": 100,
    "random-10000": 10000,
    "brkga-100": 10 + 9 * 8,
    "brkga-10000": 100 + 99 * 80,
    "mla": 100 + 99 * 80,
    "mla-weighted": 100 + 99 * 80,
}


SOLVERS = {
    solver.name: solver
    for name in ("random", "brkga", "mla")
    for solver in load(f"package:shardmark.solvers.pipeline.{name}")
}


def solve(name: str, instance: Instance, **limits: Any) -> LocalRun:
    run = LocalRun(**{"timeout": 60.0, **limits})
    SOLVERS[name].function(instance, run, **SOLVERS[name].params)
    return run


@pytest.fixture(scope="module", params=[False, True], ids=["unlimited", "memory"])
def instance(oracle: SimpleNamespace, request: pytest.FixtureRequest) -> Instance:
    drawn: Instance = oracle.draw(np.random.default_rng(7), 40, 4, density=0.06, limited=request.param)
    return drawn


def test_the_files_declare_the_solvers_of_the_paper() -> None:
    assert sorted(SOLVERS) == sorted(EVALUATIONS)


@pytest.mark.parametrize("name", EVALUATIONS)
def test_reports_only_better_solutions_and_they_are_feasible(name: str, instance: Instance) -> None:
    verdicts = [verify(instance, solution) for solution in solve(name, instance).solutions]
    assert all(verdict.feasible for verdict in verdicts)
    costs = [verdict.cost for verdict in verdicts]
    assert costs
    assert all(later < earlier for earlier, later in pairwise(costs))


@pytest.mark.thorough(cases=4)
@pytest.mark.parametrize("name", EVALUATIONS)
def test_the_same_seed_gives_the_same_solutions_on_any_number_of_cores(name: str, instance: Instance) -> None:
    found = solve(name, instance, seed=3, cores=1).solutions
    assert found == solve(name, instance, seed=3, cores=3).solutions
    assert found != solve(name, instance, seed=4).solutions


@pytest.mark.parametrize("name", EVALUATIONS)
def test_decodes_as_many_vectors_as_its_name_says(
    name: str, instance: Instance, monkeypatch: pytest.MonkeyPatch
) -> None:
    decoded = []

    def counted(function: Any) -> Any:
        def call(search: Search, priorities: Any, *arguments: Any, **options: Any) -> Any:
            decoded.append(len(priorities))
            return function(search, priorities, *arguments, **options)

        return call

    for kernel in ("decode", "arrange"):
        monkeypatch.setattr(Search, kernel, counted(getattr(Search, kernel)))
    solve(name, instance)
    assert sum(decoded) == EVALUATIONS[name]


@pytest.mark.parametrize("name", EVALUATIONS)
def test_stops_by_the_deadline(name: str, instance: Instance, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a clock that goes on by a second whenever somebody looks at it."""
    ticks = itertools.count()
    monkeypatch.setattr(time, "monotonic", lambda: float(next(ticks)))
    run = solve(name, instance, timeout=40.0)
    assert run.solutions
    assert time.monotonic() <= run.deadline


def test_stops_when_nothing_better_exists(oracle: SimpleNamespace) -> None:
    free = oracle.make([], [1] * 8, [0] * 8, [0] * 8, 4)
    search = Search(free, LocalRun(timeout=60))
    search.decode(np.random.default_rng(0).random((1, 8)), np.inf)
    assert search.cost == 2.0
    assert search.over()


def test_leaving_costs_above_the_elite_open_changes_nothing(
    instance: Instance, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same algorithm with every cost computed to the end comes to the same solution."""

    def evolved() -> list[Any]:
        run = LocalRun(seed=5, timeout=60)
        evolve(Search(instance, run), run.rng, population=20, generations=30)
        return run.solutions

    short = evolved()
    monkeypatch.setattr(genetic, "_costs", lambda search, keys, *others: search.decode(keys, np.inf))
    assert len(short) > 1
    assert evolved()[-1] == short[-1]


def test_arrangements_get_shorter_than_at_random(oracle: SimpleNamespace) -> None:
    graph = oracle.draw(np.random.default_rng(8), 40, 4, density=0.06)
    for weighted in (False, True):
        search = Search(graph, LocalRun(timeout=60))

        def fitness(rows: Any, search: Search = search, weighted: bool = weighted) -> Any:
            return search.arrange(rows, weighted=weighted)

        rng = np.random.default_rng(1)
        random = fitness(rng.random((2000, 40))).min()
        assert fitness(evolve(search, rng, 50, 40, fitness)[None, :])[0] < random


def test_one_order_is_sliced_for_an_arrangement(instance: Instance) -> None:
    assert len(solve("mla", instance).solutions) == 1


def test_children_take_most_keys_from_their_elite_parent(oracle: SimpleNamespace) -> None:
    search = Search(oracle.make([], [0] * 500, [0] * 500, [0] * 500, 4), LocalRun(timeout=60))
    search.rows = 7
    keys, then = np.repeat(np.linspace(0, 1, 60)[:, None], 500, axis=1), np.empty((60, 500))
    best = np.array([40, 3])
    assert breed(search, np.random.default_rng(6), keys, then, best, mutants=18)
    elite, mutants, children = then[:2], then[2:20], then[20:]
    assert np.array_equal(elite, keys[best])
    assert np.isin(children, keys[best, 0]).mean() == pytest.approx(0.7, abs=0.02)
    assert {len(set(child.tolist())) for child in children} == {2}  # two parents each
    assert len(set(children.flat)) > 20
    assert np.isin(children, keys[:, 0]).all()
    assert len(set(mutants.flat)) == mutants.size


def test_the_referee_agrees_on_the_cost_where_the_order_matters(oracle: SimpleNamespace) -> None:
    rng = np.random.default_rng(9)
    order_mattered = 0
    for _ in range(30):
        limited = oracle.draw(rng, 15, 3, density=0.2, limited=True)
        run = LocalRun(timeout=60)
        search = Search(limited, run)
        search.decode(rng.random((20, limited.nodes)), np.inf)
        assert verify(limited, run.solutions[-1]).cost == pytest.approx(search.cost, rel=1e-9)
        order_mattered += verify(limited, run.solutions[-1]["block"]).cost > search.cost * (1 + 1e-9)
    assert order_mattered


def test_evolving_beats_drawing_at_random(oracle: SimpleNamespace) -> None:
    wins = 0
    for seed in range(5):
        graph = oracle.draw(np.random.default_rng(seed), 60, 6, density=0.04)
        best = [verify(graph, solve(name, graph).solutions[-1]).cost for name in ("brkga-10000", "random-100")]
        wins += best[0] < best[1]
    assert wins >= 4


@pytest.mark.parametrize("name", EVALUATIONS)
@pytest.mark.parametrize(("nodes", "stages"), [(0, 3), (1, 1), (1, 5), (3, 1)])
def test_degenerate_instances(name: str, nodes: int, stages: int, oracle: SimpleNamespace) -> None:
    tiny = oracle.make([], [2] * nodes, [1] * nodes, [1] * nodes, stages, memory=1.0)
    verdict = verify(tiny, solve(name, tiny).solutions[-1])
    assert verdict.feasible
    assert verdict.cost == {0: 0.0, 1: 3.0, 3: 9.0}[nodes]  # parameters, a tensor in use, one unit of memory


@pytest.fixture
def large(oracle: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> Instance:
    """A graph that counts as large."""
    monkeypatch.setattr("shardmark.solvers.pipeline.search.orders.BATCH", 100)
    drawn: Instance = oracle.draw(np.random.default_rng(11), 300, 4, density=0.02)
    return drawn


def test_a_large_graph_is_cut_evenly_first(large: Instance) -> None:
    run = LocalRun(timeout=60)
    search = Search(large, run)
    search.decode(np.random.default_rng(0).random((1, 300)), np.inf)
    work = np.bincount(run.solutions[0], weights=large.work, minlength=4)
    assert work.max() <= work.sum() / 4 + large.work.max()
    assert len(run.solutions) == 2
    assert search.cost == pytest.approx(verify(large, run.solutions[1]).cost, rel=1e-9)


@pytest.mark.parametrize("name", ["random-100", "brkga-100", "mla"])
def test_without_time_to_slice_well_the_even_cuts_count(
    name: str, large: Instance, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Search, "_left", lambda search: 0.0)
    run = solve(name, large)
    assert run.solutions
    assert all(verify(large, solution).feasible for solution in run.solutions)


@pytest.mark.gate
def test_a_rehearsal_is_of_what_will_be_done(large: Instance, monkeypatch: pytest.MonkeyPatch) -> None:
    """To improve on a cost takes longer than to slice somehow."""
    limits = []
    slice_order = PipelineCore.slice

    def note(core: PipelineCore, order: Any, upper: float = np.inf) -> Any:
        limits.append(upper)
        return slice_order(core, order, upper)

    monkeypatch.setattr(PipelineCore, "slice", note)
    solve("mla", large)
    even, rehearsed, offered = limits
    assert even == np.inf
    assert rehearsed == offered < np.inf


def test_a_stopped_core_says_what_it_knows(large: Instance) -> None:
    search = Search(large, LocalRun(timeout=60))
    order, rows = large.graph.topological_order, np.random.default_rng(0).random((3, 300))
    best = search.core.slice(order)
    search.core.stop[0] = 1
    even = search.core.slice(order)
    assert best is not None
    assert even is not None
    assert best.cost < even.cost
    assert search.core.slice(order, even.cost) is None
    assert search.core.decode(rows).tolist() == search.core.arrange(rows, weighted=True).tolist() == [np.inf] * 3


@pytest.mark.parametrize("seconds", [30, 130])
@pytest.mark.parametrize("name", ["brkga-10000", "mla"])
def test_populations_grow_and_are_judged_only_while_there_is_time(
    name: str, seconds: int, large: Instance, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a clock by which a row of keys takes a quarter of a second, and an order a whole one."""
    clock = [0.0]

    def slow(function: Any) -> Any:
        def call(core: PipelineCore, rows: Any, *arguments: Any, **options: Any) -> Any:
            clock[0] += len(np.atleast_2d(rows))
            return function(core, rows, *arguments, **options)

        return call

    class Slow:
        """A generator of random numbers that takes its time."""

        def __init__(self) -> None:
            self.rng = np.random.default_rng(0)
            self.integers = self.rng.integers

        def random(self, shape: Any = None, out: Any = None) -> Any:
            clock[0] += 0.25 * (len(out) if shape is None else shape[0])
            return self.rng.random(shape, out=out)

    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    for kernel in ("slice", "decode", "arrange"):
        monkeypatch.setattr(PipelineCore, kernel, slow(getattr(PipelineCore, kernel)))
    run = LocalRun(timeout=float(seconds))
    run.__dict__["rng"] = Slow()
    SOLVERS[name].function(large, run, **SOLVERS[name].params)
    assert 0.9 * seconds - 5 < clock[0] <= run.deadline
    assert len(run.solutions) > 1


def test_a_population_that_does_not_fit_is_told(large: Instance, capsys: pytest.CaptureFixture[str]) -> None:
    run = solve("brkga-10000", large, memory=0.5)
    assert len(run.solutions) == 2  # even cuts, one order
    assert "0.5 MiB for a population do not fit into 0.2 MiB: one order only" in capsys.readouterr().err
