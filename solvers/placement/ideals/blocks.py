"""Blocks in topological order: colocation units, merged if on a common cycle, so never separated if contiguous."""

from __future__ import annotations

from typing import Any

import numpy as np

from shardmark.instances.files.columns import Ints
from shardmark.instances.graph import Graph, Index, strong_components
from shardmark.instances.placement import Instance


def blocks(instance: Instance) -> Ints:
    """Shape (n,): the block of each node, 0, 1, ... in a topological order, smallest node first.

    Forward edges lead from a block to itself or a later one. In a training graph, so do either all backward edges or
    all reversed ones, as in backpropagation: whichever gives more blocks.
    """
    ways = [_ordered(instance.unit, *ends) for ends in orders(instance)]
    return max(ways, key=lambda block: int(block.max(initial=-1)))


def orders(instance: Instance) -> list[tuple[Ints, Ints]]:
    """Ends, as units, of the edges that order devices: with backward edges reversed and, if there are any, as given.

    Edges from the forward to the backward pass impose no order.
    """
    tail, head, unit = instance.graph.tail, instance.graph.head, instance.unit
    ordering = instance.backward[tail] == instance.backward[head]
    tail, head = tail[ordering], head[ordering]
    back = instance.backward[tail]
    ways = (back, np.zeros_like(back)) if back.any() else (back,)
    return [(unit[np.where(turned, head, tail)], unit[np.where(turned, tail, head)]) for turned in ways]


def edges_between(part: Ints | Index, tail: Ints | Index, head: Ints | Index) -> tuple[Any, Any]:
    """Return ``(tail, head)``: edges between parts of nodes, each once, given the part of each node, shape (n,)."""
    pairs = np.unique(np.column_stack([part[tail], part[head]]), axis=0)
    return tuple(pairs[pairs[:, 0] != pairs[:, 1]].T)


def _ordered(unit: Ints, tail: Ints, head: Ints) -> Ints:
    """The rank of each node's strongly connected component of units, in a topological order."""
    component = strong_components(int(unit.max(initial=-1)) + 1, tail, head)
    first = np.unique(component, return_index=True)[1]
    number = np.argsort(np.argsort(first))[component]
    order = Graph(len(first), *edges_between(number, tail, head)).topological_order
    return np.argsort(order)[number][unit]
