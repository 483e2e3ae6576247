"""The frame of the fuzz tests finds each kind of failure."""

from __future__ import annotations

import math
from fractions import Fraction

import fuzz
import oracle_intraop
import oracle_pipeline
import pytest
from fuzz import Attack

from shardmark.solvers.registry import Declined, Solver

INTRAOP = Attack(
    "intraop",
    oracle_intraop.draw,
    oracle_intraop.draw_solution,
    oracle_intraop.judge,
    oracle_intraop.optimum,
    false_reason=oracle_intraop.false_reason,
)


def too_high(instance, run):
    run.bound(oracle_intraop.optimum(instance) + 1)


def endless(instance, run):
    run.bound(math.inf)


def failing(instance, run):
    raise ZeroDivisionError("as a solver may")


def lying(instance, run):
    raise Declined("time step 0: expected more memory")


def honest(instance, run):
    run.bound(oracle_intraop.optimum(instance))
    run.report([0] * instance.nodes)


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (too_high, "above the optimum"),
        (endless, "bound inf"),
        (failing, "ZeroDivisionError: as a solver may"),
        (lying, "declines for a reason that is false"),
    ],
)
def test_a_false_claim_is_reported_with_seed_and_instance(function, words, monkeypatch):
    tried = Solver("tried", "intraop", "solver", "", {}, True, True, function)
    monkeypatch.setattr(fuzz, "methods", lambda track: {"tried": tried})
    with pytest.raises(pytest.fail.Exception) as failure:
        INTRAOP.on(range(4))
    assert failure.value.msg.startswith("intraop, seed ")
    assert words in failure.value.msg
    assert '"usage_limit": ' in failure.value.msg


def test_a_bound_of_a_solver_that_proves_none_is_reported(monkeypatch):
    tried = Solver("tried", "intraop", "solver", "", {}, True, False, honest)
    monkeypatch.setattr(fuzz, "methods", lambda track: {"tried": tried})
    with pytest.raises(pytest.fail.Exception, match="declares that it proves none"):
        INTRAOP.on(range(1))


def test_true_claims_pass(monkeypatch):
    tried = Solver("tried", "intraop", "solver", "", {}, True, True, honest)
    monkeypatch.setattr(fuzz, "methods", lambda track: {"tried": tried})
    INTRAOP.on(range(1))


def test_a_verdict_unlike_the_oracle_s_is_reported(monkeypatch):
    def tenth_more(instance, solution):
        feasible, cost = oracle_pipeline.judge(instance, solution)
        return feasible, cost and cost * Fraction(11, 10)

    parts = oracle_pipeline.draw, oracle_pipeline.draw_solution, tenth_more, oracle_pipeline.optimum
    monkeypatch.setattr(fuzz, "methods", lambda track: {})
    with pytest.raises(pytest.fail.Exception, match="expected feasible"):
        Attack("pipeline", *parts).on(range(5))
