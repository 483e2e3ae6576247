"""Topological orders of a graph of operators, and the borders in them that few bytes cross."""

from __future__ import annotations

import heapq
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from shardmark.instances.files.columns import Floats, Ints
from shardmark.instances.graph import Index
from shardmark.instances.hybrid import Instance
from shardmark.solvers.native import kahn


class Orders:
    """Topological orders of the nodes of an instance, shape (n,), int32.

    ``weight``  shape (m,): bytes that both ends of an edge move, with the first configurations of their nodes
    """

    def __init__(self, instance: Instance) -> None:
        self.nodes, self.graph = instance.nodes, instance.graph
        start, edge = instance.incident
        owner = np.repeat(np.arange(self.nodes), np.diff(start))
        at = instance.sync_start[instance.start[:-1]][owner] + np.arange(len(edge)) - start[owner]
        self.weight = 2 * instance.communicated + np.bincount(edge, instance.sync[at], minlength=instance.edges)

    def standard(self) -> Iterator[Index]:
        """By least cut, by place in the file, depth first, by distance from the front, by distance from the end."""
        yield self.least_cut(np.zeros(self.nodes), np.zeros(self.nodes))
        yield kahn(self.graph, -np.arange(self.nodes, dtype=np.float64))
        yield self._depth_first()
        order = self.graph.topological_order
        yield kahn(self.graph, -self._distances(order, self.graph.in_csr))
        yield kahn(self.graph, self._distances(order[::-1], self.graph.out_csr))

    def least_cut(self, group: Floats, extra: Floats) -> Index:
        """By ascending group, and within one always the ready node that adds fewest bytes to the cut; ties by age.

        ``group``  shape (n,): ascends along edges
        ``extra``  shape (n,): bytes to add to those of each node
        """
        more = extra.copy()
        np.add.at(more, self.graph.tail, self.weight)
        np.add.at(more, self.graph.head, -self.weight)
        missing = np.bincount(self.graph.head, minlength=self.nodes).tolist()
        (start, head), keys = (column.tolist() for column in self.graph.out_csr), [group.tolist(), more.tolist()]
        ready = [(keys[0][v], keys[1][v], 0, v) for v in range(self.nodes) if not missing[v]]
        heapq.heapify(ready)
        order: list[int] = []
        while ready:
            v = heapq.heappop(ready)[-1]
            order.append(v)
            for w in head[start[v] : start[v + 1]]:
                missing[w] -= 1
                if not missing[w]:
                    heapq.heappush(ready, (keys[0][w], keys[1][w], -len(order), w))
        return np.array(order, dtype=np.int32)

    def _depth_first(self) -> Index:
        missing = np.bincount(self.graph.head, minlength=self.nodes)
        start, head = self.graph.out_csr
        stack, order = np.flatnonzero(missing == 0)[::-1].tolist(), []
        while stack:
            order.append(stack.pop())
            for w in head[start[order[-1]] : start[order[-1] + 1]].tolist()[::-1]:
                missing[w] -= 1
                if not missing[w]:
                    stack.append(w)
        return np.array(order, dtype=np.int32)

    def _distances(self, order: Index, before: tuple[Ints, Index]) -> Floats:
        """Edges on the longest path to each node along the order, shape (n,)."""
        start, neighbour = before
        distance = np.zeros(self.nodes)
        for v in order.tolist():
            distance[v] = distance[neighbour[start[v] : start[v + 1]]].max(initial=-1.0) + 1
        return distance

    def borders(self, order: Index, most: int) -> NDArray[np.bool_]:
        """The ``most`` borders that fewest bytes cross, of those with no better border next to them.

        Shape (n + 1,): True at i if the last i nodes of the order may be the last stages; both ends are.
        """
        place = np.empty(self.nodes, dtype=np.int64)
        place[order] = np.arange(self.nodes)
        change = np.zeros(self.nodes + 1)
        np.add.at(change, place[self.graph.tail] + 1, self.weight)
        np.add.at(change, place[self.graph.head] + 1, -self.weight)
        cut = np.round(change.cumsum() / max(float(self.weight.max(initial=0.0)), 1.0), 9)
        low = np.ones(self.nodes + 1, dtype=np.bool_)
        low[1:-1] = (cut[1:-1] <= cut[:-2]) & (cut[1:-1] <= cut[2:])
        places = np.flatnonzero(low)
        low[places[np.argsort(cut[places], kind="stable")[most:]]] = False
        low[[0, -1]] = True
        return low[::-1].copy()
