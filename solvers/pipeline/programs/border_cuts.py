"""Lower bound on the cost of a stage by how much work is done before it and after it: minimum cuts over two ideals."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from shardmark.instances.graph import Graph
from shardmark.solvers.native import Longs

Mask = NDArray[np.bool_]

#: Multipliers are whole numbers of 1 / UNIT.
UNIT = 16
#: Most pairs of multipliers tried for one stage.
TRIES = 8

#: Vertices of every network: a node that is in the ideal whatever the cut, and one that is not. Capacity of an arc that
#: no cut may contain.
INSIDE, OUTSIDE, UNCUT = 0, 1, -1


@dataclass(frozen=True)
class Cell:
    """A border between stages: the ideal done by then has from ``low`` to ``high`` work.

    ``ideal`` is None, or for the borders at both ends False: the empty ideal, or True: that of all nodes.
    """

    low: int
    high: int
    ideal: bool | None = None


class Arcs:
    """Arcs of a network in columns, and the number of its vertices."""

    def __init__(self) -> None:
        self.vertices = 2
        self.columns: list[tuple[Longs, Longs, Longs]] = []

    def number(self, free: Mask) -> Longs:
        """Give each node of a mask a vertex of its own; others get -1."""
        vertex = np.where(free, self.vertices + np.cumsum(free) - 1, -1)
        self.vertices += int(free.sum())
        return vertex

    def join(self, tail: Longs, head: Longs, capacity: Longs | int) -> None:
        self.columns.append((tail, head, np.broadcast_to(np.int64(capacity), tail.shape)))


@dataclass(frozen=True)
class Network:
    """The network of two ideals: arcs without those of the work, and per ideal the vertex of each node."""

    arcs: Arcs
    before: Longs
    after: Longs


class BorderCuts:
    """Minimum cuts for stages of one graph, whose ``work`` and ``size``, int64, have shape (nodes,).

    ``closures`` has at most the work of each node with its ancestors, and with its descendants.
    """

    def __init__(self, graph: Graph, work: Longs, size: Longs, closures: tuple[Longs, Longs]) -> None:
        self.nodes, self.work, self.whole = graph.nodes, work, int(work.sum())
        self.size = UNIT * np.minimum(size, self.whole)
        self.tail, self.head = graph.tail.astype(np.int64), graph.head.astype(np.int64)
        self.closures = closures

    def least_cost(self, before: Cell, after: Cell, enough: int) -> int:
        """Bound the cost of a stage between two borders from below; stop at a bound greater than ``enough``.

        A bound greater than all work, the cost of a single stage, is one more than it.
        """
        network = self._network(before, after)
        if network is None:
            return self.whole + 1
        best = UNIT * max(0, after.low - before.high)
        price, step = np.array([2 * UNIT, 2 * UNIT]), UNIT
        for _ in range(TRIES):
            value, done = self._cut(network, (before, after), price.tolist())
            best = max(best, value)
            wrong = [_outside(cell, work) for cell, work in zip((before, after), done, strict=True)]
            if best > UNIT * enough or not any(wrong):
                break
            price += np.array([wrong[0], -wrong[1]]) * step
            step = max(1, 2 * step // 3)
        return min(-(-best // UNIT), self.whole + 1)

    def _fixed(self, cell: Cell) -> tuple[Mask, Mask]:
        """Tell which nodes are in each ideal of a cell, and which are in none."""
        if cell.ideal is not None:
            return np.full(self.nodes, cell.ideal), np.full(self.nodes, not cell.ideal)
        return self.whole - self.closures[1] < cell.low, self.closures[0] > cell.high

    def _network(self, before: Cell, after: Cell) -> Network | None:
        (in_first, not_first), (in_last, not_last) = self._fixed(before), self._fixed(after)
        in_last, not_first = in_last | in_first, not_first | not_last
        if np.any(in_last & not_last) or np.any(in_first & not_first):
            return None
        arcs = Arcs()
        ideals = []
        for inside, outside in ((in_first, not_first), (in_last, not_last)):
            vertex = arcs.number(~(inside | outside))
            vertex[inside], vertex[outside] = INSIDE, OUTSIDE
            ideals.append(vertex)
        first, last = ideals
        for vertex in ideals:
            arcs.join(vertex[self.head], vertex[self.tail], UNCUT)
        arcs.join(first, last, UNCUT)
        self._send(arcs, last, not_first & ~not_last, ~in_last[self.head])
        read = ~not_first[self.tail] & ~in_first[self.head] & ~not_last[self.head]
        begun, unread = in_first[self.tail], not_first[self.head]
        kinds = (read & in_last[self.head], read & begun & ~in_last[self.head] & unread)
        self._receive(arcs, (first, last), (*kinds, read & begun & ~in_last[self.head] & ~unread))
        return Network(arcs, first, last)

    def _send(self, arcs: Arcs, last: Longs, made: Mask, open_edge: Mask) -> None:
        """Cut the tensors that a stage makes and of which a reader comes later.

        ``made``, shape (nodes,), has nodes of the stage or later ones, ``open_edge`` the edges to nodes that may come
        later.
        """
        waiting = np.zeros(self.nodes, dtype=bool)
        waiting[self.tail[open_edge]] = True
        helper, nodes, edges = self._helpers(arcs, waiting & made & (self.size > 0), open_edge)
        arcs.join(last[nodes], helper[nodes], self.size[nodes])
        arcs.join(helper[self.tail[edges]], last[self.head[edges]], UNCUT)

    def _receive(self, arcs: Arcs, ideals: tuple[Longs, Longs], kinds: tuple[Mask, Mask, Mask]) -> None:
        """Cut the tensors from earlier stages that a node of this stage reads.

        A tensor's size is divided among its readers of three ``kinds``, shape (edges,): those that are in the ideal
        after the stage, those that are not in the ideal before it, and those of which neither is known.
        """
        first, last = ideals
        counts = [np.bincount(self.tail[kind], minlength=self.nodes) for kind in kinds]
        readers = np.maximum(sum(counts), 1)
        known, unread, either = (self.size // readers * count for count in counts)
        helper, nodes, edges = self._helpers(arcs, known > 0, kinds[0])
        arcs.join(first[nodes], helper[nodes], known[nodes])
        arcs.join(helper[self.tail[edges]], first[self.head[edges]], UNCUT)
        helper, nodes, edges = self._helpers(arcs, unread > 0, kinds[1])
        arcs.join(helper[nodes], np.full(nodes.size, OUTSIDE), unread[nodes])
        arcs.join(last[self.head[edges]], helper[self.tail[edges]], UNCUT)
        edges = np.flatnonzero(kinds[2] & (either > 0)[self.tail])
        arcs.join(last[self.head[edges]], first[self.head[edges]], (self.size // readers)[self.tail[edges]])

    def _helpers(self, arcs: Arcs, tensors: Mask, kind: Mask) -> tuple[Longs, Longs, Longs]:
        """A vertex for each tensor of a mask; these tensors, and their edges of a kind."""
        return arcs.number(tensors), np.flatnonzero(tensors), np.flatnonzero(tensors[self.tail] & kind)

    def _cut(self, network: Network, cells: tuple[Cell, Cell], price: list[int]) -> tuple[int, list[int]]:
        """Return a bound in units of 1 / UNIT for two multipliers, and the work of both ideals of the cut."""
        before, after = cells
        bound = price[1] * (after.low if price[1] > 0 else after.high)
        bound -= price[0] * (before.high if price[0] > 0 else before.low)
        columns = list(network.arcs.columns)
        vertices = (network.before, network.after)
        for vertex, each in zip(vertices, (price[0] - UNIT, UNIT - price[1]), strict=True):
            bound += each * int(self.work[vertex == INSIDE].sum())
            nodes = np.flatnonzero((vertex > OUTSIDE) & (self.work > 0))
            end = np.full(nodes.size, OUTSIDE if each > 0 else INSIDE)
            tail, head = (vertex[nodes], end) if each > 0 else (end, vertex[nodes])
            columns.append((tail, head, abs(each) * self.work[nodes]))
            bound += min(each, 0) * int(self.work[nodes].sum())
        flow, side = _flow(network.arcs.vertices, columns)
        return bound + flow, [int(self.work[side[vertex]].sum()) for vertex in vertices]


def _outside(cell: Cell, work: int) -> int:
    """1 if an ideal has too much work for a cell, -1 if it has too little, else 0."""
    return int(work > cell.high) - int(work < cell.low)


def _flow(vertices: int, columns: list[tuple[Longs, Longs, Longs]]) -> tuple[int, Mask]:
    """Return at most the capacity of a minimum cut between the first two vertices, and the source side of some cut.

    OR-tools proposes a flow. Within the capacities any numbers prove what arrives at the sink, less what other
    vertices give without having received it.
    """
    tail, head, capacity = (np.concatenate(column) for column in zip(*columns, strict=True))
    kept = (tail != head) & (tail != OUTSIDE) & (head != INSIDE)
    tail, head, capacity = tail[kept], head[kept], capacity[kept]
    capacity = np.where(capacity == UNCUT, capacity[capacity > 0].sum() + 1, capacity)
    from ortools.graph.python import max_flow  # here: it takes long to import

    engine = max_flow.SimpleMaxFlow()
    engine.add_arcs_with_capacity(tail.astype(np.int32), head.astype(np.int32), capacity)
    side = np.zeros(vertices, dtype=bool)
    side[INSIDE] = True
    if not tail.size or engine.solve(INSIDE, OUTSIDE) != engine.OPTIMAL:
        return 0, side
    side[engine.get_source_side_min_cut()] = True
    moved = np.clip(engine.flows(np.arange(tail.size, dtype=np.int32)), 0, capacity)
    gained = np.zeros(vertices, dtype=np.int64)
    np.add.at(gained, head, moved)
    np.subtract.at(gained, tail, moved)
    return int(gained[OUTSIDE] + np.minimum(gained[OUTSIDE + 1 :], 0).sum()), side
