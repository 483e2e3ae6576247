"""The computation graph that all tracks share: edges in CSR form both ways, topological checks."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import InitVar, dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shardmark.instances.errors import InputError
from shardmark.instances.files.columns import Ints, frozen

Index = NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class Graph:
    """A directed acyclic graph on nodes ``0..nodes-1``.

    ``tail``, ``head``: shape (edges,), kept as int32; edge e goes from ``tail[e]`` to ``head[e]``, in file order.
    Construction raises InputError for indices out of range, repeated edges and cycles. Its text uses ``names``, if
    given and not empty, for nodes, and ``places``, shape (edges,), by default e, for edges.
    """

    nodes: int
    tail: Ints | Index
    head: Ints | Index
    source: str = field(default="graph", repr=False)
    names: InitVar[Sequence[str] | None] = None
    places: InitVar[Ints | None] = None

    def __post_init__(self, names: Sequence[str] | None, places: Ints | None) -> None:
        if self.tail.shape != self.head.shape:
            raise InputError(self.source, "edges", "expected equally many tails and heads")
        for name, column in (("tail", self.tail), ("head", self.head)):
            bad = (column < 0) | (column >= self.nodes)
            for at in np.flatnonzero(bad)[:1]:
                expected = f"expected a node index from 0 to {self.nodes - 1} as {name}, found {column[at]}"
                raise InputError(self.source, f"edges[{at}]", expected)
        object.__setattr__(self, "tail", frozen(np.ascontiguousarray(self.tail, dtype=np.int32)))
        object.__setattr__(self, "head", frozen(np.ascontiguousarray(self.head, dtype=np.int32)))
        self._refuse_repeated()
        self._refuse_cycle(names or range(self.nodes), np.arange(self.edges) if places is None else places)

    def _refuse_repeated(self) -> None:
        key = self.tail.astype(np.int64) * self.nodes + self.head
        order = np.argsort(key, kind="stable")
        again = np.flatnonzero(np.diff(key[order]) == 0)
        if len(again):
            at = int(order[again[0] + 1])
            pair = f"[{self.tail[at]}, {self.head[at]}]"
            raise InputError(self.source, f"edges[{at}]", f"expected every edge once, found {pair} again")

    def _refuse_cycle(self, names: Sequence[object], places: Ints) -> None:
        if len(self.topological_order) < self.nodes:
            cycle = find_cycle(self.nodes, self.tail, self.head)
            first = int(np.argmax((self.tail == cycle[0]) & (self.head == cycle[1])))
            expected = no_cycle([str(names[node]) or f"node {node}" for node in cycle])
            raise InputError(self.source, f"edges[{places[first]}]", expected)

    @property
    def edges(self) -> int:
        """Number of edges."""
        return len(self.tail)

    @cached_property
    def out_csr(self) -> tuple[Ints, Index]:
        """Return ``(start, head)``: the consumers of node v are ``head[start[v]:start[v + 1]]``, in file order."""
        return csr(self.nodes, self.tail, self.head)

    @cached_property
    def in_csr(self) -> tuple[Ints, Index]:
        """Return ``(start, tail)``: the producers of node v are ``tail[start[v]:start[v + 1]]``."""
        return csr(self.nodes, self.head, self.tail)

    def successors(self, node: int) -> Index:
        """Consumers of the output of ``node``."""
        start, head = self.out_csr
        return head[start[node] : start[node + 1]]

    def predecessors(self, node: int) -> Index:
        """Producers of the inputs of ``node``."""
        start, tail = self.in_csr
        return tail[start[node] : start[node + 1]]

    @cached_property
    def topological_order(self) -> Index:
        """Kahn's order, smallest index first; shorter than ``nodes`` if (and only if) there is a cycle."""
        start, head = self.out_csr
        waiting = np.bincount(self.head, minlength=self.nodes).tolist()
        ready = [v for v in range(self.nodes) if waiting[v] == 0]
        starts, heads = start.tolist(), head.tolist()
        order = []
        while ready:
            node = heapq.heappop(ready)
            order.append(node)
            for w in heads[starts[node] : starts[node + 1]]:
                waiting[w] -= 1
                if waiting[w] == 0:
                    heapq.heappush(ready, w)
        return frozen(np.array(order, dtype=np.int32))

    @cached_property
    def reversed(self) -> Graph:
        """The same nodes, each edge from its head to its tail."""
        return Graph(self.nodes, self.head, self.tail)

    def ancestors(self) -> list[int]:
        """For each node, all nodes with a path to it and itself, as bits of an integer: up to nodes^2 bits."""
        sets = [1 << v for v in range(self.nodes)]
        for v in self.topological_order.tolist():
            for u in self.predecessors(v).tolist():
                sets[v] |= sets[u]
        return sets

    def longest_path(self, time: NDArray[np.float64]) -> float:
        """Greatest sum of the times, shape (nodes,), of the nodes of a path; 0.0 without nodes."""
        times = time.tolist()
        start, tail = (column.tolist() for column in self.in_csr)
        finish = [0.0] * self.nodes
        for v in self.topological_order.tolist():
            finish[v] = times[v] + max((finish[u] for u in tail[start[v] : start[v + 1]]), default=0.0)
        return max(finish, default=0.0)


class OnGraph:
    """An instance with a graph."""

    graph: Graph

    @property
    def nodes(self) -> int:
        """Number of nodes."""
        return self.graph.nodes

    @property
    def edges(self) -> int:
        """Number of edges, each counted once."""
        return self.graph.edges


def csr(nodes: int, key: NDArray[Any], value: NDArray[Any]) -> tuple[Ints, NDArray[Any]]:
    """Return ``(start, sorted)``: the values with key v are ``sorted[start[v]:start[v + 1]]``, in the given order."""
    start = np.zeros(nodes + 1, dtype=np.int64)
    np.cumsum(np.bincount(key, minlength=nodes), out=start[1:])
    return frozen(start), frozen(value[np.argsort(key, kind="stable")])


def no_cycle(names: Sequence[str]) -> str:
    """Error text for a graph with a cycle of nodes with these names."""
    return f"expected a graph without cycles, found {' -> '.join([*names[:8], *['...'] * (len(names) > 8)])}"


def find_cycle(nodes: int, tail: NDArray[Any], head: NDArray[Any]) -> list[int]:
    """Nodes of one cycle among the edges ``tail[e] -> head[e]``, the first repeated at the end; empty if none.

    ``tail``, ``head``: shape (edges,), any integer type; edges may repeat.
    """
    first, heads = (column.tolist() for column in csr(nodes, tail, head))
    waiting = np.bincount(head, minlength=nodes).tolist()
    ready = [v for v in range(nodes) if not waiting[v]]
    while ready:  # nodes left after repeatedly removing those without producers contain a cycle
        node = ready.pop()
        for w in heads[first[node] : first[node + 1]]:
            waiting[w] -= 1
            if not waiting[w]:
                ready.append(w)
    start, tails = csr(nodes, head, tail)
    node = next((v for v in range(nodes) if waiting[v]), -1)
    path: dict[int, None] = {}
    while node >= 0 and node not in path:
        path[node] = None
        node = min(u for u in tails[start[node] : start[node + 1]].tolist() if waiting[u])
    around = list(path)[list(path).index(node) :] if node >= 0 else []
    return [*around[:1], *reversed(around)]


def strong_components(nodes: int, tail: NDArray[Any], head: NDArray[Any]) -> Index:
    """Number the strongly connected components 0, 1, ...; shape (nodes,), int32 (Tarjan 1972).

    ``tail``, ``head``: shape (edges,), any integer type; edges may repeat. Edges lead to lesser numbers.
    """
    start, heads = (column.tolist() for column in csr(nodes, tail, head))
    found, low, component = [0] * nodes, [0] * nodes, [-1] * nodes  # found: 1, 2, ... in the order of the search
    at, path, open_nodes = start[:-1].copy(), list[int](), list[int]()
    count, components = 0, 0
    for root in range(nodes):
        path = [] if found[root] else [root]
        while path:
            v = path[-1]
            if not found[v]:
                count += 1
                found[v] = low[v] = count
                open_nodes.append(v)
            if at[v] < start[v + 1]:
                w = heads[at[v]]
                at[v] += 1
                if not found[w]:
                    path.append(w)
                elif component[w] < 0:
                    low[v] = min(low[v], found[w])
                continue
            path.pop()
            if path:
                low[path[-1]] = min(low[path[-1]], low[v])
            if low[v] == found[v]:
                while component[v] < 0:
                    component[open_nodes.pop()] = components
                components += 1
    return np.array(component, dtype=np.int32)


def members(bits: int, nodes: int) -> NDArray[np.intp]:
    """Return the nodes of a set, ascending, from the bits that `Graph.ancestors` gives."""
    row = np.frombuffer(bits.to_bytes(-(-nodes // 8), "little"), dtype=np.uint8)
    return np.flatnonzero(np.unpackbits(row, bitorder="little", count=nodes))
