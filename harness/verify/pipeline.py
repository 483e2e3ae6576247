"""Verdicts for ``pipeline``: an acyclic partition into stages, and the cost of the slowest.

Definition: "Practical Performance Guarantees for Pipelined DNN Inference", Section 2.2, Equations (1) to (4). The
paper calls a stage a block, and so does the key of a solution with an order.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shardmark.harness.verify import Parts, Transfer, Verdict, malformed, misplaced
from shardmark.instances.files.columns import Floats, Ints
from shardmark.instances.graph import Graph, find_cycle
from shardmark.instances.pipeline import Instance

Exact = NDArray[np.object_]  # of Python ints


def verify(instance: Instance, solution: Any) -> Verdict:
    """Judge a list of n stage numbers, or ``{"block": [...], "order": [...]}`` with an execution order.

    The cost is computed in exact arithmetic and rounded to float64 once. It is None if a stage number or the order is
    invalid; a partition whose quotient graph has a cycle still has a cost.
    """
    read = _read(instance, solution)
    if isinstance(read, str):
        return malformed(read)
    partition, order, reason = read
    violations = partition.cycle()
    if reason:
        return malformed(*violations, reason)
    cost = _stage_times(instance, partition, order).bottleneck if instance.nodes else 0.0
    return Verdict(not violations, cost, violations)


def _read(instance: Instance, solution: Any) -> tuple[Partition, list[int] | None, str] | str:
    """Return the partition, the order, and what is wrong with the order; or why there is no partition."""
    if isinstance(solution, dict) and not {"block"} <= solution.keys() <= {"block", "order"}:
        found = ", ".join(map(repr, solution)) or "none"
        expected = f"a list of {instance.nodes} stages, or an object with the keys block and order"
        return f"solution: expected {expected}, found {found}"
    stage, order = (solution["block"], solution.get("order")) if isinstance(solution, dict) else (solution, None)
    n = instance.nodes
    reason = misplaced(stage, [instance.stages] * n, "a stage", "solution" if stage is solution else "block")
    if reason:
        return reason
    partition = Partition(instance.graph, np.array(stage, dtype=np.int64))
    wrong = "" if order is None else misplaced(order, [n] * n, "a node index", "order") or partition.disorder(order)
    return partition, order, wrong


def parts(instance: Instance, solution: Any) -> Parts | None:
    """Return the stages of a solution that hold nodes; None if it is malformed."""
    read = _read(instance, solution)
    if isinstance(read, str) or read[2]:
        return None
    if not instance.nodes:
        return Parts([], [], [])
    partition, order, _ = read
    times = _stage_times(instance, partition, order)
    names = [f"stage {number}" for number in np.unique(partition.number).tolist()]
    kinds = [[row] for row in times.kinds]
    return Parts(
        partition.stage.tolist(), names, [False] * len(names), times.costs, kinds, _transfers(instance, partition)
    )


def _transfers(instance: Instance, partition: Partition) -> list[Transfer]:
    """Return the tensors between stages: one counts once for each stage that receives it."""
    tail, head = (ends[partition.crossing] for ends in (instance.graph.tail, instance.graph.head))
    tensors = np.unique(np.column_stack([tail, partition.stage[head]]), axis=0)
    found: dict[tuple[int, int], list[float]] = {}
    for node, target in tensors.tolist():
        found.setdefault((int(partition.stage[node]), target), []).append(float(instance.output_size[node]))
    return [Transfer(*ends, len(sizes), math.fsum(sizes) / instance.bandwidth) for ends, sizes in sorted(found.items())]


@dataclass(frozen=True, eq=False)
class Partition:
    """A graph whose node v lies in the stage ``number[v]``, shape (n,)."""

    graph: Graph
    number: Ints

    @cached_property
    def stage(self) -> Ints:
        """The stages that have nodes, numbered 0, 1, ... in the order of their own numbers; shape (n,)."""
        return np.unique(self.number, return_inverse=True)[1]

    @cached_property
    def crossing(self) -> NDArray[np.bool_]:
        """Edges that lead from one stage to another: mask of shape (m,)."""
        return self.number[self.graph.tail] != self.number[self.graph.head]

    def cycle(self) -> tuple[str, ...]:
        """Return a sentence on the stages and edges of a cycle in the quotient graph, if there is one."""
        tail, head = self.graph.tail[self.crossing], self.graph.head[self.crossing]
        stages = find_cycle(self.graph.nodes, self.stage[tail], self.stage[head])
        if not stages:
            return ()
        pairs = {(self.stage[u], self.stage[v]): (u, v) for u, v in zip(tail[::-1], head[::-1], strict=True)}
        edges = [pairs[step] for step in pairwise(stages)]
        path = " -> ".join(str(self.number[u]) for u, _ in [*edges, edges[0]])
        shown = ", ".join(f"{u} -> {v}" for u, v in edges)
        return (f"solution: expected no cycle among the stages, found {path} through the edges {shown}",)

    def disorder(self, order: list[int]) -> str:
        """Return why ``order``, node indices, is no order of execution; "" if it is one."""
        rank = np.full(self.graph.nodes, -1)
        rank[order] = np.arange(len(order))
        if (rank < 0).any():
            return f"order: expected every node once, but node {int(np.argmax(rank < 0))} is missing"
        tail, head = self.graph.tail, self.graph.head
        late = ~self.crossing & (rank[tail] > rank[head])
        if late.any():
            u, v = (int(column[np.argmax(late)]) for column in (tail, head))
            return f"order[{rank[v]}]: expected node {u} before node {v}, which consumes its output in the same stage"
        return ""


@dataclass(frozen=True, eq=False)
class StageTimes:
    """Terms of the cost of every stage, Equation (3), each of shape (stages,), exact, in 1 / ``unit``."""

    work: Exact
    received: Exact
    sent: Exact
    overflow: Exact
    bandwidth: Fraction
    unit: int

    @property
    def costs(self) -> list[float]:
        """The cost of every stage."""
        return [float(cost / self.unit) for cost in self._exact_costs]

    @property
    def bottleneck(self) -> float:
        """The greatest cost."""
        return float(max(self._exact_costs) / self.unit)

    @property
    def kinds(self) -> list[dict[str, float]]:
        """The terms of every stage as times, by kind."""
        moving = (self.received / self.bandwidth, self.sent / self.bandwidth, self.overflow / self.bandwidth)
        columns = {"in": moving[0], "work": self.work, "out": moving[1], "overflow": moving[2]}
        rows = zip(*columns.values(), strict=True)
        return [{kind: float(Fraction(t) / self.unit) for kind, t in zip(columns, row, strict=True)} for row in rows]

    @property
    def _exact_costs(self) -> Exact:
        exact: Exact = self.work + (self.received + self.sent + self.overflow) / self.bandwidth
        return exact


def _stage_times(instance: Instance, partition: Partition, order: list[int] | None) -> StageTimes:
    """Return the terms of the cost of every stage."""
    graph, stage, crossing = instance.graph, partition.stage, partition.crossing
    work, size, params, unit = _exact(instance.work, instance.output_size, instance.param_size)
    computing, streaming = _totals(stage, work), _totals(stage, params)

    # Equation (1): a tensor counts once for each stage that receives it, and once for the stage that sends it.
    pairs = np.unique(stage[graph.head[crossing]] * graph.nodes + graph.tail[crossing])
    producers = np.unique(graph.tail[crossing])
    received, sent, overflow = (np.zeros_like(computing) for _ in range(3))
    np.add.at(received, pairs // graph.nodes, size[pairs % graph.nodes])
    np.add.at(sent, stage[producers], size[producers])

    if instance.memory is not None:  # Equation (2)
        excess = streaming + _peaks(partition, size, order) - Fraction(instance.memory) * unit
        overflow = np.maximum(excess, 0)
    return StageTimes(computing, received, sent, overflow, Fraction(instance.bandwidth), unit)


def _exact(*columns: Floats) -> tuple[Any, ...]:
    """Return the columns as Python ints in one common unit, and the reciprocal of that unit."""
    ratios = [[value.as_integer_ratio() for value in column.tolist()] for column in columns]
    unit = max(denominator for column in ratios for _, denominator in column)  # all are powers of two
    whole = [np.array([a * (unit // b) for a, b in column], dtype=object) for column in ratios]
    return (*whole, unit)


def _totals(stage: Ints, values: Exact) -> Exact:
    totals = np.array([0] * (int(stage.max()) + 1), dtype=object)
    np.add.at(totals, stage, values)
    return totals


def _peaks(partition: Partition, size: Exact, order: list[int] | None) -> Exact:
    """Return the peak memory for tensors in each stage while its nodes execute one after another, shape (stages,).

    While a node executes, these are in memory, each once: tensors from outside, from the stage's start until
    their last consumer in it has executed; tensors of the stage until theirs has, or to the stage's end if a
    node outside consumes them; the node's own output.
    """
    graph, stage, crossing = partition.graph, partition.stage, partition.crossing
    tail, head = graph.tail, graph.head
    if order is None:
        order = Graph(graph.nodes, tail[~crossing], head[~crossing]).topological_order.tolist()
    rank = np.empty(graph.nodes, dtype=np.int64)
    rank[order] = np.arange(graph.nodes)
    position = np.empty(graph.nodes, dtype=np.int64)  # in one sequence, stage after stage
    position[np.lexsort((rank, stage))] = np.arange(graph.nodes)
    last = np.cumsum(np.bincount(stage)) - 1
    first = np.append(0, last[:-1] + 1)

    made_until = position.copy()
    np.maximum.at(made_until, tail[~crossing], position[head[~crossing]])
    made_until[tail[crossing]] = last[stage[tail[crossing]]]
    key, copy = np.unique(stage[head[crossing]] * graph.nodes + tail[crossing], return_inverse=True)
    kept_until = np.zeros(len(key), dtype=np.int64)
    np.maximum.at(kept_until, copy, position[head[crossing]])

    change = np.array([0] * (graph.nodes + 1), dtype=object)
    np.add.at(change, position, size)
    np.subtract.at(change, made_until + 1, size)
    np.add.at(change, first[key // graph.nodes], size[key % graph.nodes])
    np.subtract.at(change, kept_until + 1, size[key % graph.nodes])
    return np.maximum.reduceat(np.cumsum(change)[:-1], first)
