"""Tiny instances, and what their solutions are worth by the definitions, without the solvers and the referee."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from itertools import product
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from oracle_intraop import Oracle
from referee import Pool

from shardmark.instances.intraop import Instance

IMPOSSIBLE = 10**18


def make(
    nodes: Sequence[tuple[int, int, Sequence[int], Sequence[int]]],
    edges: Sequence[tuple[Sequence[int], Sequence[int]]] = (),
    limit: int | None = 10**6,
) -> Instance:
    """An instance from nodes ``(begin, end, costs, usages)`` and edges ``(scope, table)``."""

    def flat(rows: Sequence[Sequence[int]]) -> tuple[np.ndarray, np.ndarray]:
        start = np.cumsum([0, *map(len, rows)])
        return start, np.array([x for row in rows for x in row], dtype=np.int64)

    strategy_start, cost = flat([node[2] for node in nodes])
    scope_start, scope = flat([edge[0] for edge in edges])
    table_start, table = flat([edge[1] for edge in edges])
    begin, end = (np.array([node[i] for node in nodes], dtype=np.int64) for i in (0, 1))
    usage = flat([node[3] for node in nodes])[1]
    return Instance(
        "tiny", begin, end, strategy_start, cost, usage, scope_start, scope, table_start, table, limit, "tiny"
    )


def draw(rng: np.random.Generator, *, nodes: int = 5, arity: int = 3, impossible: float = 0.2) -> Instance:
    """Up to ``nodes`` nodes of up to four strategies; edges of any arity in which a node may recur."""
    n = int(rng.integers(1, nodes + 1))
    menus = rng.integers(1, 5, n)
    rows = _rows(rng, menus, longest=4, costs=20)
    edges = _edges(rng, menus, (0, 2 * n), [1, 2, 2, 2, arity], costs=20, impossible=impossible)
    return make(rows, edges, int(rng.integers(5, 8 * n + 6)))


def larger(rng: np.random.Generator) -> Instance:
    """Up to 12 nodes of up to three strategies in a sparse network; no limit, or one that most assignments break."""
    n = int(rng.integers(6, 13))
    menus = rng.integers(1, 3, n)
    menus[rng.integers(0, n, 2)] = 3
    rows = _rows(rng, menus, longest=5, costs=50)
    edges = _edges(rng, menus, (n // 2, 2 * n), [1, 2, 2, 2, 2, 3], costs=50, impossible=0.15)
    limit = None if rng.random() < 0.3 else int(rng.integers(2 * n, 4 * n))
    return make(rows, edges, limit)


def _rows(rng: np.random.Generator, menus: np.ndarray, *, longest: int, costs: int) -> list[Any]:
    """Nodes with random intervals, costs and usages."""
    rows = []
    for menu in menus:
        begin, length = int(rng.integers(0, 6)), int(rng.integers(0, longest + 1))
        rows.append((begin, begin + length, rng.integers(0, costs, menu).tolist(), rng.integers(0, 10, menu).tolist()))
    return rows


def _edges(
    rng: np.random.Generator,
    menus: np.ndarray,
    number: tuple[int, int],
    arities: Sequence[int],
    *,
    costs: int,
    impossible: float,
) -> list[Any]:
    """Edges of random arity and costs, in a range of numbers, a fraction of the entries impossible."""
    edges = []
    for _ in range(int(rng.integers(*number))):
        scope = rng.integers(0, len(menus), int(rng.choice(arities))).tolist()
        table = rng.integers(0, costs, int(np.prod(menus[scope])))
        table[rng.random(len(table)) < impossible] = IMPOSSIBLE
        edges.append((scope, table.tolist()))
    return edges


def layered(nodes: int, seed: int = 0) -> Instance:
    """A chain with skips, random costs, and memory for a third of what the cheapest strategies use."""
    rng = np.random.default_rng(seed)
    costs = rng.integers(1, 1000, (nodes, 6))
    usage = 1000 // costs + 1
    rows = [(t, t + 5, costs[t].tolist(), usage[t].tolist()) for t in range(nodes)]
    pairs = [(t, t + skip) for t in range(nodes) for skip in (1, 7) if t + skip < nodes]
    return make(rows, [(pair, rng.integers(0, 500, 36).tolist()) for pair in pairs], limit=200)


def value(instance: Instance, strategy: Sequence[int]) -> tuple[int, int]:
    """``(excess, cost)``: memory above the limit in the worst time step, and the exact cost."""
    oracle = Oracle(instance)
    return max(0, oracle.excess(strategy)), sum(oracle.entries(strategy))


def assignments(instance: Instance) -> Iterator[tuple[int, ...]]:
    """All of them."""
    return product(*(range(size) for size in instance.strategies.tolist()))


def best(instance: Instance) -> tuple[int, int]:
    """``(excess, cost)`` of the best assignment: one that fits before one that does not, then the cheapest."""
    return min(value(instance, strategy) for strategy in assignments(instance))


def fast_best(instance: Instance) -> tuple[int, int]:
    """The same, all assignments at once."""
    sizes = instance.strategies
    every = np.indices(sizes).reshape(len(sizes), -1)
    rows = instance.strategy_start[:-1, None] + every
    cost = instance.node_cost[rows].astype(object).sum(axis=0)
    for e in range(instance.edges):
        scope = instance.scope[instance.scope_start[e] : instance.scope_start[e + 1]]
        table = instance.table[instance.table_start[e] : instance.table_start[e + 1]].reshape(sizes[scope])
        cost = cost + table[tuple(every[scope])].astype(object)
    excess = np.zeros(every.shape[1], dtype=np.int64)
    for t in range(0 if instance.usage_limit is None else int(instance.end.max())):
        live = (instance.begin <= t) & (t < instance.end)
        excess = np.maximum(excess, instance.usage[rows[live]].sum(axis=0) - instance.usage_limit)
    return min(zip(excess.tolist(), cost.tolist(), strict=True))


@pytest.fixture(scope="session")
def tiny() -> SimpleNamespace:
    """Tools for tiny instances."""
    tools = (make, draw, larger, layered, value, assignments, best, fast_best)
    return SimpleNamespace(**{tool.__name__: tool for tool in tools})


@pytest.fixture(scope="module", autouse=True)
def no_supervisor_waits(pool: Pool) -> None:
    """Supervisors that other tests have used are child processes."""
    pool.close()


@pytest.fixture(autouse=True)
def no_child_left() -> Iterator[None]:
    """Every test leaves no child process, running or dead."""
    yield
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)
