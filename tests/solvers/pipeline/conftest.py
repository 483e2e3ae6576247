"""Small random instances, and what they cost by the definitions, computed without the solvers and the referee."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from itertools import combinations_with_replacement, pairwise
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from oracle_pipeline import Oracle, optimum

from shardmark.instances.graph import Graph
from shardmark.instances.pipeline import Instance
from shardmark.solvers.pipeline._kernels import PipelineCore, Slicing


def make(
    edges: Sequence[tuple[int, int]],
    work: Sequence[float],
    output: Sequence[float],
    params: Sequence[float],
    stages: int,
    *,
    bandwidth: float = 1.0,
    memory: float | None = None,
) -> Instance:
    """An instance from plain lists."""
    tail, head = np.array(edges, dtype=np.int32).reshape(-1, 2).T
    columns = [np.array(column, dtype=np.float64) for column in (work, output, params)]
    names = tuple(map(str, range(len(work))))
    return Instance("made", Graph(len(work), tail, head), names, *columns, stages, bandwidth, memory)


def draw(
    rng: np.random.Generator, nodes: int, stages: int, *, density: float | None = None, limited: bool = False
) -> Instance:
    """A random graph with small whole numbers, many of them zero, so that ties and empty sums are frequent."""
    density = rng.random() if density is None else density
    rank = rng.permutation(nodes)
    edges = [(u, v) for u in range(nodes) for v in range(nodes) if rank[u] < rank[v] and rng.random() < density]
    work, output, params = (rng.integers(0, top, nodes).astype(float).tolist() for top in (10, 6, 5))
    memory = float(rng.integers(0, 5 * nodes + 1)) if limited else None
    return make(edges, work, output, params, stages, bandwidth=float(rng.choice([0.5, 1.0, 3.0])), memory=memory)


@lru_cache(maxsize=8)
def _oracle(instance: Instance) -> Oracle:
    return Oracle(instance)


def stage_cost(instance: Instance, stage: Sequence[int]) -> float:
    """Equation (3) for the nodes of a stage, which run in this order."""
    exact = _oracle(instance)
    return float(exact.stage_cost(stage, lambda nodes: exact.peak_of(stage)))


def slicing_optimum(instance: Instance, order: Sequence[int]) -> float:
    """Least bottleneck over all ways to cut an order into at most k segments."""
    n = instance.nodes
    cost = {(a, b): stage_cost(instance, order[a:b]) for a in range(n + 1) for b in range(a, n + 1)}
    places = combinations_with_replacement(range(n + 1), instance.stages - 1)
    return min(max(cost[a, b] for a, b in pairwise((0, *cuts, n))) for cuts in places)


def partition_optimum(instance: Instance) -> float:
    """Least bottleneck over all acyclic partitions into at most k stages, and over their execution orders."""
    return float(optimum(instance))


def sliced(core: PipelineCore, order: Any, upper: float = math.inf) -> Slicing:
    """The best slicing of an order, which costs less than an upper limit."""
    slicing = core.slice(order, upper)
    assert slicing is not None
    return slicing


@pytest.fixture(scope="session")
def oracle() -> SimpleNamespace:
    """The functions above."""
    functions = (make, draw, stage_cost, slicing_optimum, partition_optimum, sliced)
    return SimpleNamespace(**{function.__name__: function for function in functions})
