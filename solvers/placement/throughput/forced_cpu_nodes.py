"""Nodes that the only CPU must take if sets are contiguous: those between nodes that no accelerator can hold."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from shardmark.instances.graph import Graph
from shardmark.instances.placement import Instance

Marks = NDArray[np.bool_]

#: Most rounds; each may force more nodes, and stopping after any of them is valid.
ROUNDS = 30


def with_forced_nodes(instance: Instance) -> Instance:
    """An equivalent instance in which forced nodes must be on the CPU, as one class.

    With one CPU and contiguous sets, nodes on a path between two CPU nodes of the same pass are on the CPU too, and so
    are their colour classes. Returns the instance itself if that forces nothing.
    """
    if instance.cpus != 1 or instance.contiguity == "free" or instance.objective != "throughput":
        return instance
    forced = forced_nodes(instance)
    if np.count_nonzero(forced) < 2:
        return instance
    colour = np.where(forced, instance.colour.max() + 1, instance.colour)
    return replace(instance, supported=instance.supported & ~forced, colour=colour)


def forced_nodes(instance: Instance) -> Marks:
    """Nodes that are on the only CPU in every contiguous placement, shape (n,)."""
    accelerator, _ = instance.unit_times()
    forced: Marks = np.isinf(accelerator)[instance.unit]
    for _ in range(ROUNDS):
        count = np.count_nonzero(forced)
        if not 0 < count < instance.nodes:
            break
        forced = forced | _between(instance, forced)
        forced = (np.bincount(instance.unit, weights=forced) > 0)[instance.unit]
        if np.count_nonzero(forced) == count:
            break
    return forced


def _between(instance: Instance, members: Marks) -> Marks:
    """Nodes on a path between two members of the same pass; no path leads back from backward to forward nodes."""
    found = np.zeros(instance.nodes, dtype=np.bool_)
    for part in (instance.backward, ~instance.backward):
        ends = members & part
        found |= _reached(instance.graph, ends, part) & _reached(instance.graph, ends, part, back=True)
    return found


def _reached(graph: Graph, ends: Marks, part: Marks, back: bool = False) -> Marks:
    """Nodes that a path in a part leads to from an end (``back``: that reach an end by one), including the ends."""
    start, neighbour = (column.tolist() for column in (graph.out_csr if back else graph.in_csr))
    order = graph.topological_order.tolist()
    reached, inside = ends.tolist(), part.tolist()
    for v in reversed(order) if back else order:
        if inside[v] and not reached[v]:
            reached[v] = any(reached[u] and inside[u] for u in neighbour[start[v] : start[v + 1]])
    return np.array(reached, dtype=np.bool_)
