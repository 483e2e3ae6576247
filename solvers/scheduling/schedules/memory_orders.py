"""Proofs that no schedule fits the memory: no order of the vertices keeps what is held below it (ours).

With ``reserved``, all devices together hold the tensors from finished vertices to others. Suppose that a schedule fits.
Vertices that last longer than L (`memory_cuts`) finish in clusters: within a cluster, at most 2 e pass from one finish
to the next, and between clusters more. So a cluster has at most one such vertex per device, none of which precedes
another, and between clusters memory suffices for what is held. Adding v to a set of finished vertices that contains all
before v changes what is held by a constant, what v makes less what it reads. So the vertices of a cluster can be taken
one by one, those that hold least more first: then memory suffices after each of them as well. Vertices that last no
longer than L neither make nor read what counts.

So some order of all vertices keeps what is held below the memory (Abdel-Wahab & Kameda 1978 minimise its maximum, which
is NP-hard). A depth-first search over sets of finished vertices looks for one. As changes are constant, a vertex that
holds no more than before comes at once, wherever the order would have it.
"""

from __future__ import annotations

import time

from shardmark.instances.files.columns import Ints
from shardmark.instances.graph import Graph

#: Most sets to remember, and most vertices of a graph: a set takes a bit per vertex.
MOST_SETS = 200_000
MOST_NODES = 20_000


def no_order_fits(graph: Graph, change: Ints, room: int, end: float) -> bool:
    """True if it is proved before the time ``end`` that every topological order exceeds the memory.

    ``change``  shape (n,): what is held more after each vertex than before; all add up to 0
    ``room``    least sum of changes that is too much, at least 1
    """
    if graph.nodes > MOST_NODES:
        return False
    order, seen = _Order(graph, change.tolist()), set[int]()
    order.settle()
    levels = [(len(order.vertices), order.choices(room))]
    while levels:
        length, choices = levels[-1]
        if len(order.vertices) == graph.nodes or len(seen) >= MOST_SETS or time.monotonic() >= end:
            return False
        order.shorten(length)
        if not choices:
            levels.pop()
            continue
        order.add(choices.pop())
        order.settle()
        if order.members not in seen:
            seen.add(order.members)
            levels.append((len(order.vertices), order.choices(room)))
    return True


class _Order:
    """The beginning of a topological order.

    ``members``  its ``vertices`` as bits
    ``held``     the sum of their changes
    ``ready``    vertices whose predecessors are all in it
    """

    def __init__(self, graph: Graph, change: list[int]) -> None:
        start, heads = graph.out_csr
        self.change, self.held, self.members, self.vertices = change, 0, 0, list[int]()
        self._readers = [heads[start[v] : start[v + 1]].tolist() for v in range(graph.nodes)]
        self._missing = (graph.in_csr[0][1:] - graph.in_csr[0][:-1]).tolist()
        self.ready = {v for v in range(graph.nodes) if not self._missing[v]}

    def add(self, v: int) -> None:
        """Append a ready vertex."""
        self.vertices.append(v)
        self.members |= 1 << v
        self.held += self.change[v]
        self.ready.remove(v)
        for w in self._readers[v]:
            self._missing[w] -= 1
            if not self._missing[w]:
                self.ready.add(w)

    def shorten(self, length: int) -> None:
        """Remove all vertices but the first ``length``."""
        while len(self.vertices) > length:
            v = self.vertices.pop()
            self.members ^= 1 << v
            self.held -= self.change[v]
            for w in self._readers[v]:
                if not self._missing[w]:
                    self.ready.remove(w)
                self._missing[w] += 1
            self.ready.add(v)

    def settle(self) -> None:
        """Append ready vertices that hold no more, until there are none."""
        waiting = [v for v in self.ready if self.change[v] <= 0]
        while waiting:
            v = waiting.pop()
            self.add(v)
            waiting += [w for w in self._readers[v] if w in self.ready and self.change[w] <= 0]

    def choices(self, room: int) -> list[int]:
        """Ready vertices for which there is room, the one that holds least more last."""
        change, most = self.change, room - self.held
        return sorted((v for v in self.ready if change[v] < most), key=lambda v: (-change[v], v))
