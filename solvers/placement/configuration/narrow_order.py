"""Orders of the items with few open nets at a time."""

from __future__ import annotations

import time

import numpy as np

from shardmark.instances.files.columns import Ints
from shardmark.solvers.placement.kernels.loads import Nets

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
