"""The oracles against instances solved by hand, and against plain enumeration."""

from __future__ import annotations

import itertools
import random

import oracle_intraop
import oracle_pipeline
import oracle_scheduling
import pytest

from shardmark.instances import catalog, load


@pytest.mark.parametrize(
    ("name", "oracle", "best"),
    [
        ("chain", oracle_pipeline, 11),
        ("overflow", oracle_pipeline, 6),
        ("diamond", oracle_intraop, 137),
        ("triangle", oracle_intraop, 6),
        ("fork-join", oracle_scheduling, 10),
        ("fork-join-share", oracle_scheduling, 11),
        ("waiting-room", oracle_scheduling, 11),
    ],
)
def test_the_optimum_is_that_found_by_hand(name, oracle, best):
    entry = catalog.find(name)
    assert oracle.optimum(load(catalog.locate(entry), **entry.options)) == best


def test_no_partition_costs_less_in_any_order():
    rng, limited = random.Random("every partition"), 0
    for _ in range(30):
        instance = oracle_pipeline.draw(rng, most_nodes=4)
        stages = itertools.product(range(min(instance.stages, 4)), repeat=instance.nodes)
        orders = [list(order) for order in itertools.permutations(range(instance.nodes))]
        orders = orders if instance.memory is not None else [instance.graph.topological_order.tolist()]
        limited += instance.memory is not None
        judged = (
            oracle_pipeline.judge(instance, {"block": list(stage), "order": order})
            for stage in stages
            for order in orders
        )
        assert min(cost for feasible, cost in judged if feasible) == oracle_pipeline.optimum(instance)
    assert limited > 10


def test_assignments_that_fit_are_judged_step_by_step():
    rng, tight = random.Random("every step"), 0
    for _ in range(200):
        instance = oracle_intraop.draw(rng)
        oracle = oracle_intraop.Oracle(instance)
        first = min((begin for begin, _ in oracle.intervals), default=0)
        strategy = oracle_intraop.draw_solution(rng, instance)
        rows = list(zip(oracle.intervals, oracle.usages, strategy, strict=True))
        used = [sum(usages[s] for (b, e), usages, s in rows if b <= t < e) for t in range(first, first + 12)]
        assert max(used, default=0) - oracle.limit == oracle.excess(strategy)
        tight += abs(oracle.excess(strategy)) <= 1
    assert tight > 10


def test_no_order_of_a_feasible_partition_takes_less():
    """Each device may run its vertices in any order; most orders cannot be run."""
    rng, found = random.Random("every order"), 0
    for _ in range(60):
        instance = oracle_scheduling.draw(rng, most_nodes=3)
        devices = itertools.product(range(instance.devices), repeat=instance.nodes)
        orders = list(itertools.permutations(range(instance.nodes)))
        judged = (
            oracle_scheduling.judge(
                instance,
                {"device": device, "order": [[v for v in run if device[v] == d] for d in range(instance.devices)]},
            )
            for device in devices
            for run in orders
        )
        best = min((cost for feasible, cost in judged if feasible), default=None)
        assert best == oracle_scheduling.optimum(instance)
        found += best is not None
    assert found > 40
