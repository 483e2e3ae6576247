"""Graphs with helpers cost, at best, what graphs of several tensors a node cost by definition."""

from __future__ import annotations

import itertools
import random

import pytest

from shardmark.harness.verify import verify
from shardmark.instances import pipeline
from shardmark.instances.split_multi_output import Operation, Tensor, one_tensor_each


def instance(operations, stages):
    return pipeline.parse({"format": pipeline.FORMAT, **one_tensor_each(operations)}, "test", stages)


def draw(seed):
    """Three to five operations with up to three tensors each."""
    chance = random.Random(seed)
    n = chance.randint(3, 5)
    operations = []
    for v in range(n):
        later = range(v + 1, n)
        tensors = [
            Tensor(
                f"{v}:{port}",
                chance.choice([0, 1, 2, 5]),
                chance.choices(later, k=chance.randint(0, 2)) if later else [],
            )
            for port in range(chance.choice([0, 1, 1, 2, 2, 3]))
        ]
        followers = chance.choices(later, k=chance.choice([0, 0, 1])) if later else []
        operations.append(Operation(str(v), chance.randint(0, 4), 0, tensors, followers))
    return operations


def acyclic(pairs):
    left = {stage for pair in pairs for stage in pair}
    while left:
        free = {stage for stage in left if not any(v == stage and u in left for u, v in pairs)}
        if not free:
            return False
        left -= free
    return True


def bottleneck(operations, stage):
    """Equation (4) where every tensor counts once a cut and stage; None if the quotient graph has a cycle."""
    pairs = {
        (stage[u], stage[v])
        for u, operation in enumerate(operations)
        for v in [*operation.followers, *(reader for tensor in operation.tensors for reader in tensor.readers)]
        if stage[u] != stage[v]
    }
    if not acyclic(pairs):
        return None
    costs = dict.fromkeys(stage, 0)
    for v, operation in enumerate(operations):
        costs[stage[v]] += operation.work
        for tensor in operation.tensors:
            elsewhere = {stage[reader] for reader in tensor.readers} - {stage[v]}
            for reached in [*elsewhere, *([stage[v]] if elsewhere else [])]:
                costs[reached] += tensor.size
    return max(costs.values())


@pytest.mark.gate(cases=6)
@pytest.mark.thorough(cases=15)
@pytest.mark.parametrize("seed", range(30))
def test_the_optimum_is_that_of_the_definition(seed):
    operations, stages = draw(seed), 2 + seed % 2
    made = instance(operations, stages)
    if stages**made.nodes > 3**7:
        stages, made = 2, instance(operations, 2)
    n = len(operations)
    costs = {}
    for stage in itertools.product(range(stages), repeat=made.nodes):
        verdict = verify(made, list(stage))
        if verdict.feasible:
            costs[stage[:n]] = min(verdict.cost, costs.get(stage[:n], verdict.cost))
    expected = {stage: bottleneck(operations, stage) for stage in itertools.product(range(stages), repeat=n)}
    allowed = {stage: cost for stage, cost in expected.items() if cost is not None}
    assert min(costs.values()) == min(allowed.values())
    for stage, cost in allowed.items():  # helpers on their nodes' stages show it for every partition
        assert costs[stage] == cost


def test_a_node_with_one_tensor_needs_no_helper():
    operations = [Operation("a", 1, 2, [Tensor("a:0", 3, [1, 2, 1])], [2]), Operation("b", 1, 0), Operation("c", 1, 0)]
    document = one_tensor_each(operations)
    assert document["edges"] == [[0, 1], [0, 2]]
    assert document["nodes"] == {
        "name": ["a", "b", "c"],
        "work": [1, 1, 1],
        "param_size": [2, 0, 0],
        "output_size": [3, 0.0, 0.0],
    }


def test_helpers_come_last_and_have_the_names_of_what_they_carry():
    tensors = [Tensor("a:0", 3, [1]), Tensor("a:1", 4, [2]), Tensor("a:2", 9)]
    document = one_tensor_each([Operation("a", 1, 2, tensors, [3]), *(Operation(name, 1, 0) for name in "bcd")])
    assert document["nodes"]["name"] == ["a", "b", "c", "d", "a:0", "a:1", "^a"]
    assert document["nodes"]["output_size"] == [7, 0, 0, 0, 3, 4, 0]
    assert document["edges"] == [[0, 4], [4, 1], [0, 5], [5, 2], [0, 6], [6, 3]]


def test_an_order_without_a_tensor_costs_nothing():
    made = instance([Operation("a", 1, 0, [], [1]), Operation("b", 1, 0)], 2)
    assert made.nodes == 2
    assert verify(made, [0, 1]).cost == 1
    assert verify(made, [0, 1]).feasible
