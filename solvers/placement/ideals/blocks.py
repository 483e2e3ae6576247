"""Blocks in topological order: colocation units, and units on a common cycle, which no contiguous placement parts."""

from __future__ import annotations

import numpy as np

from instances.files.columns import Ints
from instances.graph import Graph, strong_components
from instances.placement import Instance


def blocks(instance: Instance) -> Ints:
    """Shape (n,): the block of each node, 0, 1, ... in a topological order, smallest node first.

    Forward edges lead from a block to itself or a later one. So do backward edges of a training graph, or they all do
    so reversed, as in backpropagation: whichever leaves more blocks.
    """
    ways = [_ordered(instance.unit, *ends) for ends in orders(instance)]
    return max(ways, key=lambda block: int(block.max(initial=-1)))


def orders(instance: Instance) -> list[tuple[Ints, Ints]]:
    """Units at both ends of the edges that order devices: backward edges reversed; if there are any, also as they are.

    Edges to the backward pass order nothing.
    """
    tail, head, unit = instance.graph.tail, instance.graph.head, instance.unit
    ordering = instance.backward[tail] == instance.backward[head]
    tail, head = tail[ordering], head[ordering]
    back = instance.backward[tail]
    ways = (back, np.zeros_like(back)) if back.any() else (back,)
    return [(unit[np.where(turned, head, tail)], unit[np.where(turned, tail, head)]) for turned in ways]


def _ordered(unit: Ints, tail: Ints, head: Ints) -> Ints:
    """The rank of each node's component of units among all, where components follow edges of units."""
    units = int(unit.max(initial=-1)) + 1
    pairs = np.unique(np.column_stack([tail, head]), axis=0)
    component = strong_components(units, *pairs.T)
    first = np.unique(component, return_index=True)[1]
    number = np.argsort(np.argsort(first))[component]
    ends = np.unique(number[pairs], axis=0)
    ends = ends[ends[:, 0] != ends[:, 1]]
    order = Graph(int(number.max(initial=-1)) + 1, ends[:, 0], ends[:, 1]).topological_order
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order))
    return rank[number][unit]
