"""Numbers of nodes from the end of the pipeline, as the kernels count them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from shardmark.instances.files.columns import Ints
from shardmark.instances.graph import Graph, Index


@dataclass(frozen=True, eq=False)
class Numbering:
    """Nodes numbered along a topological order, from its end.

    ``node``    shape (n,), int64: node of the instance by number
    ``number``  shape (n,), int32: number by node
    ``graph``   the reversed graph of the numbers, whose edges, in the order of the instance, lead to greater numbers
    """

    node: Ints
    number: Index
    graph: Graph

    @classmethod
    def along(cls, graph: Graph, order: Index | None = None) -> Self:
        """The numbering of a graph's nodes for a topological order, shape (n,), by default its own."""
        node = (graph.topological_order if order is None else order)[::-1].astype(np.int64)
        number = np.empty(graph.nodes, dtype=np.int32)
        number[node] = np.arange(graph.nodes, dtype=np.int32)
        return cls(node, number, Graph(graph.nodes, number[graph.head], number[graph.tail]))
