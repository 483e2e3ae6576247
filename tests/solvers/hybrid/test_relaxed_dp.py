"""The dynamic program over positions: never above the exact one, whatever the prices."""

from __future__ import annotations

import dataclasses
import json
import random
from pathlib import Path

import numpy as np
import pytest
from effort import draws
from hybrid_program import draw

from shardmark.harness.verify.hybrid import verify
from shardmark.instances import load
from shardmark.instances.graph import Graph
from shardmark.instances.hybrid import Instance, parse
from shardmark.solvers.hybrid.bounds.relaxed_dp import relaxed_dp
from shardmark.solvers.hybrid.dp import dp
from shardmark.solvers.hybrid.positions.cells import Cells
from shardmark.solvers.hybrid.positions.limits import SHARES
from shardmark.solvers.hybrid.positions.order import COMPARED, Order
from shardmark.solvers.hybrid.positions.pipeline import Pipeline, rounded_down
from shardmark.solvers.hybrid.positions.types import Reaches, StageTypes
from shardmark.solvers.registry import Declined, LocalRun, Proof

#: A flag that no thread sets.
NEVER = np.zeros(1, dtype=np.int32)
DATA = Path(__file__).resolve().parents[3] / "instances" / "data" / "hybrid"


def bound_of(instance: Instance, seconds: float = 60.0) -> float:
    run = LocalRun(timeout=seconds)
    relaxed_dp(instance, run)
    return max(run.bounds)


def optimum(instance: Instance) -> float | None:
    run = LocalRun(timeout=60.0)
    try:
        dp(instance, run)
    except Declined:
        return None
    return min(chain_cost(instance, solution) for solution in run.solutions)


def chain_cost(instance: Instance, solution: object) -> float:
    verdict = verify(instance, json.loads(json.dumps(solution)))
    assert verdict.feasible
    assert verdict.cost is not None
    return float(verdict.cost)


def test_a_chain_by_hand() -> None:
    # The optimum is 8, and 38 for a batch of four microbatches: see `generate.configured.trade`.
    instance = load(DATA / "trade.json")
    assert 8 * (1 - 1e-3) <= bound_of(instance) <= 8
    assert 32 * (1 - 1e-3) <= bound_of(dataclasses.replace(instance, objective="step")) <= 38


@pytest.mark.parametrize("seed", range(draws(20, 10, 1000)))
def test_no_bound_exceeds_the_optimum(seed: int) -> None:
    instance = draw(random.Random(f"relaxed dp {seed}"), nodes=(4, 14))
    best = optimum(instance)
    if best is not None:
        assert instance.simple_bound() <= bound_of(instance) <= best


@pytest.mark.parametrize("seed", range(draws(30, 20, 2000)))
def test_no_prices_refute_a_limit_that_can_be_kept(seed: int) -> None:
    rng = random.Random(f"prices {seed}")
    instance = draw(rng, nodes=(3, 12))
    best = optimum(instance)
    if best is None:
        return
    order = Order.along(instance.graph)
    kind = rng.choice(
        [
            lambda: rng.random(),
            lambda: 10 ** rng.uniform(-300, 300),
            lambda: rng.choice([0.0, 1.0]),
            lambda: rng.choice([0.0, 5e-324, 1e308]),
            lambda: float(rng.randint(1, 3)),
        ]
    )
    prices = np.array([kind() for _ in range(instance.nodes)])
    span = np.sort(np.array([rng.random() for _ in range(rng.randint(0, 3))]))
    cells = Cells.of(order, prices, rng.choice([1, 5, 300]), span)
    shares = rng.choice([SHARES, np.array([1.0]), np.array([0.0, rng.random()])])
    for wide in (False, True):
        reaches = Reaches(StageTypes(instance, order), cells, shares, wide=wide)
        assert not Pipeline(reaches, best * (1 + 1e-9), NEVER).refuted
        assert Pipeline(reaches, best * 1e-6, NEVER).refuted


class Reached(Exception):
    """A bound is great enough."""


def test_a_wide_graph_is_bounded_above_its_work() -> None:
    instance = load(DATA / "hybrid-experts-6.json.gz")

    class Until(LocalRun):
        def bound(self, value: float, certificate: Proof | None = None) -> None:
            if value > 1.25 * instance.simple_bound():
                raise Reached

    with pytest.raises(Reached):
        relaxed_dp(instance, Until(timeout=60.0))


def test_numbers_in_flight_are_rounded_down() -> None:
    found = [rounded_down(y) for y in range(1, 70_000)]
    assert all(1 <= z <= y for y, z in enumerate(found, 1))
    assert found == sorted(found)
    assert found[:24] == list(range(1, 25))
    assert max(y / z for y, z in enumerate(found, 1)) < 1.12
    assert len(set(found)) < 150


def test_ends_of_blocks_are_nodes_that_all_others_meet() -> None:
    # 0 -> {1, 2} -> 3 -> 4, numbered from the end.
    ends = [(0, 1), (0, 2), (1, 3), (2, 3), (3, 4)]
    node = {"timePerSample": 1, "parameterSize": 0, "memoryUsageA": 0, "memoryUsageB": 0, "id": "x"}
    nodes = [
        {
            "id": v,
            "TMPCs": {
                "1": [
                    {
                        **node,
                        "syncTimeFw": {str(a): 0 for a, b in ends if b == v},
                        "syncTimeBw": {str(b): 0 for a, b in ends if a == v},
                    }
                ]
            },
        }
        for v in range(5)
    ]
    edges = [{"sourceId": a, "destId": b, "communicationCost": 1} for a, b in ends]
    top = {"maxDevices": 2, "maxMemoryPerDevice": 9, "bandwidth": 1, "mbsInBatch": 2}
    order = Order.along(parse({**top, "nodes": nodes, "edges": edges}, "five").graph)
    assert order.start.tolist() == [0, 1, 2, 4, 5]
    assert order.node.tolist()[:2] == [4, 3]
    since, until = order.certain(np.array([5, 7, 2, 3, 11]))
    assert since.tolist() == [1, 6, 16, 15, 18]
    assert until.tolist() == [4, 11, 13, 14, 27]


def test_nodes_of_large_blocks_are_not_compared() -> None:
    """That would take the square of their number in memory."""
    nodes = COMPARED + 1
    none = np.empty(0, dtype=np.int32)
    order = Order.along(Graph(nodes, none, none))
    assert order.blocks == order.closures == [(slice(0, nodes), None)]
    since, until = order.certain(np.full(nodes, 2))
    assert set(since.tolist()) == {2 * nodes - 1}
    assert set(until.tolist()) == {1}
