"""Ranks of vertices: how much lies before and behind them on the longest path."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from instances.files.columns import Floats
from instances.graph import Graph


def longest_behind(graph: Graph, vertex: Floats, edge: Floats | None = None) -> Floats:
    """The greatest sum of what vertices, and edges, take on a path from each vertex to a sink, shape (n,).

    Of complexities this is upRank, Equation (5); of times on devices and of transfers PCT, Equation (12). The vertex
    itself counts, also where the maximum of Equation (5) is over no successors: the text sums up "along the longest
    path from v_i to any sink", and Equation (12) says of sinks that they count themselves.
    """
    start, head = (column.tolist() for column in graph.out_csr)
    along = _by(graph.tail, edge, graph.edges)
    own, rank = vertex.tolist(), [0.0] * graph.nodes
    for v in reversed(graph.topological_order.tolist()):
        rank[v] = own[v] + max((along[e] + rank[head[e]] for e in range(start[v], start[v + 1])), default=0.0)
    return np.array(rank)


def longest_before(graph: Graph, vertex: Floats) -> Floats:
    """The same for paths from a source to each vertex, it included."""
    start, tail = (column.tolist() for column in graph.in_csr)
    own, rank = vertex.tolist(), [0.0] * graph.nodes
    for v in graph.topological_order.tolist():
        rank[v] = own[v] + max((rank[u] for u in tail[start[v] : start[v + 1]]), default=0.0)
    return np.array(rank)


def _by(end: NDArray[np.integer], values: Floats | None, edges: int) -> list[float]:
    """Values of edges in the order of a CSR form by one end."""
    if values is None:
        return [0.0] * edges
    column: list[float] = values[np.argsort(end, kind="stable")].tolist()
    return column


def total_rank(graph: Graph, complexity: Floats) -> Floats:
    """Upward and downward rank added up (Section 3.2.1): the longest path through each vertex, shape (n,).

    Equation (6) adds c_i, the vertex's own complexity, but the text says that downRank sums up that "of predecessor
    vertices", which is c_j, as in the downward rank of HEFT. Here the text counts: the vertices of longest paths have
    the greatest total rank then, which is what the paper wants it for, while with c_i, which upRank has already, large
    vertices anywhere would come before small ones of the critical path.

    The sum of halves is twice as far from overflow and has the same digits: the rank is at most the sum of all
    complexities, which is finite in an instance, but the sum of both ranks may not be.
    """
    return 2 * (longest_behind(graph, complexity) / 2 + longest_before(graph, complexity) / 2 - complexity / 2)
