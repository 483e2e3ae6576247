"""Decision diagrams of the sets that a device can hold, along an order of the items with few open nets."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from shardmark.instances.files.columns import Ints
from shardmark.solvers.native import Longs
from shardmark.solvers.placement.configuration.labels import AFTER, BEFORE, WITHIN, Precedence
from shardmark.solvers.placement.configuration.weights import Weights
from shardmark.solvers.placement.kernels.loads import Nets
from shardmark.solvers.placement.kernels.sets import SetDiagram

#: Codes of an open net: its items so far are all outside the set, all inside, or on both sides (it is paid).
OUT, IN, BOTH = 0, 1, 2
#: Most open nets and labels: a state has two bits for each, two for the side of the last item, the rest for weight.
OPEN = 26
SIDE, USED = 2 * OPEN, 2 * OPEN + 2
#: What impossible choices cost: more than any load.
NEVER = 2**38

Flags = NDArray[np.bool_]
Part = tuple[int, int, int]  # a net, and the first and last place in the order between which its items count


@dataclass(frozen=True, eq=False)
class Sets:
    """The sets of items that a device can hold.

    ``work``        shape (items,): load of each item; -1 if no set may contain it
    ``weights``     of items, from their sizes
    ``limit``       sets with a greater load may be left out
    ``precedence``  sets are contiguous with respect to these edges
    """

    work: Longs
    weights: Weights
    limit: int
    precedence: Precedence


@dataclass(frozen=True, eq=False)
class Written:
    """How a checker builds the diagram again.

    ``parts``   of the nets that do not count in full, the part that counts
    ``labels``  nodes that get a label, in this order, and the place in this list up to which the label is kept
    """

    parts: list[Part]
    labels: list[tuple[int, int]]


def set_diagram(nets: Nets, cost: Longs, sets: Sets, order: Ints, most: int) -> tuple[SetDiagram, Written]:
    """The diagram of all sets; in layers of more than ``most`` states, the cheapest open nets become free.

    ``cost`` has shape (nets,). No load is overestimated. Labels that do not fit are left out: then sets count that are
    not contiguous.
    """
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order))
    last = np.full(len(cost), -1, dtype=np.int64)
    np.maximum.at(last, nets.of, rank[np.repeat(np.arange(len(order)), np.diff(nets.start))])
    layers = _Layers(cost, last.copy(), most, sets, order.tolist())
    for v in order.tolist():
        layers.add(v, nets.of[nets.start[v] : nets.start[v + 1]].tolist())
    first = np.full(len(cost), len(order), dtype=np.int64)
    np.minimum.at(first, nets.of, rank[np.repeat(np.arange(len(order)), np.diff(nets.start))])
    whole = list(zip(first.tolist(), last.tolist(), strict=True))
    parts = [(net, *layers.span.get(net, (1, 0))) for net in range(len(cost))]
    return layers.diagram(), Written([part for part in parts if part[1:] != whole[part[0]]], layers.labels())


class _Layers:
    """The layers of states so far; a state consists of the codes of the open nets and labels, and the weight.

    A layer decides on an item, or on the label of a node of the last item: if that is outside, the first choice is
    `BEFORE`, the second `AFTER`.

    ``decides``  per layer, the item, or -1 for a label
    ``next``     per layer, shape (states, 2): the states of the next one after either choice, -1 if it is impossible
    ``pay``      per layer, shape (states, 2): the cost of the nets that either choice splits first
    ``span``     the first and the last place of the order at which each net that opens is open
    ``kept``     per labelled node, in order, the rank of the node up to whose label its own is kept
    """

    def __init__(self, cost: Longs, last: Longs, most: int, sets: Sets, order: list[int]) -> None:
        self.decides, self.next, self.pay = list[int](), list[Ints](), list[Longs]()
        self.span: dict[int, tuple[int, int]] = {}
        self.kept: dict[int, int] = {}
        self._cost, self._last, self._most, self._sets = cost.tolist(), last.tolist(), most, sets
        self._place, self._end, self._least = -1, len(order) - 1, np.zeros(1, dtype=np.int64)
        self._key, self._slot, self._free = np.zeros(1, dtype=np.int64), dict[int, int](), list(range(OPEN))
        self._near, self._label = sets.precedence, dict[int, int]()
        nodes = [v for item in order for v in self._near.nodes[item]]
        self._rank = rank = {v: at for at, v in enumerate(nodes)}
        self._until = {v: max(rank[u] for u in (v, *self._near.before[v], *self._near.after[v])) for v in nodes}

    def add(self, item: int, nets: list[int]) -> None:
        """Add a layer that decides on an item, which is on some nets, and one for the label of each of its nodes."""
        self._place += 1
        key, pay = np.stack([self._key, self._key]), np.zeros((2, len(self._key)), dtype=np.int64)
        for net in nets:
            if net in self._slot:
                self._meet(key, pay, net)
            elif self._last[net] > self._place and self._free:
                self._slot[net] = self._free.pop()
                key[IN] |= IN << 2 * self._slot[net]
                self.span[net] = self._place, int(self._last[net])
            if net in self._slot and self._last[net] == self._place:
                self._free.append(_freed(key, self._slot.pop(net)))
        sets, possible = self._sets, np.ones(key.shape, dtype=np.bool_)
        work, weight = int(sets.work[item]), int(sets.weights.of[item])
        possible[IN] = ((key[IN] >> USED) + weight <= sets.weights.most) & (work >= 0)
        key[IN] += (weight << USED) + (IN << SIDE)
        self._append(item, key, pay, possible, work)
        for v in self._near.nodes[item]:
            self._add_label(v)
        self._key &= ~np.int64(3 << SIDE) if self._place < self._end else 0
        self._merge()

    def _add_label(self, v: int) -> None:
        """Add a layer for the label of a node, if there is a place for it."""
        if self._free:
            self._choose(v)
        for u in [u for u in self._label if self._until[u] <= self._rank[v]]:
            self._free.append(_freed(self._key, self._label.pop(u)))
        self._merge()

    def _choose(self, v: int) -> None:
        """A node of the last item, if that is outside, gets each label that agrees with those of its neighbours.

        If all nodes before it are `BEFORE`, so is the node; else, if all after it are `AFTER`, so is the node: if any
        labels of the nodes to come agree with the other choice, they agree with this one.
        """
        inside = ((self._key >> SIDE) & 3) == IN
        before, after = (self._codes(near[v]) for near in (self._near.before, self._near.after))
        low, high = (before == BEFORE).all(axis=0), (after == AFTER).all(axis=0)
        fits = (before <= WITHIN).all(axis=0) & (after >= WITHIN).all(axis=0)
        if len(before) == len(self._near.before[v]):
            high &= ~low
        elif len(after) == len(self._near.after[v]):
            low &= ~high
        slot = self._label[v] = self._free.pop()
        self.kept[v] = self._until[v]
        key = np.stack([self._key | np.where(inside, WITHIN, BEFORE) << 2 * slot, self._key | AFTER << 2 * slot])
        possible = np.stack([np.where(inside, fits, low), high & ~inside])
        self._append(-1, key, np.zeros(key.shape, dtype=np.int64), possible, 0)

    def _codes(self, nodes: list[int]) -> Longs:
        """Shape (labelled nodes, states): the labels of those nodes whose labels are kept."""
        slots = [self._label[u] for u in nodes if u in self._label]
        return np.array([(self._key >> 2 * slot) & 3 for slot in slots], dtype=np.int64).reshape(-1, len(self._key))

    def _append(self, decides: int, key: Longs, pay: Longs, possible: Flags, work: int) -> None:
        load = self._least + pay
        load[IN] += work
        possible &= load <= self._sets.limit
        self._key, found = np.unique(key[possible], return_inverse=True)
        self._least = _least(load[possible], found, len(self._key))
        child = np.full(key.shape, -1, dtype=np.int64)
        child[possible] = found
        self.decides.append(decides)
        self.next.append(child.T.copy())
        self.pay.append(pay.T)
        while len(self._key) > self._most and (self._slot or self._label):
            self._relax()

    def _relax(self) -> None:
        """Free the cheapest open net, or if none is open, the oldest label."""
        if self._slot:
            net = min(self._slot, key=self._cost.__getitem__)
            slot = self._slot.pop(net)
            self._last[net] = -1  # does not open again
            self.span[net] = self.span[net][0], self._place
        else:
            v = next(iter(self._label))
            slot, self.kept[v] = self._label.pop(v), self._rank[next(reversed(self.kept))]
        self._free.append(_freed(self._key, slot))
        self._merge()

    def _merge(self) -> None:
        self._key, again = np.unique(self._key, return_inverse=True)
        self._least = _least(self._least, again, len(self._key))
        child = self.next[-1]
        child[child >= 0] = again[child[child >= 0]]

    def _meet(self, key: Longs, pay: Longs, net: int) -> None:
        """An item on an open net splits it if it is on the other side than all items before."""
        shift = 2 * self._slot[net]
        for side in (OUT, IN):
            code = (key[side] >> shift) & 3
            split = (code != side) & (code != BOTH)
            pay[side][split] += self._cost[net]
            key[side][split] += (BOTH - code[split]) << shift

    def labels(self) -> list[tuple[int, int]]:
        """The labelled nodes, and the number of the last label up to which each is kept."""
        ranks = [self._rank[v] for v in self.kept]
        return [(v, bisect_right(ranks, until) - 1) for v, until in self.kept.items()]

    def diagram(self) -> SetDiagram:
        """The diagram; layers after the first have one more state if impossible choices have to lead to it."""
        some, layers = any((child < 0).any() for child in self.next), len(self.next)
        first, children, pays = [0], list[Ints](), list[Longs]()
        for at, (child, pay) in enumerate(zip(self.next, self.pay, strict=True)):
            none = len(self.next[at + 1]) if at + 1 < layers else 0
            pay = np.where(child < 0, NEVER, pay)
            child = np.where(child < 0, none, child)
            if some and at:
                child, pay = np.append(child, [[none, none]], axis=0), np.append(pay, [[0, 0]], axis=0)
            first.append(first[-1] + len(child))
            children.append(child + first[-1])
            pays.append(pay)
        last, decides = np.zeros((1, 2), dtype=np.int64), np.array(self.decides, dtype=np.int64)
        work = np.append(self._sets.work, 0)
        return SetDiagram(
            order=np.where(decides < 0, len(work) - 1, decides),
            layer=np.array([*first, first[-1] + 1], dtype=np.int64),
            next=np.ascontiguousarray(np.concatenate([*children, last]), dtype=np.int32),
            pay=np.ascontiguousarray(np.concatenate([*pays, last])),
            work=np.ascontiguousarray(work[decides]),
        )


def _freed(key: Longs, slot: int) -> int:
    key &= ~np.int64(3 << 2 * slot)
    return slot


def _least(load: Longs, group: Ints, groups: int) -> Longs:
    """The least load of each group."""
    least = np.full(groups, NEVER)
    np.minimum.at(least, group, load)
    return least
