"""Trees over the sets of nodes that can be a stage: a minimum cut bounds each case; the certificate has its flow."""

from __future__ import annotations

import heapq
import itertools
import math
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from shardmark.solvers.pipeline.programs.certificates.integer_network import IntegerNetwork
from shardmark.solvers.pipeline.programs.stage_search import FIRST, LAST, MIDDLE

#: Capacity of arcs that no minimum cut contains, and of those that keep a node on its side.
INFINITE, FIXED = 1 << 60, 1 << 47

#: Greatest price of all weights.
MOST_PRICED = 1 << 58

#: Minimum cuts at the root of a tree, and at its other nodes, for the best price of weight.
ROOT_CUTS, CUTS = 12, 3

#: Nodes of the graph that are considered for a branch, and minimum cuts that tell the gain of each.
CANDIDATES, RELIABLE = 8, 2


@dataclass
class _Case:
    """A node of a tree: sets with the nodes of ``inside`` and none of ``outside``, as bits.

    ``told``  what the certificate says of it; ``sides``: masks of a set that weighs too little and one that does not
    ``single``: it had one set when it was bounded      ``branch``  node of the graph, -1 in a leaf
    """

    inside: int
    outside: int
    price: int
    bound: int = 0
    told: dict[str, Any] = field(default_factory=dict)
    sides: Any = None
    empty: bool = False
    single: bool = False
    branch: int = -1
    children: list[_Case] = field(default_factory=list)


class SetTree:
    """A tree over the sets of a place that weigh its need; ``bound`` is what it proves, at most the cut-off."""

    def __init__(self, network: IntegerNetwork, closure: int, weight: list[int], need: int, cutoff: int) -> None:
        self.network, self.closure, self.need, self.bound = network, closure, need, cutoff
        self.cutoff = cutoff
        self.weight, self.work = np.array(weight, dtype=np.int64), np.array(network.work, dtype=np.int64)
        self.out = sum(1 << u for u in network.merged)
        self.edges = np.array(
            [(u, v) for u, readers in enumerate(network.readers) for v in sorted(readers)], dtype=np.int64
        ).reshape(-1, 2)
        self.everything = (1 << len(weight)) - 1
        self._gains: dict[tuple[int, int], tuple[float, int]] = {}
        self._arcs()

    def _arcs(self) -> None:
        """Arcs of the tensors, with two vertices each, of which a tensor of one reader needs none."""
        n, (tail, head) = len(self.weight), self.edges.T
        sent = np.array(self.network.sent, dtype=np.int64)
        single = np.bincount(tail, minlength=n)[tail] == 1
        one, other = n + 2 * tail, n + 2 * tail + 1
        forth = np.where(single, sent[tail], INFINITE)
        makers = np.unique(tail[~single])
        parts = [
            (np.where(single, tail, one), head, forth),
            (head, np.where(single, tail, other), forth),
            (makers, n + 2 * makers, sent[makers]),
            (n + 2 * makers + 1, makers, sent[makers]),
        ]
        if self.closure != MIDDLE:
            parts.append((*((head, tail) if self.closure == FIRST else (tail, head)), np.full(len(tail), INFINITE)))
        self.arcs = [np.concatenate(column) for column in zip(*parts, strict=True)]
        self.first_closed = sum(len(part[0]) for part in parts[:4])

    def grow(self, until: float) -> list[dict[str, Any]]:
        """Grow the tree until its bound is the cut-off or time is up; return its nodes in preorder."""
        root = _Case(0, self.out, 0)
        self._solve(root, ROOT_CUTS, until)
        number = itertools.count()
        leaves = [(root.bound, next(number), root)]
        while leaves[0][0] < self.cutoff and time.monotonic() < until:
            case = heapq.heappop(leaves)[2]
            case.branch = self._branch(case)
            if case.branch < 0 and not case.single:  # the bound is that of more sets than the one that is left
                case.branch = max(case.inside.bit_length() - 1, 0)
            if case.branch < 0:
                heapq.heappush(leaves, (case.bound, next(number), case))
                break
            for value in (1, 0):
                child = self._child(case, case.branch, value)
                self._solve(child, CUTS, until)
                case.children.append(child)
                heapq.heappush(leaves, (child.bound, next(number), child))
        self.bound = min(self.cutoff, leaves[0][0])
        return list(_preorder(root))

    def _solve(self, case: _Case, cuts: int, until: float) -> None:
        """Bound a case by a minimum cut at a good price of weight; decide what costs too much otherwise."""
        self._propagate(case)
        if case.empty:
            case.bound = self.cutoff
            return
        case.single = case.inside | case.outside == self.everything
        inside, outside = self._mask(case.inside), self._mask(case.outside)
        light, heavy = inside, ~outside
        if self.weight[inside].sum() >= self.need:
            prices: Iterable[int] = [0]
        else:
            prices = [self._tie(light, heavy)]
        best: tuple[Any, ...] = (-INFINITE,)
        for _ in range(cuts):
            (price,) = prices
            side, told, costs, bound = self._cut(price, inside, outside)
            if bound > best[0]:
                best = bound, price, told, costs
            if bound >= self.cutoff or price == 0 or time.monotonic() > until:
                break
            if self.weight[side].sum() >= self.need:
                heavy = side
            else:
                light = side
            if (other := self._tie(light, heavy)) == price:
                break
            prices = [other]
        case.bound, case.price, case.told, costs = best
        case.sides = light, heavy
        for v in np.flatnonzero(np.abs(costs) >= self.cutoff - case.bound).tolist():
            if not (case.inside | case.outside) >> v & 1:
                case.inside |= (int(costs[v]) <= 0) << v
                case.outside |= (int(costs[v]) >= 0) << v
        case.empty |= case.bound >= self.cutoff
        if not case.empty:
            self._propagate(case)

    def _tie(self, light: Any, heavy: Any) -> int:
        """The price at which two sets cost equally much less their weight's price."""
        (a, b), (c, d) = ((self._cost(side), int(self.weight[side].sum())) for side in (light, heavy))
        most = MOST_PRICED // max(1, int(self.weight.sum()))
        return min(most, max(0, (c - a) // (d - b))) if d > b else 0

    def _cost(self, side: Any) -> int:
        tail, head = self.edges.T
        cut = np.unique(tail[side[tail] != side[head]])
        return int(self.work[side].sum()) + sum(self.network.sent[u] for u in cut.tolist())

    def _cut(self, price: int, inside: Any, outside: Any) -> tuple[Any, ...]:
        """A minimum cut at a price: its set, what a certificate says, the costs of nodes, and its bound."""
        from ortools.graph.python import max_flow

        flow, n = max_flow.SimpleMaxFlow(), len(self.weight)
        reward = np.where(inside, FIXED, np.where(outside, -FIXED, price * self.weight - self.work))
        source, sink = 3 * n, 3 * n + 1
        at, nodes = flow.add_arcs_with_capacity(*self.arcs), np.arange(n)
        flow.add_arcs_with_capacity(np.full(n, source), nodes, np.maximum(reward, 0))
        flow.add_arcs_with_capacity(nodes, np.full(n, sink), np.maximum(-reward, 0))
        flow.solve(source, sink)
        flows, m = np.asarray(flow.flows(at)), len(self.edges)
        moved = flows[m : 2 * m] - flows[:m]
        tail, head = self.edges.T
        costs = self.work - price * self.weight
        np.add.at(costs, head, moved)
        np.add.at(costs, tail, -moved)
        told = {"price": price, "moved": moved}
        if self.closure != MIDDLE:
            told["closed"] = closed = flows[self.first_closed :]
            np.add.at(costs, head, self.closure * closed)
            np.add.at(costs, tail, -self.closure * closed)
        side = np.zeros(n, dtype=bool)
        side[[v for v in flow.get_source_side_min_cut() if v < n]] = True
        bound = price * self.need + int(costs[inside].sum()) + int(np.minimum(costs, 0)[~inside & ~outside].sum())
        return side, told, costs, bound

    def _propagate(self, case: _Case) -> None:
        """Decide the nodes that must be in the sets of a case, or cannot be."""
        before = None
        while not case.empty and before != (before := (case.inside, case.outside)):
            if case.inside:
                above, below = self.network.relatives()
                whole = (1 << len(self.weight)) - 1
                over, under = (whole if self.closure == end else 0 for end in (LAST, FIRST))
                for v in _bits(case.inside):
                    over, under = over | above[v], under | below[v]
                case.inside |= over & under
                for v in _bits(case.outside & under):
                    case.outside |= below[v]
                for v in _bits(case.outside & over):
                    case.outside |= above[v]
            weighs = int(self.weight[~self._mask(case.outside)].sum())
            case.empty = bool(case.inside & case.outside) or weighs < self.need

    def _mask(self, bits: int) -> Any:
        n = len(self.weight)
        packed = np.frombuffer(bits.to_bytes(n // 8 + 1, "little"), dtype=np.uint8)
        return np.unpackbits(packed, count=n, bitorder="little").astype(bool)

    def _branch(self, case: _Case) -> int:
        """The open node whose children promise the greatest bounds; -1 if all are decided."""
        candidates = self._candidates(case)
        if len(candidates) < 2:
            return candidates[0] if candidates else -1
        least = 1e-6 * self.cutoff

        def promise(v: int) -> float:
            return (self._gain(case, v, 1) + least) * (self._gain(case, v, 0) + least)

        return max(candidates, key=promise)

    def _gain(self, case: _Case, v: int, value: int) -> float:
        """By how much a decision raises the bound: the mean of the first minimum cuts that tell."""
        total, count = self._gains.get((v, value), (0.0, 0))
        if count < RELIABLE:
            child = self._child(case, v, value)
            self._solve(child, 1, math.inf)
            total, count = total + min(child.bound, self.cutoff) - case.bound, count + 1
            self._gains[v, value] = total, count
        return min(max(0.0, total / count), self.cutoff - case.bound)

    def _child(self, case: _Case, v: int, value: int) -> _Case:
        """The sets of a case with a node (value 1) or without it."""
        return _Case(case.inside | value << v, case.outside | (1 - value) << v, case.price)

    def _candidates(self, case: _Case) -> list[int]:
        """Open nodes to branch on: those that make a heavy set convex, else those where light and heavy set differ."""
        opened = ~self._mask(case.inside | case.outside)
        light, heavy = case.sides
        above, below = self.network.relatives()
        over, under = (-1 if self.closure == end else 0 for end in (LAST, FIRST))
        for v in np.flatnonzero(heavy).tolist():
            over, under = over | above[v], under | below[v]
        missing = self._mask(over & under & self.everything) & ~heavy & opened
        chosen = opened
        if missing.any():
            z = int(np.flatnonzero(missing)[0])
            chosen = opened & (heavy & self._mask(above[z] | below[z]) | missing)
        elif (opened & (light != heavy)).any():
            chosen = opened & (light != heavy)
        found = np.flatnonzero(chosen)
        return found[np.argsort(-(self.weight[found]), kind="stable")][:CANDIDATES].tolist()


def _bits(number: int) -> Iterator[int]:
    while number:
        low = number & -number
        yield low.bit_length() - 1
        number ^= low


def _preorder(root: _Case) -> Iterator[dict[str, Any]]:
    waiting = [root]
    while waiting:
        case = waiting.pop()
        told = {key: value if key == "price" else value.tolist() for key, value in case.told.items()}
        if case.branch >= 0:
            told["branch"] = case.branch
            waiting += case.children[::-1]
        yield told
