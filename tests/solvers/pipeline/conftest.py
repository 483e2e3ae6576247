"""Small random instances, and what they cost by the definitions, computed without the solvers and the referee."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations, combinations_with_replacement, pairwise, permutations
from types import SimpleNamespace

import numpy as np
import pytest

from instances.graph import Graph
from instances.pipeline import Instance


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


def peak(instance: Instance, block: Sequence[int]) -> float:
    """Peak memory of a block whose nodes run in this order, from the definition, tensor by tensor."""
    inside, greatest = set(block), 0.0
    for at, v in enumerate(block):
        run, to_run = set(block[:at]), set(block[at:])
        held = {v}
        for u in range(instance.nodes):
            readers = set(instance.graph.successors(u).tolist())
            needed = bool(readers & to_run)
            if (u not in inside and needed) or (u in run and (needed or bool(readers - inside))):
                held.add(u)
        greatest = max(greatest, float(sum(instance.output_size[u] for u in held)))
    return greatest


def block_cost(instance: Instance, block: Sequence[int]) -> float:
    """Equation (3) for the nodes of a block, which run in this order."""
    inside, graph = set(block), instance.graph
    read = {u for v in block for u in graph.predecessors(v).tolist()} - inside
    sent = {v for v in block if set(graph.successors(v).tolist()) - inside}
    moved = sum(instance.output_size[u] for u in read) + sum(instance.output_size[u] for u in sent)
    if instance.memory is not None and block:
        need = sum(instance.param_size[v] for v in block) + peak(instance, block)
        moved += max(0.0, need - instance.memory)
    return float(sum(instance.work[v] for v in block) + moved / instance.bandwidth)


def slicing_optimum(instance: Instance, order: Sequence[int]) -> float:
    """Least bottleneck over all ways to cut an order into at most k segments."""
    n = instance.nodes
    cost = {(a, b): block_cost(instance, order[a:b]) for a in range(n + 1) for b in range(a, n + 1)}
    places = combinations_with_replacement(range(n + 1), instance.stages - 1)
    return min(max(cost[a, b] for a, b in pairwise((0, *cuts, n))) for cuts in places)


def partitions(nodes: int, stages: int) -> Iterator[list[list[int]]]:
    """All ways to put the nodes 0, 1, ... into at most ``stages`` blocks that are not empty."""

    def extend(at: int, so_far: list[list[int]]) -> Iterator[list[list[int]]]:
        if at == nodes:
            yield so_far
            return
        for i in range(len(so_far)):
            yield from extend(at + 1, [*so_far[:i], [*so_far[i], at], *so_far[i + 1 :]])
        if len(so_far) < stages:
            yield from extend(at + 1, [*so_far, [at]])

    return extend(0, [])


def acyclic(instance: Instance, blocks: list[list[int]]) -> bool:
    """Whether the quotient graph has no cycle: blocks without a predecessor are taken away until none is left."""
    number = {v: i for i, block in enumerate(blocks) for v in block}
    ends = zip(instance.graph.tail.tolist(), instance.graph.head.tolist(), strict=True)
    edges = {(number[u], number[v]) for u, v in ends}
    left = set(range(len(blocks)))
    while left:
        free = {b for b in left if not any(u in left and v == b and u != v for u, v in edges)}
        if not free:
            return False
        left -= free
    return True


def orders(instance: Instance, block: Sequence[int]) -> Iterator[Sequence[int]]:
    """All execution orders of a block; where memory is unlimited one stands for all."""
    if instance.memory is None:
        yield block
        return
    edges = set(zip(instance.graph.tail.tolist(), instance.graph.head.tolist(), strict=True))
    for order in permutations(block):
        if not any((later, earlier) in edges for earlier, later in combinations(order, 2)):
            yield order


def partition_optimum(instance: Instance) -> float:
    """Least bottleneck over all acyclic partitions into at most k blocks, and over their execution orders."""
    known: dict[tuple[int, ...], float] = {}

    def cost(block: list[int]) -> float:
        key = tuple(block)
        if key not in known:
            known[key] = min(block_cost(instance, order) for order in orders(instance, block))
        return known[key]

    best = np.inf
    for blocks in partitions(instance.nodes, instance.stages):
        value = max(map(cost, blocks), default=0.0)
        if value < best and acyclic(instance, blocks):
            best = value
    return float(best)


@pytest.fixture(scope="session")
def oracle() -> SimpleNamespace:
    """The functions above."""
    return SimpleNamespace(
        make=make,
        draw=draw,
        block_cost=block_cost,
        slicing_optimum=slicing_optimum,
        partition_optimum=partition_optimum,
    )
