"""The relaxation of the integer programs for throughput: never above any placement, whatever the dual values are."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from fractions import Fraction
from time import sleep
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from effort import some_of
from oracle_placement import optimum
from placements import DRAWS, built, small

from shardmark.instances.placement import Instance
from shardmark.solvers.placement.bounds.lp import lp
from shardmark.solvers.placement.ip import dual_bound, relaxation
from shardmark.solvers.placement.ip.dual_bound import proved
from shardmark.solvers.placement.ip.floating_point import FloatProgram
from shardmark.solvers.placement.ip.incumbent import Incumbent
from shardmark.solvers.placement.ip.program import LoadProgram
from shardmark.solvers.placement.ip.relaxation import dual_values
from shardmark.solvers.placement.ip.shapes import programs
from shardmark.solvers.placement.ip.start import begin
from shardmark.solvers.placement.throughput.simple_bounds import load_bound, node_bound
from shardmark.solvers.registry import Declined, LocalRun

pytestmark = pytest.mark.gate(cases=1)


def proves(instance: Instance) -> list[float]:
    run = LocalRun(timeout=20)
    lp(instance, run)
    assert not run.solutions
    return run.bounds


@pytest.mark.gate
@pytest.mark.parametrize("contiguity", ["contiguous", "acyclic", "free"])
def test_no_placement_is_better(contiguity: str) -> None:
    draw, better, tight = random.Random(f"relaxed {contiguity}"), 0, 0
    for _ in range(DRAWS or some_of(15)):
        instance = small(draw, contiguity)
        bounds, best = proves(instance), optimum(instance)
        if best is None:
            continue
        assert max(bounds, default=0.0) <= best
        better += max(bounds, default=0.0) > max(load_bound(instance), node_bound(instance)) * (1 + 1e-6)
        tight += max(bounds, default=0.0) >= best * (1 - 1e-9)
    assert better >= 1
    assert tight >= some_of(6)


def relaxations(draw: random.Random, count: int) -> Iterator[tuple[LoadProgram, FloatProgram, Fraction]]:
    """Programs of what costs no more than some placement, and what the best one costs."""
    for _ in range(count):
        instance = small(draw, draw.choice(["contiguous", "free"]))
        task = Incumbent(instance, LocalRun(timeout=20), reports=False)
        begin(task, instance.contiguity)
        if len(task.device):
            program = task.build(programs(instance, instance.contiguity)[0])
            best = optimum(instance)
            assert program is not None
            assert best is not None
            yield program, FloatProgram(program), best


@pytest.mark.gate
def test_any_dual_values_prove_what_holds_and_those_of_an_optimum_prove_most() -> None:
    draw = random.Random(7)
    numbers = np.random.default_rng(7)
    positive, much = 0, 0
    for program, floats, best in relaxations(draw, 15):
        dual = dual_values(floats, 10.0)
        assert dual is not None
        most = proved(program, floats, dual)
        assert most <= best
        for scale in (1e-3, 1e-2, 0.3, 1e3):
            changed = proved(program, floats, dual * (1 + scale * numbers.normal(size=len(dual))))
            assert changed <= min(best, most * (1 + 1e-6) + 1e-9)
            positive += changed > 0
        much += most > 0
        assert proved(program, floats, numbers.normal(size=len(dual)) * 10.0 ** numbers.integers(-3, 9)) <= best
        assert proved(program, floats, np.zeros(len(dual))) == 0
        for trouble in (math.nan, math.inf, -math.inf, 1e300, -1e300):
            assert 0 <= proved(program, floats, np.where(numbers.random(len(dual)) < 0.3, trouble, dual)) <= best
    assert positive > much > 7


def three(**options: Any) -> Instance:
    """Nodes of 3 each on the one accelerator, which a CPU takes 10 for: two and a third of one would be best."""
    return built([3, 3, 3], (), (1, 1), cpu=10, **options)


@pytest.mark.parametrize("contiguity", ["contiguous", "acyclic", "free"])
def test_a_node_is_not_where_it_takes_longer_than_a_placement_known(contiguity: str) -> None:
    first, last = proves(three(contiguity=contiguity))
    assert first == pytest.approx(90 / 13)
    assert last == pytest.approx(9)
    assert last <= 9


def test_what_ends_early_or_is_too_large_leaves_the_even_load(monkeypatch: pytest.MonkeyPatch) -> None:
    load = max(load_bound(three()), node_bound(three()))
    for run in (LocalRun(timeout=0.0), LocalRun(memory=0.01)):
        lp(three(), run)
        assert run.bounds == [load]
    monkeypatch.setattr(dual_bound, "dual_values", lambda floats, seconds: None)
    assert proves(three()) == [load]


def test_writing_the_relaxation_counts_as_time(monkeypatch: pytest.MonkeyPatch) -> None:
    from ortools.math_opt.core.python import solver

    given, write = list[Any](), relaxation._model

    def slow(floats: FloatProgram) -> Any:
        sleep(0.2)
        return write(floats)

    def solve(*arguments: Any) -> Any:
        given.append(arguments[3].time_limit)
        return SimpleNamespace(solutions=[])

    monkeypatch.setattr(relaxation, "_model", slow)
    monkeypatch.setattr(solver, "solve", solve)
    floats = next(relaxations(random.Random(1), 1))[1]
    for seconds, most in ((100.0, 0.9 * 99.8), (0.1, 0.0)):
        assert dual_values(floats, seconds) is None
        assert given[-1].ToTimedelta().total_seconds() <= most


def test_what_highs_gives_up_on_leaves_the_bound_so_far(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    rows = FloatProgram.rows

    def too_large(floats: FloatProgram) -> Iterator[Any]:
        """With a coefficient that HiGHS does not take."""
        for columns, factors, least, most in rows(floats):
            yield columns, [1e20, *list(factors)[1:]], least, most

    monkeypatch.setattr(FloatProgram, "rows", too_large)
    assert proves(three()) == [max(load_bound(three()), node_bound(three()))]
    assert "HiGHS gave up: " in capfd.readouterr().err


def test_latency_and_replicas_are_declined() -> None:
    for options in ({"objective": "latency"}, {"allreduce": 2.0}):
        with pytest.raises(Declined, match=r"for throughput|for allreduce none, found 2\.0"):
            lp(three(**options), LocalRun())


def test_the_least_and_the_greatest_times_are_bounded() -> None:
    for time in (math.ulp(0.0), 1e-300, 1e300):
        instance = built([time] * 3, (), (2, 0), cpu=time, contiguity="free")
        assert 0 <= max(proves(instance), default=0.0) <= 2 * time


def test_memories_so_small_that_their_inverse_is_infinite_are_filled() -> None:
    least = math.ulp(0.0)
    sizes = [least, 2 * least, 3 * least]
    bounds = proves(built([1, 1, 1], (), (1, 1, 3 * least), cpu=4, size=sizes, contiguity="free"))
    assert 3.0 <= max(bounds) <= 4.0  # two of them fit, the third takes 4
