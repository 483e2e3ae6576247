"""Decision diagrams of the sets that a device can hold, along an order of the items with few open nets."""

from __future__ import annotations

import time

import numpy as np

from shardmark.instances.files.columns import Ints
from shardmark.solvers.native import Longs
from shardmark.solvers.placement.kernels.loads import Nets
from shardmark.solvers.placement.kernels.sets import SetDiagram

#: Codes of an open net: its items so far are all outside the set, all inside, or on both sides (it is paid).
OUT, IN, BOTH = 0, 1, 2
#: Most open nets kept: a state has two bits for each.
OPEN = 31
#: Number of first items to try for orders.
STARTS = 20


def narrow_order(nets: Nets, items: int, until: float) -> Ints:
    """An order of the items with few open nets at a time, the best found until the time ``until``."""
    best, width = np.arange(items, dtype=np.int64), np.inf
    for start in range(0, items, max(1, items // STARTS)):
        order, found = _greedy_order(nets, items, start, until, width)
        if found < width:
            best, width = order, found
        if time.monotonic() > until:
            break
    return best


def _greedy_order(nets: Nets, items: int, start: int, until: float, most: float) -> tuple[Ints, float]:
    """Items from ``start`` on, next always the one that leaves fewest nets open (ties: the oldest net); and the width.

    The width is the sum of 3 to the power of open nets; infinite if it exceeds ``most`` or after ``until``.
    """
    of = [nets.of[nets.start[v] : nets.start[v + 1]].tolist() for v in range(items)]
    members: list[list[int]] = [[] for _ in nets.cost]
    for v, some in enumerate(of):
        for net in some:
            members[net].append(v)
    left = [len(some) for some in members]
    since, done, front = [items] * len(members), [False] * items, set[int]()
    order, width, opened = list[int](), 0.0, 0

    def opens(net: int) -> int:
        return (left[net] == len(members[net])) - (left[net] == 1)

    def key(v: int) -> tuple[int, int, int]:
        return sum(map(opens, of[v])), min((since[net] for net in of[v]), default=items), v

    rest = iter([*range(start, items), *range(start)])
    while len(order) < items:
        v = min(front, key=key) if front else next(u for u in rest if not done[u])
        done[v] = True
        front.discard(v)
        opened += sum(map(opens, of[v]))
        for net in of[v]:
            if left[net] == len(members[net]):
                since[net] = len(order)
                front.update(u for u in members[net] if not done[u])
            left[net] -= 1
        order.append(v)
        width += 3.0 ** min(opened, 300)
        if width > most or time.monotonic() > until:
            return np.zeros(0, dtype=np.int64), np.inf
    return np.array(order, dtype=np.int64), width


Part = tuple[int, int, int]  # a net, and the first and last place in the order between which its items count


def set_diagram(nets: Nets, cost: Longs, work: Longs, order: Ints, most: int) -> tuple[SetDiagram, list[Part]]:
    """The diagram of all sets; in layers of more than ``most`` states, the cheapest open nets become free.

    ``cost`` has shape (nets,) and ``work`` (items,), -1 for items that no set may contain. No load is overestimated.
    Also returns the parts of nets that count, of those that do not count in full.
    """
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order))
    last = np.full(len(cost), -1, dtype=np.int64)
    np.maximum.at(last, nets.of, rank[np.repeat(np.arange(len(order)), np.diff(nets.start))])
    layers = _Layers(cost, last.copy(), most)
    for v in order.tolist():
        layers.add(nets.of[nets.start[v] : nets.start[v + 1]].tolist())
    none = np.zeros((1, 2), dtype=np.int64)
    first = np.full(len(cost), len(order), dtype=np.int64)
    np.minimum.at(first, nets.of, rank[np.repeat(np.arange(len(order)), np.diff(nets.start))])
    whole = list(zip(first.tolist(), last.tolist(), strict=True))
    parts = [(net, *layers.span.get(net, (1, 0))) for net in range(len(cost))]
    diagram = SetDiagram(
        order=order,
        layer=np.array([*layers.first, layers.first[-1] + 1], dtype=np.int64),
        next=np.ascontiguousarray(np.concatenate([*layers.next, none]), dtype=np.int32),
        pay=np.ascontiguousarray(np.concatenate([*layers.pay, none])),
        work=np.ascontiguousarray(work[order]),
    )
    return diagram, [part for part in parts if part[1:] != whole[part[0]]]


class _Layers:
    """The layers of states so far; a state consists of the codes of the open nets, two bits each.

    ``first``  the first state of each layer
    ``next``   per layer, shape (states, 2): the states of the next one, without the item and with it
    ``span``   the first and the last layer in which each net that opens is open
    ``pay``    per layer, shape (states, 2): the cost of the nets that either choice splits first
    """

    def __init__(self, cost: Longs, last: Longs, most: int) -> None:
        self.first, self.next, self.pay = [0], list[Ints](), list[Longs]()
        self.span: dict[int, tuple[int, int]] = {}
        self._cost, self._last, self._most = cost.tolist(), last.tolist(), most
        self._key, self._slot, self._free = np.zeros(1, dtype=np.int64), dict[int, int](), list(range(OPEN))

    def add(self, nets: list[int]) -> None:
        """Add a layer that decides on an item, which is on some nets."""
        key, pay = np.stack([self._key, self._key]), np.zeros((2, len(self._key)), dtype=np.int64)
        for net in nets:
            if net in self._slot:
                self._meet(key, pay, net)
            elif self._last[net] > len(self.next) and self._free:
                self._slot[net] = self._free.pop()
                key[IN] |= IN << 2 * self._slot[net]
                self.span[net] = len(self.next), int(self._last[net])
            if net in self._slot and self._last[net] == len(self.next):
                self._close(key, net)
        self.first.append(self.first[-1] + len(self._key))
        self._key, child = np.unique(key, return_inverse=True)
        while len(self._key) > self._most:
            net = min(self._slot, key=self._cost.__getitem__)
            self._close(self._key, net)
            self._last[net] = -1  # does not open again
            self.span[net] = self.span[net][0], len(self.next)
            self._key, again = np.unique(self._key, return_inverse=True)
            child = again[child]
        self.next.append(child.reshape(2, -1).T + self.first[-1])
        self.pay.append(pay.T)

    def _meet(self, key: Longs, pay: Longs, net: int) -> None:
        """An item on an open net splits it if it is on the other side than all items before."""
        shift = 2 * self._slot[net]
        for side in (OUT, IN):
            code = (key[side] >> shift) & 3
            split = (code != side) & (code != BOTH)
            pay[side][split] += self._cost[net]
            key[side][split] += (BOTH - code[split]) << shift

    def _close(self, key: Longs, net: int) -> None:
        slot = self._slot.pop(net)
        key &= ~np.int64(3 << 2 * slot)
        self._free.append(slot)
