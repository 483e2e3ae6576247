"""Branchings of a graph, each contracted to one node, so that the graph becomes a path."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from shardmark.instances.errors import InputError
from shardmark.instances.files.columns import Ints
from shardmark.instances.graph import Index, csr, strong_components
from shardmark.instances.placement import Instance
from shardmark.solvers.placement.ideals.blocks import edges_between
from shardmark.solvers.registry import Declined


def contract_branchings(instance: Instance, light: float) -> Instance:
    """The instance with a colour class for each branching, without its last nodes.

    A branching is a biconnected component of the undirected graph of units, for each pass separately; its class has the
    nodes with an edge to another of its nodes. `side_inputs` are ignored. Declined if a branching fits no device.
    """
    part = 2 * instance.unit + instance.backward
    joining = ~side_inputs(instance, light)[instance.graph.tail]
    tail, head = edges_between(part, instance.graph.tail[joining], instance.graph.head[joining])
    units = int(instance.unit.max(initial=-1)) + 1
    component = biconnected_components(2 * units, tail, head)
    of_each = 2 * units + component  # a vertex for each component, tied to the units in it
    passes = np.arange(2 * units)
    united = strong_components(
        2 * units + int(component.max(initial=-1)) + 1,
        np.concatenate([tail, of_each, passes]),
        np.concatenate([of_each, tail, passes ^ 1]),
    )
    try:
        return replace(instance, colour=_numbered(united[2 * instance.unit]))
    except InputError as error:
        raise Declined(f"a branching of the graph fits no device: {error}") from None


def side_inputs(instance: Instance, light: float) -> NDArray[np.bool_]:
    """Mask, shape (n,): nodes without time whose tensor takes at most the share ``light`` of the median tensor's time.

    Masks and sequence lengths, which every layer reads, are such nodes; they do not occur in PipeDream's graphs.
    """
    sent = instance.transfer[np.diff(instance.graph.out_csr[0]) > 0]
    idle = (instance.accelerator_time == 0) & (instance.cpu_time == 0)
    return idle & (instance.transfer <= light * (np.median(sent) if len(sent) else 0.0))


def biconnected_components(nodes: int, tail: Ints, head: Ints) -> Ints:
    """Shape (edges,): the biconnected component of each edge of a graph without loops, taken as undirected.

    A tree edge belongs to the component of the tree edge above it if something below it is joined to something above
    both; another edge belongs to that of its lower end. Tarjan 1972.
    """
    start, other = csr(nodes, np.concatenate([tail, head]), np.concatenate([head, tail]).astype(np.int32))
    start, neighbours = start.tolist(), other.tolist()
    order, parent = _depth_first(nodes, start, neighbours)
    place = np.empty(nodes, dtype=np.int64)
    place[order] = np.arange(nodes)
    above = place.tolist()
    for v in reversed(order):
        for w in neighbours[start[v] : start[v + 1]]:
            if w != parent[v]:
                above[v] = min(above[v], above[w] if parent[w] == v else int(place[w]))
    component = [-1] * nodes
    found = 0
    for v in order:
        u = parent[v]
        if u >= 0 and component[u] >= 0 and above[v] < place[u]:
            component[v] = component[u]
        elif u >= 0:
            component[v], found = found, found + 1
    return np.array(component, dtype=np.int64)[np.where(place[tail] > place[head], tail, head)]


def _depth_first(nodes: int, start: list[int], neighbours: list[int]) -> tuple[list[int], list[int]]:
    """The nodes in the order of a depth first search, and the parent of each, -1 for roots."""
    order, parent, seen, at = list[int](), [-1] * nodes, [False] * nodes, start[:-1]
    for root in range(nodes):
        path = [] if seen[root] else [root]
        while path:
            v = path[-1]
            if not seen[v]:
                seen[v] = True
                order.append(v)
            while at[v] < start[v + 1] and seen[neighbours[at[v]]]:
                at[v] += 1
            if at[v] == start[v + 1]:
                path.pop()
            else:
                parent[neighbours[at[v]]] = v
                path.append(neighbours[at[v]])
    return order, parent


def _numbered(label: Index) -> Ints:
    """Labels as 0, 1, ... in the order in which they first occur."""
    first, number = np.unique(label, return_index=True, return_inverse=True)[1:]
    return np.argsort(np.argsort(first)).astype(np.int64)[number.reshape(-1)]
