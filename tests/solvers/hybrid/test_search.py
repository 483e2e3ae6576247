"""The search over topological orders, against the exact dynamic program and the definition."""

from __future__ import annotations

import json
import random
import time
from contextlib import suppress
from dataclasses import replace

import hybrid_program
import numpy as np
import oracle_hybrid
import pytest
from effort import draws

from shardmark.harness.verify.hybrid import verify
from shardmark.instances.generate import families
from shardmark.instances.hybrid import Instance
from shardmark.solvers.hybrid._orders import Orders
from shardmark.solvers.hybrid.dp import dp
from shardmark.solvers.hybrid.search import search
from shardmark.solvers.registry import Declined, LocalRun


def searched(instance: Instance, seconds: float) -> tuple[float, float]:
    """The verified cost of the last plan, infinite if the search declined; and its greatest bound."""
    run, costs = LocalRun(timeout=seconds), []
    with suppress(Declined):
        search(instance, run)
    for solution in run.solutions:
        verdict = verify(instance, json.loads(json.dumps(solution)))
        assert verdict.feasible
        costs.append(float(verdict.cost or 0.0))
    assert costs == sorted(costs, reverse=True)
    return min(costs, default=np.inf), max(run.bounds)


@pytest.mark.parametrize("seed", range(draws(30, 20, 300)))
def test_few_down_sets_give_a_proven_optimum(seed: int) -> None:
    instance = hybrid_program.draw(random.Random(f"hybrid search {seed}"), nodes=(4, 14))
    exact = LocalRun(timeout=60)
    try:
        dp(instance, exact)
    except Declined:
        assert searched(instance, 0.5)[0] == np.inf
        return
    optimum = float(verify(instance, exact.solutions[-1]).cost or 0.0)
    cost, bound = searched(instance, 30)
    assert bound <= optimum
    assert cost >= optimum * (1 - 1e-9)
    if cost < np.inf:
        assert cost == pytest.approx(optimum, rel=1e-9)
        assert bound == pytest.approx(cost, rel=1e-9)


@pytest.mark.thorough(cases=40)
@pytest.mark.parametrize("seed", range(draws(80, 60, 2000)))
def test_no_bound_exceeds_the_optimum_of_extreme_numbers(seed: int) -> None:
    instance = oracle_hybrid.draw(random.Random(f"hybrid search {seed}"))
    best = oracle_hybrid.optimum(instance)
    cost, bound = searched(instance, 0.1)
    if best is None:
        assert cost == np.inf
    else:
        assert bound <= best
        assert cost >= float(best) * (1 - 1e-9)


@pytest.mark.parametrize(("objective", "optimum"), [("throughput", 8), ("step", 38)])
def test_the_optimum_of_the_example(objective: str, optimum: float) -> None:
    instance = replace(families()["trade"].build(0), objective=objective)
    assert searched(instance, 2)[0] == optimum


def operators(**given: int) -> Instance:
    """Layers with many parallel operators, beyond what `dp` can list."""
    return families()["hybrid-transformer"].build(1, operators=1, **given)


def test_graphs_with_too_many_down_sets_get_a_plan_and_a_bound() -> None:
    instance = operators(layers=2, heads=16, head_groups=16, devices=8)
    with pytest.raises(Declined):
        dp(instance, LocalRun(timeout=60, memory=64))
    cost, bound = searched(instance, 5)
    assert instance.simple_bound() * 1.1 < bound <= cost < np.inf


def test_plans_that_do_not_fit_are_not_claimed_impossible() -> None:
    """Every node fits the only device alone, but not all of them together."""
    instance = replace(families()["hybrid-transformer"].build(0, layers=2, gib=99.0), devices=1)
    needs = float((instance.stashed + instance.fixed + instance.shared).max())
    with pytest.raises(Declined, match="found no stages that fit the devices and their memory on the orders tried"):
        search(replace(instance, memory=needs), LocalRun(timeout=20))


def test_the_search_ends_with_the_time() -> None:
    start = time.monotonic()
    searched(operators(layers=6, heads=16, head_groups=16, devices=16), 1)
    assert time.monotonic() - start < 10


def test_orders_are_topological_and_borders_include_both_ends() -> None:
    instance = operators(layers=2, heads=4, head_groups=4)
    orders, rng = Orders(instance), np.random.default_rng(0)
    group = np.zeros(instance.nodes)
    for order in (*orders.standard(), orders.least_cut(group, rng.normal(size=instance.nodes))):
        place = np.empty(instance.nodes, dtype=np.int64)
        place[order] = np.arange(instance.nodes)
        assert sorted(order.tolist()) == list(range(instance.nodes))
        assert np.all(place[instance.graph.tail] < place[instance.graph.head])
        borders = orders.borders(order, 5)
        assert borders[[0, -1]].all()
        assert 2 < borders.sum() <= 7
