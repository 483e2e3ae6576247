"""Layers of an acyclic graph: every edge leads from a layer to a greater one."""

from __future__ import annotations

from collections.abc import Sequence

Edges = Sequence[tuple[int, int]]
Lists = list[list[int]]


def layers(nodes: int, edges: Edges) -> list[int]:
    """The layer of each node, 0, 1, ...: every edge leads to a greater one.

    Nodes without successors are as early as possible; all others are as late as possible, so that a node without
    predecessors, such as a weight, is next to its reader.
    """
    after, before = neighbours(nodes, edges)
    waiting = [len(found) for found in before]
    order = [v for v in range(nodes) if not waiting[v]]
    layer = [0] * nodes
    for v in order:  # grows in the loop
        for w in after[v]:
            layer[w] = max(layer[w], layer[v] + 1)
            waiting[w] -= 1
            if not waiting[w]:
                order.append(w)
    for v in reversed(order):
        if after[v]:
            layer[v] = min(layer[w] for w in after[v]) - 1
    return layer


def neighbours(nodes: int, edges: Edges) -> tuple[Lists, Lists]:
    """The successors and the predecessors of each node."""
    after: Lists = [[] for _ in range(nodes)]
    before: Lists = [[] for _ in range(nodes)]
    for tail, head in edges:
        after[tail].append(head)
        before[head].append(tail)
    return after, before


def positions(layer: Sequence[int], of: Sequence[int], parts: int) -> list[float]:
    """Position of each part along the graph: the layer that a tenth of its nodes lie below.

    In a training step, in which the first part also runs the end of the backward pass, a mean would not tell.
    """
    held: Lists = [[] for _ in range(parts)]
    for v, part in enumerate(of):
        held[part].append(layer[v])
    return [float(sorted(found)[len(found) // 10]) if found else 0.0 for found in held]
