"""The integer program of a model: its rows say what the model says, and any dual values prove a bound."""

from __future__ import annotations

import time
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from effort import some_of

from shardmark.solvers.intraop.bounds import lp as lp_module
from shardmark.solvers.intraop.bounds.lp import lp
from shardmark.solvers.intraop.bounds.toulbar2 import toulbar2
from shardmark.solvers.intraop.cfn.exact import MemoryRowSearch
from shardmark.solvers.intraop.greedy import greedy
from shardmark.solvers.intraop.ilp_cpsat import ilp_cpsat
from shardmark.solvers.intraop.ilp_scip import ilp_scip
from shardmark.solvers.intraop.network.memory import Timeline
from shardmark.solvers.intraop.network.model import build
from shardmark.solvers.intraop.network.reduced_problem import Problem
from shardmark.solvers.intraop.programs import baseline
from shardmark.solvers.intraop.programs.baseline import prove, solve
from shardmark.solvers.intraop.programs.cpsat_search import confirmed
from shardmark.solvers.intraop.programs.dual_bound import improved_bound, price, proved
from shardmark.solvers.intraop.programs.floating_point import FloatProgram
from shardmark.solvers.intraop.programs.integer_program import IntegerProgram
from shardmark.solvers.intraop.programs.memory_rows import memory_of_all_steps, memory_of_steps
from shardmark.solvers.intraop.toulbar2_exact import toulbar2_exact
from shardmark.solvers.registry import LocalRun

pytestmark = pytest.mark.gate(cases=2)

PROGRAMS = (ilp_cpsat, ilp_scip)


def whole(instance):
    """The problem of an instance, not reduced."""
    timeline = Timeline.of(instance)
    return Problem(instance, timeline, build(instance, np.zeros(len(timeline.usage), dtype=bool)))


def crowded(tiny, seed):
    """Many nodes over many steps, so that sums of memory are worth their columns; half of all assignments fit."""
    rng = np.random.default_rng(seed)
    begin = rng.integers(0, 40, 60)
    rows = [(int(b), int(b + rng.integers(0, 40)), [0, 1, 2], (8 * rng.integers(0, 9, 3)).tolist()) for b in begin]
    instance = tiny.make(rows)
    peaks = [instance.peak(instance.usage.reshape(-1, 3)[np.arange(60), rng.integers(0, 3, 60)]) for _ in range(21)]
    return tiny.make(rows, limit=int(np.median(peaks)))


def row_sums(start, column, value, columns):
    """Return the values of the rows."""
    row = np.repeat(np.arange(len(start) - 1), np.diff(start))
    return np.bincount(row, weights=value * columns[column], minlength=len(start) - 1)


@pytest.mark.parametrize("seed", range(6))
def test_sums_of_memory_say_what_every_step_says(tiny, seed):
    problem = whole(crowded(tiny, seed))
    program, rng = IntegerProgram.of(problem), np.random.default_rng(seed)
    assert len(program.memory.most)
    assert program.memory.unit % 8 == 0
    outcomes = set()
    for _ in range(200):
        value = rng.integers(problem.model.sizes)
        columns = program.columns(value)
        assert (columns[program.first_sum :] <= program.memory.most).all()
        sums = row_sums(program.memory.start, program.memory.column, program.memory.use, columns)
        fits = bool((problem.overload(value) <= 0).all())
        assert fits == bool((sums <= program.memory.room).all())
        outcomes.add(fits)
    assert outcomes == {False, True}


def test_sums_make_rows_shorter(tiny):
    problem = whole(crowded(tiny, 0))
    short, long = memory_of_all_steps(problem, 10**6), memory_of_steps(problem, range(problem.timeline.steps))
    assert len(short.use) < 0.7 * len(long.use)


@pytest.mark.thorough(cases=7)
@pytest.mark.parametrize("seed", range(20))
def test_columns_of_assignments_keep_the_rows_and_cost_the_same(tiny, seed):
    rng = np.random.default_rng(seed)
    problem = whole(tiny.draw(rng, nodes=6, arity=4, impossible=0.02))
    model, program = problem.model, IntegerProgram.of(problem)
    floats = FloatProgram(program, model.forbidden)
    start, column, entry, low, high = floats.rows
    seen = 0
    for value in map(np.array, np.ndindex(*model.sizes)):
        cost = model.cost(value)
        if cost < model.forbidden:
            seen += 1
            assert int((program.cost * program.columns(value)).sum()) == cost
            assert (program.values(program.columns(value)) == value).all()
            sums = row_sums(start, column, entry, floats.columns(value))
            keeps = bool(((low - 1e-9 <= sums) & (sums <= high + 1e-9)).all())
            assert keeps == bool((problem.overload(value) <= 0).all())
    assert seen


@pytest.mark.parametrize("arity", [2, 3])
@pytest.mark.parametrize("size", [0.0, 1.0, 1e12, np.inf, np.nan])
def test_any_dual_values_prove_a_bound(tiny, arity, size):
    """Messages passed on from them as well."""
    usual = 0
    for seed in range(some_of(30)):
        rng = np.random.default_rng(seed)
        instance = tiny.draw(rng, arity=arity, impossible=0.1)
        problem, best = whole(instance), tiny.best(instance)
        program = IntegerProgram.of(problem, range(problem.timeline.steps))
        floats = FloatProgram(program, problem.model.forbidden)
        dual = rng.normal(size=len(floats.rows[3])) * size
        if best[0] or not np.diff(program.tables.start).all():
            continue
        usual += 1
        assert proved(floats, dual) <= best[1]
        if arity == 2:
            assert improved_bound(floats, dual, time.monotonic() + 10) <= best[1]
    assert usual > some_of(15)


def test_messages_of_huge_costs_prove_nothing(tiny):
    problem = whole(tiny.make([(0, 1, [9 * 10**16, 9 * 10**16 + 1], [0, 0])]))
    floats = FloatProgram(IntegerProgram.of(problem, []), problem.model.forbidden)
    assert improved_bound(floats, np.zeros(len(floats.rows[3])), time.monotonic() + 10) == 0


def test_messages_passed_on_prove_more(tiny):
    gains = 0
    for seed in range(30):
        instance = tiny.draw(np.random.default_rng(seed), arity=2, impossible=0.0)
        floats = FloatProgram(IntegerProgram.of(whole(instance), []), 10**3)
        nothing = np.zeros(len(floats.rows[3]))
        before, after = proved(floats, nothing), improved_bound(floats, nothing, time.monotonic() + 10)
        assert before <= after
        gains += before < after
    assert gains > 5


def test_dual_values_of_nothing_prove_the_cheapest_parts(tiny):
    instance = tiny.make([(0, 1, [3, 5], [0, 0]), (0, 1, [7, 4], [0, 0])], [((0, 1), [9, 2, 6, 8])])
    floats = FloatProgram(IntegerProgram.of(whole(instance), []), 100)
    assert proved(floats, np.zeros(len(floats.rows[3]))) == instance.cheapest_parts()


def test_a_price_is_never_more_than_the_room_is_worth(tiny):
    problem = whole(crowded(tiny, 3))
    rows, rng = memory_of_steps(problem, range(problem.timeline.steps)), np.random.default_rng(0)
    for scale in (1e-9, 1.0, 1e9):
        of_value, worth = price(rows, scale * rng.random(len(rows.room)), len(problem.variable))
        for _ in range(200):
            value = rng.integers(problem.model.sizes)
            if (problem.overload(value) <= 0).all():
                assert of_value[problem.model.start[:-1] + value].sum() <= worth


def alike(tiny, seed):
    """Nodes whose strategies all cost about 2^52, so that totals differ by less than doubles can tell."""
    rng = np.random.default_rng(seed)
    rows = [(0, 1, (2**52 + rng.integers(0, 99, 3)).tolist(), rng.integers(0, 9, 3).tolist()) for _ in range(5)]
    pairs = [(rng.choice(5, 2, replace=False).tolist(), rng.integers(0, 60, 9).tolist()) for _ in range(10)]
    return tiny.make(rows, pairs, limit=20)


@pytest.mark.parametrize("seed", [25, 61, 65, 74])
def test_bounds_of_cp_sat_are_proved_where_doubles_are_not_exact(tiny, seed):
    instance = alike(tiny, seed)
    excess, best = tiny.fast_best(instance)
    trial, problem = LocalRun(timeout=30.0), whole(instance)
    ilp_cpsat(instance, trial)
    assert best - 2**12 < trial.bounds[-1] <= best
    search, until = MemoryRowSearch(problem, []), time.monotonic() + 30
    found = search.solve(problem.model.forbidden, until, seed=0, found=len)
    assert not excess
    assert best - 2**12 < found.bound << problem.model.shift <= best


@pytest.mark.parametrize("seed", range(5))
def test_cp_sat_proves_the_optimum_however_much_all_columns_cost_together(tiny, seed):
    rng = np.random.default_rng(seed)
    rows = [(0, 1, rng.integers(0, 2**47, 6).tolist(), rng.integers(0, 9, 6).tolist()) for _ in range(4)]
    pairs = [(rng.choice(4, 2, replace=False).tolist(), rng.integers(0, 2**47, 36).tolist()) for _ in range(8)]
    instance = tiny.make(rows, pairs, limit=16)
    trial = LocalRun(timeout=30.0)
    ilp_cpsat(instance, trial)
    assert tiny.value(instance, trial.solutions[-1]) == tiny.fast_best(instance) == (0, trial.bounds[-1])


@pytest.mark.parametrize("solver", PROGRAMS)
def test_a_program_too_large_for_the_memory_leaves_the_first_solution(tiny, capfd, solver):
    trial = LocalRun(timeout=30.0, memory=0.001)
    instance = crowded(tiny, 0)
    solver(instance, trial)
    assert "does not fit into 0 MiB" in capfd.readouterr().err
    assert tiny.value(instance, trial.solutions[-1])[0] == 0
    assert trial.bounds == [instance.cheapest_parts()]


def test_a_relaxation_without_an_answer_is_bounded_by_messages(tiny, monkeypatch):
    monkeypatch.setattr(lp_module, "minimise", lambda *_, **__: None)
    instance, trial = tiny.layered(60), LocalRun(timeout=20.0)
    lp(instance, trial)
    assert instance.cheapest_parts() == trial.bounds[0] < trial.bounds[-1]


def test_exact_methods_begin_with_the_best_of_greedy(tiny):
    instance, trial, tasks = tiny.layered(300, seed=1), LocalRun(timeout=3600.0), []
    solve(instance, trial, lambda task: tasks.append(task) is None, reduced=False)
    alone = LocalRun(timeout=3600.0)
    greedy(instance, alone)
    assert trial.solutions == alone.solutions
    (task,) = tasks
    assert task.start.tolist() == trial.solutions[-1]
    assert task.top == tiny.value(instance, trial.solutions[-1])[1]


@pytest.mark.parametrize("frame", [partial(solve, reduced=False), partial(solve, reduced=True), prove])
def test_an_engine_that_finds_nothing_is_not_believed_if_something_is_known(tiny, frame):
    trial, tasks = LocalRun(timeout=60.0), []
    frame(tiny.layered(60), trial, lambda task: tasks.append(task) is not None)
    (task,) = tasks
    assert task.start is not None
    assert trial.bounds[-1] < 10**17


@pytest.mark.parametrize("frame", [partial(solve, reduced=False), partial(solve, reduced=True), prove])
def test_an_engine_that_finds_nothing_is_not_believed_if_cp_sat_finds_something(tiny, monkeypatch, frame):
    monkeypatch.setattr(baseline, "_fits", lambda *_: False)  # as if no assignment were known
    rng = np.random.default_rng(3)
    while (best := tiny.best(instance := tiny.draw(rng, nodes=6, arity=2)))[0] or best[1] >= 10**17:
        pass
    trial = LocalRun(timeout=60.0)
    frame(instance, trial, confirmed(lambda task: False))
    assert trial.bounds[-1] <= best[1]
    assert frame is prove or tiny.value(instance, trial.solutions[-1]) == best


@pytest.mark.parametrize("ended", ["INFEASIBLE_OR_UNBOUNDED", ""])
@pytest.mark.parametrize("proof", [False, True])
def test_an_early_end_without_a_proof_is_explained(tiny, capfd, ended, proof):
    instance, trial = tiny.layered(60), LocalRun(timeout=60.0)

    def engine(task):
        task.prove(task.top if proof else task.top - 1)
        task.ended = ended
        return True

    solve(instance, trial, engine, reduced=False)
    log = capfd.readouterr().err
    assert bool(log) == (not proof and bool(ended))
    assert not log or log.endswith(f" s early without a proof, the engine's word for it: {ended}\n")


@pytest.mark.parametrize("reduced", [False, True])
def test_an_engine_is_to_end_while_there_is_time_to_bury_it(tiny, reduced):
    trial, ends = LocalRun(timeout=2.0), []
    solve(crowded(tiny, 0), trial, lambda task: ends.append(task.until) is None, reduced=reduced)
    assert len(ends) == 1
    assert trial.deadline - 1.5 < ends[0] < trial.deadline - 0.5


@pytest.mark.gate
@pytest.mark.thorough(cases=2)
@pytest.mark.parametrize("solver", [*PROGRAMS, toulbar2_exact, lp, toulbar2])
def test_a_run_ends_soon_after_its_time(tiny, solver):
    rng = np.random.default_rng(0)
    rows = [(v, v + 20, rng.integers(0, 999, 8).tolist(), rng.integers(0, 99, 8).tolist()) for v in range(400)]
    pairs = [((v, v + skip), rng.integers(0, 999, 64).tolist()) for v in range(380) for skip in (1, 3, 11)]
    instance = tiny.make(rows, pairs, limit=600)
    trial, began = LocalRun(timeout=1.5, cores=2), time.monotonic()
    solver(instance, trial)
    assert time.monotonic() - began < 20
    assert trial.bounds
    assert trial.solutions or solver in (lp, toulbar2)


@pytest.mark.parametrize("seed", range(2))
def test_the_linear_bound_is_the_same_whichever_steps_have_a_row_first(tiny, seed, monkeypatch):
    instance, bounds = crowded(tiny, seed), []
    lightest = instance.peak(instance.usage.reshape(-1, 3).min(axis=1))
    instance = replace(instance, usage_limit=(lightest + instance.usage_limit) // 2)
    for near, most in ((lp_module.NEAR, lp_module.MORE_ROWS), (0.0, 1), (1.0, 1000)):
        monkeypatch.setattr(lp_module, "NEAR", near)
        monkeypatch.setattr(lp_module, "MORE_ROWS", most)
        trial = LocalRun(timeout=20)
        lp(instance, trial)
        bounds.append(max(trial.bounds))
    assert instance.cheapest_parts() < bounds[0] == bounds[1] == bounds[2]
