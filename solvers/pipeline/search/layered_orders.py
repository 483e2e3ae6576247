"""First orders: by distance from the sources or to the sinks, depth first, and with readers of one tensor together."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shardmark.instances.graph import Graph, Index
from shardmark.instances.pipeline import Instance


def layered_orders(instance: Instance) -> Iterator[Index]:
    """Topological orders of a graph, each of shape (n,), int32, such that few tensors cross where they are cut.

    Two are in layers; one ends a path before it begins the next, so that few paths are open. If some tensor has
    several readers, the last order is made for the one that costs most if each reader receives it: first all nodes
    before its readers, then the readers, then the rest. A layer ends wherever a path enters or leaves the readers.
    """
    graph = instance.graph
    tail, head = _in_order(graph)
    everywhere = np.ones(graph.edges, dtype=np.int64)
    depth = _layers(graph.nodes, tail, head, everywhere)
    yield _sorted_by(depth)
    yield _sorted_by(-_layers(graph.nodes, head[::-1], tail[::-1], everywhere))
    yield _depth_first(graph)
    readers = np.bincount(tail, minlength=graph.nodes)
    again = instance.output_size * np.maximum(readers - 1, 0)
    if np.any(again > 0):
        reads = np.zeros(graph.nodes, dtype=bool)
        reads[graph.successors(int(np.argmax(again)))] = True
        turns = _layers(graph.nodes, tail, head, reads[tail] != reads[head])
        yield _sorted_by(turns, depth)


def _depth_first(graph: Graph) -> Index:
    """The sinks one after another, each right after all that it needs and that is not there yet."""
    unread = [iter(graph.predecessors(v).tolist()) for v in range(graph.nodes)]
    order: dict[int, None] = {}
    for sink in np.flatnonzero(np.diff(graph.out_csr[0]) == 0).tolist():
        path = [sink]
        while path:
            u = next((u for u in unread[path[-1]] if u not in order), None)
            if u is None:
                order[path.pop()] = None
            else:
                path.append(u)
    return np.fromiter(order, dtype=np.int32, count=graph.nodes)


def _sorted_by(*keys: NDArray[np.int64]) -> Index:
    """Nodes in lexicographic order of the keys, the first one first."""
    return np.lexsort(keys[::-1]).astype(np.int32)


def _in_order(graph: Graph) -> tuple[NDArray[Any], NDArray[Any]]:
    """Tails and heads of the edges, in topological order of the tails; back to front, that of the reversed graph."""
    rank = np.empty(graph.nodes, dtype=np.int64)
    rank[graph.topological_order] = np.arange(graph.nodes)
    edges = np.argsort(rank[graph.tail], kind="stable")
    return graph.tail[edges], graph.head[edges]


def _layers(nodes: int, tail: NDArray[Any], head: NDArray[Any], length: NDArray[Any]) -> NDArray[np.int64]:
    """Length of the longest path to each node, shape (n,), for edges in order and their lengths, shape (edges,)."""
    layer = [0] * nodes
    for u, v, more in zip(tail.tolist(), head.tolist(), length.tolist(), strict=True):
        layer[v] = max(layer[v], layer[u] + more)
    return np.array(layer, dtype=np.int64)
