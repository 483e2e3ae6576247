"""The reversed graph of an instance in blocks, and what must be or cannot be in a set of last stages."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from shardmark.instances.files.columns import Ints
from shardmark.instances.graph import Graph
from shardmark.solvers.hybrid._numbering import Numbering

Relation = NDArray[np.bool_]

#: Most ideals of a block that are listed.
LISTED = 400
#: Largest block whose nodes are compared with each other; in greater ones, all count as incomparable.
COMPARED = 6000


@dataclass(frozen=True, eq=False)
class Order(Numbering):
    """A numbering in blocks: every node of a block precedes those of later ones.

    A node that is comparable with all others is a block of its own.
    """

    @cached_property
    def start(self) -> Ints:
        """Shape (blocks + 1,): the numbers of block i are ``start[i]:start[i + 1]``."""
        return _starts(self.graph)

    @cached_property
    def closures(self) -> list[tuple[slice, Relation | None]]:
        """The numbers of each block of several nodes, and its relation "is or precedes", shape (b, b).

        None: the block is too large to compare its nodes.
        """
        ends = zip(self.start[:-1].tolist(), self.start[1:].tolist(), strict=True)
        return [(slice(a, b), self._closure(a, b) if b - a <= COMPARED else None) for a, b in ends if b - a > 1]

    def _closure(self, a: int, b: int) -> Relation:
        before = np.eye(b - a, dtype=bool)
        tail, head = self.graph.tail, self.graph.head
        inner = np.flatnonzero((tail >= a) & (head < b))
        for e in inner[np.argsort(head[inner], kind="stable")].tolist():
            before[:, head[e] - a] |= before[:, tail[e] - a]
        return before

    @cached_property
    def blocks(self) -> list[tuple[slice, Relation | None]]:
        """The numbers of each block of several nodes, and its ideals but the least and the greatest, shape (i, b).

        None: there are too many.
        """
        known: dict[bytes, Relation | None] = {}
        for _, before in self.closures:
            if before is not None and before.tobytes() not in known:
                known[before.tobytes()] = _ideals(before)
        return [(block, None if before is None else known[before.tobytes()]) for block, before in self.closures]

    def certain(self, price: Ints) -> tuple[Ints, Ints]:
        """Positions from which every ideal has a node, and until which none has it, shape (n,) each.

        The position of an ideal of the reversed graph is the sum of the ``price`` of its nodes, shape (n,).
        """
        until = np.concatenate([[0], np.cumsum(price)[self.start[1:] - 1]])
        block = np.repeat(np.arange(len(self.start) - 1), np.diff(self.start))
        first, last = until[block] + price, until[block + 1] - price
        for nodes, before in self.closures:
            if before is not None:
                first[nodes] += np.einsum("u,uv->v", price[nodes], before) - price[nodes]
                last[nodes] -= np.einsum("uv,v->u", before, price[nodes]) - price[nodes]
        return last + 1, first - 1


def _starts(graph: Graph) -> Ints:
    """Starts of blocks: at every node comparable with all others, and after it.

    All earlier nodes lead to a node if each has an edge to it or to a node before; likewise for later ones.
    """
    nodes = graph.nodes
    to, back = np.full(nodes, nodes), np.full(nodes, -1)
    np.minimum.at(to, graph.tail, graph.head)
    np.maximum.at(back, graph.head, graph.tail)
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
