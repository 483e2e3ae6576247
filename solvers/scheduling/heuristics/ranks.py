"""Ranks of vertices: lengths of the longest paths before and behind them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from shardmark.instances.files.columns import Floats
from shardmark.instances.graph import Graph


def longest_behind(graph: Graph, vertex: Floats, edge: Floats | None = None) -> Floats:
    """The longest path from each vertex to a sink, shape (n,), as the sum of values of vertices and edges.

    With complexities this is upRank, Equation (5); with times on devices and of transfers it is PCT, Equation (12). The
    vertex itself counts, even a sink, for which the maximum of Equation (5) is over no successors: the text sums "along
    the longest path from v_i to any sink", and Equation (12) counts sinks too.
    """
    start, head = (column.tolist() for column in graph.out_csr)
    along = _edge_values(graph.tail, edge, graph.edges)
    own, rank = vertex.tolist(), [0.0] * graph.nodes
    for v in reversed(graph.topological_order.tolist()):
        rank[v] = own[v] + max((along[e] + rank[head[e]] for e in range(start[v], start[v + 1])), default=0.0)
    return np.array(rank)


def longest_before(graph: Graph, vertex: Floats) -> Floats:
    """The longest path from a source to each vertex, including the vertex."""
    start, tail = (column.tolist() for column in graph.in_csr)
    own, rank = vertex.tolist(), [0.0] * graph.nodes
    for v in graph.topological_order.tolist():
        rank[v] = own[v] + max((rank[u] for u in tail[start[v] : start[v + 1]]), default=0.0)
    return np.array(rank)


def _edge_values(end: NDArray[np.integer], values: Floats | None, edges: int) -> list[float]:
    """Values of edges in the order of a CSR form by one end."""
    if values is None:
        return [0.0] * edges
    column: list[float] = values[np.argsort(end, kind="stable")].tolist()
    return column


def total_rank(graph: Graph, complexity: Floats) -> Floats:
    """Sum of upward and downward rank (Section 3.2.1): the longest path through each vertex, shape (n,).

    Equation (6) adds c_i, the complexity of the vertex itself, but the text says that downRank sums that "of
    predecessor vertices", c_j, as in the downward rank of HEFT. The text is followed here: then the vertices of longest
    paths have the greatest total rank, as the paper intends. With c_i, which upRank already contains, large vertices
    anywhere would come before small ones of the critical path.

    Halves are added, as the sum of both ranks could overflow; the digits are the same, and the rank itself is at most
    the sum of all complexities, which is finite in an instance.
    """
    return 2 * (longest_behind(graph, complexity) / 2 + longest_before(graph, complexity) / 2 - complexity / 2)
