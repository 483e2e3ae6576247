"""Merging pairs of nodes that some optimal partition keeps together leaves the optimum."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from shardmark.harness.verify import verify
from shardmark.solvers.pipeline.programs.contraction import contracted
from shardmark.solvers.registry import LocalRun


def test_the_optimum_and_the_cost_of_partitions_stay(oracle: SimpleNamespace) -> None:
    """On sparse graphs whose works and sizes are small whole numbers, so that conditions often hold just so."""
    rng = np.random.default_rng(41)
    merged = 0
    for _ in range(150):
        nodes = int(rng.integers(2, 8))
        instance = oracle.draw(rng, nodes, int(rng.integers(2, 4)), density=0.35)
        instance = replace(instance, work=np.minimum(instance.work, rng.integers(0, 10, nodes)))
        run = LocalRun()
        smaller, expanded, _ = contracted(instance, run)
        assert oracle.partition_optimum(smaller) == pytest.approx(oracle.partition_optimum(instance), rel=1e-12)
        stages = [0] * smaller.nodes
        for v in smaller.graph.topological_order.tolist()[smaller.nodes // 2 :]:
            stages[v] = 1
        expanded.report(stages)
        assert verify(instance, run.solutions[0]).cost == pytest.approx(verify(smaller, stages).cost, rel=1e-12)
        merged += instance.nodes - smaller.nodes
    assert merged > 80


@pytest.mark.parametrize(
    ("edges", "work", "output", "nodes"),
    [
        ([(0, 1), (1, 2)], [5, 2, 5], [2, 4, 0], 2),  # forwards: 2 + 2 <= 4
        ([(0, 1), (1, 2)], [5, 3, 5], [2, 4, 0], 3),
        ([(0, 1), (1, 2)], [9, 2, 9], [4, 2, 0], 2),  # backwards: 2 + 2 <= 4
        ([(0, 1), (1, 2)], [9, 3, 9], [4, 2, 0], 3),
        ([(0, 1), (0, 2), (1, 2)], [9, 4, 9], [8, 4, 0], 2),  # forwards: node 2 receives the tensor of 0 anyway
        ([(0, 1), (0, 2), (1, 2), (2, 3)], [9, 9, 1, 9], [8, 4, 3, 0], 3),  # backwards: node 1 reads it as well
        ([(0, 1), (3, 2), (1, 2), (2, 4)], [9, 9, 1, 9, 9], [8, 4, 3, 1, 0], 5),  # not without the tensor of 3
        ([(0, 1), (0, 2)], [1, 9, 9], [9, 0, 0], 3),  # two readers
        ([(0, 1)], [4, 9], [4, 50], 1),  # a tensor that none reads is not sent
    ],
)
def test_conditions(
    oracle: SimpleNamespace, edges: list[tuple[int, int]], work: list[float], output: list[float], nodes: int
) -> None:
    instance = oracle.make(edges, work, output, [0] * len(work), 2)
    smaller, _, _ = contracted(instance, LocalRun())
    assert smaller.nodes == nodes
    assert oracle.partition_optimum(smaller) == oracle.partition_optimum(instance)


def test_nothing_is_merged_with_a_memory_limit_or_without_time(oracle: SimpleNamespace) -> None:
    instance = oracle.make([(0, 1)], [1, 9], [9, 0], [0, 0], 2)
    assert contracted(instance, LocalRun())[0].nodes == 1
    late = LocalRun(timeout=0.0)
    assert contracted(instance, late)[:2] == (instance, late)
    limited, run = replace(instance, memory=100.0), LocalRun()
    assert contracted(limited, run)[:2] == (limited, run)


def test_sums_of_work_are_rounded_down(oracle: SimpleNamespace) -> None:
    smaller, _, _ = contracted(oracle.make([(0, 1)], [0.1, 0.2], [9, 0], [0, 0], 2), LocalRun())
    assert smaller.work.tolist() == [0.3]  # 0.1 + 0.2 is 0.30000000000000004
