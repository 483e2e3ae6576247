"""Labels that tell which sets are contiguous: nodes before the set, in it, or after it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from shardmark.instances.graph import csr
from shardmark.instances.placement import Instance
from shardmark.solvers.placement.kernels.loads import Nets

#: A set is contiguous if its nodes can be labelled `WITHIN` and all others `BEFORE` or `AFTER` such that labels do not
#: fall along any edge.
BEFORE, WITHIN, AFTER = 0, 1, 2


@dataclass(frozen=True)
class Precedence:
    """The edges along which labels do not fall: those within a pass; none if sets may have any shape.

    ``nodes``          per item, its nodes with such edges, in topological order
    ``before, after``  per node, its neighbours along these edges
    """

    nodes: list[list[int]]
    before: list[list[int]]
    after: list[list[int]]

    @property
    def any(self) -> bool:
        """True if there is an edge."""
        return any(self.nodes)


def precedence(instance: Instance, items: int) -> Precedence:
    """The edges for an instance whose units are the items."""
    before: list[list[int]] = [[] for _ in range(instance.nodes)]
    after: list[list[int]] = [[] for _ in range(instance.nodes)]
    nodes: list[list[int]] = [[] for _ in range(items)]
    if instance.contiguity != "free":
        for u, v in zip(*_within_passes(instance), strict=True):
            before[v].append(u)
            after[u].append(v)
    unit = instance.unit.tolist()
    for v in instance.graph.topological_order.tolist():
        if before[v] or after[v]:
            nodes[unit[v]].append(v)
    return Precedence(nodes, before, after)


def joined(nets: Nets, instance: Instance, edges: Precedence) -> list[Nets]:
    """Nets, with more of which an order should keep few open at a time, too.

    Either pairs of items that an edge joins, or every node with its neighbours; just the nets without edges.
    """
    if not edges.any:
        return [nets]
    unit = instance.unit.tolist()
    pairs = {tuple({unit[u], unit[v]}) for u, after in enumerate(edges.after) for v in after}
    near = {tuple({unit[u] for u in (v, *edges.before[v], *edges.after[v])}) for some in edges.nodes for v in some}
    return [_with(nets, pairs), _with(nets, near)]


def _with(nets: Nets, more: set[tuple[int, ...]]) -> Nets:
    items, several = len(nets.start) - 1, sorted(units for units in more if len(units) > 1)
    counts = np.array([len(units) for units in several], dtype=np.int32)
    pins = np.concatenate([np.repeat(np.arange(items), np.diff(nets.start)), *map(np.array, several)])
    numbers = np.concatenate([nets.of, np.repeat(len(nets.cost) + np.arange(len(counts)), counts)])
    start, of = csr(items, pins.astype(np.int64), numbers.astype(np.int32))
    cost = np.append(nets.cost, np.zeros(len(counts)))
    return Nets(start, of, cost, np.append(nets.members, counts))


def _within_passes(instance: Instance) -> tuple[list[int], list[int]]:
    tail, head = instance.graph.tail, instance.graph.head
    same = instance.backward[tail] == instance.backward[head]
    return tail[same].tolist(), head[same].tolist()
