"""The reversed graph of an instance in blocks, and what must be or cannot be in a set of last stages."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from shardmark.instances.files.columns import Ints
from shardmark.instances.graph import Graph, Index

Relation = NDArray[np.bool_]

#: Most ideals of a block that are listed.
LISTED = 400
#: Largest block whose nodes are compared with each other; in greater ones, all count as incomparable.
COMPARED = 6000


@dataclass(frozen=True, eq=False)
class Order:
    """Nodes numbered from the end of the pipeline, in blocks: every node of a block precedes those of later ones.

    A node that is comparable with all others is a block of its own.

    ``node``   shape (n,), int64: node of the instance by number
    ``tail`` ``head``  shape (m,), int32: edges of the reversed graph, which lead to greater numbers
    ``start``  shape (blocks + 1,), int64: the numbers of block i are ``start[i]:start[i + 1]``
    """

    node: Ints
    tail: Index
    head: Index
    start: Ints

    @staticmethod
    def of(graph: Graph) -> Order:
        """The order of a graph."""
        node = graph.topological_order[::-1].astype(np.int64)
        number = np.empty(graph.nodes, dtype=np.int32)
        number[node] = np.arange(graph.nodes, dtype=np.int32)
        tail, head = number[graph.head], number[graph.tail]
        return Order(node, tail, head, _starts(graph.nodes, tail, head))

    @cached_property
    def closures(self) -> list[tuple[int, Relation]]:
        """For each block of several nodes, its start and its relation "is or precedes", shape (b, b)."""
        found = []
        for a, b in zip(self.start[:-1].tolist(), self.start[1:].tolist(), strict=True):
            if b - a > 1:
                found.append((a, self._closure(a, b)))
        return found

    def _closure(self, a: int, b: int) -> Relation:
        before = np.eye(b - a, dtype=bool)
        if b - a <= COMPARED:
            inner = np.flatnonzero((self.tail >= a) & (self.head < b))
            for e in inner[np.argsort(self.head[inner], kind="stable")].tolist():
                before[:, self.head[e] - a] |= before[:, self.tail[e] - a]
        return before

    @cached_property
    def blocks(self) -> list[tuple[tuple[int, Relation], Relation | None]]:
        """The `closures`, each with its ideals but the least and the greatest, shape (i, b); None: too many."""
        known: dict[bytes, Relation | None] = {}
        for _, before in self.closures:
            if before.tobytes() not in known:
                known[before.tobytes()] = _ideals(before)
        return [((a, before), known[before.tobytes()]) for a, before in self.closures]

    def certain(self, price: Ints) -> tuple[Ints, Ints]:
        """Positions from which every ideal has a node, and until which none has it, shape (n,) each.

        The position of an ideal of the reversed graph is the sum of the ``price`` of its nodes, shape (n,).
        """
        until = np.concatenate([[0], np.cumsum(price)[self.start[1:] - 1]])
        block = np.repeat(np.arange(len(self.start) - 1), np.diff(self.start))
        first, last = until[block] + price, until[block + 1] - price
        for a, before in self.closures:
            own = price[a : a + len(before)].astype(np.float64)
            first[a : a + len(before)] += (own @ before).astype(np.int64) - price[a : a + len(before)]
            last[a : a + len(before)] -= (before @ own).astype(np.int64) - price[a : a + len(before)]
        return last + 1, first - 1


def _starts(nodes: int, tail: Index, head: Index) -> Ints:
    """Starts of blocks: at every node comparable with all others, and after it.

    All earlier nodes lead to a node if each has an edge to it or to a node before; likewise for later ones.
    """
    to, back = np.full(nodes, nodes), np.full(nodes, -1)
    np.minimum.at(to, tail, head)
    np.maximum.at(back, head, tail)
    at = np.arange(nodes)
    before = np.append(-1, np.maximum.accumulate(to)[:-1]) <= at
    after = np.append(np.minimum.accumulate(back[::-1])[::-1][1:], nodes) >= at
    alone = np.flatnonzero(before & after)
    return np.unique(np.concatenate([[0], alone, alone + 1, [nodes]]))


def _ideals(before: Relation) -> Relation | None:
    """Nonempty proper ideals of a relation "is or precedes", at most `LISTED`, else None."""
    size = len(before)
    needed = [sum(1 << int(u) for u in np.flatnonzero(column)) for column in before.T]
    found, grown = {0}, [0]
    while grown:
        ideal = grown.pop()
        for v in range(size):
            larger = ideal | 1 << v
            if larger not in found and not needed[v] & ~larger:
                if len(found) > LISTED:
                    return None
                found.add(larger)
                grown.append(larger)
    inner = sorted(found - {0, (1 << size) - 1})
    return np.array([[ideal >> v & 1 for v in range(size)] for ideal in inner], dtype=bool).reshape(-1, size)
