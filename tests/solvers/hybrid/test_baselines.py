"""Plans of equal stages: the program's values on BERT-32, verified costs, and what they are by definition."""

from __future__ import annotations

import random

import pytest
from effort import some_of
from oracle_hybrid import draw

from shardmark.harness.results.published import piper_figures
from shardmark.harness.verify import verify
from shardmark.harness.verify.hybrid import read
from shardmark.instances import catalog, load
from shardmark.instances.generate import families
from shardmark.instances.hybrid import Instance
from shardmark.solvers.hybrid.equal_layers import equal_layers, equal_stages, torchtitan
from shardmark.solvers.hybrid.same_degrees import same_degrees
from shardmark.solvers.registry import Declined, LocalRun

SOLVERS = (equal_stages, equal_layers, torchtitan, same_degrees)


def costs(solver, instance: Instance) -> list[float]:
    """The verified costs of all plans that a solver reports, in order."""
    run = LocalRun()
    try:
        solver(instance, run)
    except Declined:
        assert run.solutions == []
    verdicts = [verify(instance, solution) for solution in run.solutions]
    assert all(verdict.feasible for verdict in verdicts)
    return [float(verdict.cost or 0.0) for verdict in verdicts]


@pytest.mark.thorough(cases=15)
@pytest.mark.parametrize("name", piper_figures()["program"])
def test_equal_stages_are_those_of_the_published_program(name):
    entry, known = catalog.find(name), piper_figures()["program"][name]["equal"]
    if (path := catalog.at_hand(entry)) is None:
        pytest.skip("needs the published files")
    found = costs(equal_stages, load(path, **entry.options))
    assert found[-1:] == ([] if known == "-1" else [pytest.approx(float(known), rel=1e-9)])


@pytest.mark.parametrize("solver", SOLVERS)
def test_reported_plans_get_better_and_are_as_claimed(solver):
    for seed in range(some_of(60)):
        instance = draw(random.Random(seed))
        found = costs(solver, instance)
        assert found == sorted(found, reverse=True)


def counts(solver, layers: int, stages: int) -> list[int]:
    """Layers per stage of the plan with so many stages, on devices for just these."""
    instance = families()["hybrid-transformer"].build(0, layers=layers, devices=stages, microbatches=stages, gib=99.0)
    run = LocalRun()
    solver(instance, run)
    plans = [read(instance, solution) for solution in run.solutions]
    return next(plan.counts.tolist() for plan in plans if not isinstance(plan, str) and plan.stages == stages)


def test_layers_are_dealt_as_named():
    found = families()["hybrid-transformer"].build(0, layers=9)
    assert found.nodes == 11  # with the embedding and the logits, which have names of their own like all layers
    assert counts(equal_stages, 9, 2) == [5, 6]
    assert counts(torchtitan, 9, 2) == [6, 5]
