"""Which placements an integer program has: any sets, contiguous ones, or devices that follow one another."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from instances.columns import Floats, Ints
from instances.graph import Graph, find_cycle
from solvers.placement._ip_program import Columns, Items, Pairs, Place, Program

#: So many items for each device have rows that break the symmetry of devices.
RANKED = 3


class Sets(Program):
    """A place is a device. Those of a kind are alike: the i-th is not used by the first i items in some order.

    More strictly, an item of that order is on a device only if one before it is on the previous device. Items that take
    longest come first.
    """

    def __init__(self, items: Items, upper: float, *, contiguous: bool) -> None:
        super().__init__(items, upper)
        instance = items.instance
        self._order = [_longest_first(items, time) for time in (instance.cpu_time, instance.accelerator_time)]
        counts = (min(count, items.count) for count in (instance.accelerators, instance.cpus))
        accelerators, cpus = (
            self._ranked(count, on, self._order[on]) for count, on in zip(counts, (True, False), strict=True)
        )
        self.add_places(accelerators, cpus)
        if contiguous:
            for place in self.places:
                for part in (False, True):
                    self._keep_contiguous(place, np.flatnonzero(instance.backward == part))
        self.add_loads()

    def _ranked(self, count: int, accelerator: bool, order: Ints) -> list[Columns]:
        """Columns of devices of one kind."""
        allowed = self.allowed(accelerator)
        ranked = [v for v in order.tolist() if allowed[v]]
        found: list[Columns] = [[None] * self.items.count for _ in range(count)]
        for rank, v in enumerate(ranked):
            for device in range(min(count, rank + 1)):
                found[device][v] = self.column(whole=True)
        for rank, v in enumerate(ranked[: RANKED * count]):
            for before, after in pairwise(found):
                if after[v] is not None:
                    self.require([(1, after[v]), *((-1, before[u]) for u in ranked[:rank])], 0)
        return found

    def _keep_contiguous(self, place: Place, nodes: Ints) -> None:
        """Lemma A.1 for the nodes of one pass: z says that a node of the place can be reached from a node, or is it.

        Where no edge leads to a node it says nothing, and where none leads on it is x.
        """
        instance = self.items.instance
        inside = np.zeros(instance.nodes, dtype=bool)
        inside[nodes] = True
        x = [place.column[v] for v in self.items.of.tolist()]
        reached: list[int | None] = list(x)
        for v in instance.graph.topological_order[::-1].tolist():
            after, before = (
                [u for u in near(v).tolist() if inside[u]]
                for near in (instance.graph.successors, instance.graph.predecessors)
            )
            if not inside[v] or not after or not before:
                continue
            pairs: Pairs = [(at, None) for at in dict.fromkeys([x[v], *(reached[w] for w in after)])]
            z = reached[v] = self.greatest(pairs)
            for at in dict.fromkeys(x[u] for u in before):
                if at is not None and at != x[v]:
                    self.require([(1, z), (1, at), (-1, x[v])], 1)

    def _ones(self, device: Ints) -> Columns:
        number: dict[int, int] = {}
        cpus = sum(place.accelerator for place in self.places)
        for on, first in ((True, 0), (False, cpus)):
            mine = [d for d in device[self._order[on]].tolist() if (d < self.items.instance.accelerators) == on]
            number |= {d: first + rank for rank, d in enumerate(dict.fromkeys(mine))}
        return [self.places[number[d]].column[v] for v, d in enumerate(device.tolist())]

    def _devices(self, value: Sequence[float]) -> Ints:
        instance = self.items.instance
        idle = instance.accelerators - sum(place.accelerator for place in self.places)
        number = [p if place.accelerator else p + idle for p, place in enumerate(self.places)]
        return np.array(number, dtype=np.int64)


class Chain(Program):
    """A place is a position in the order of the devices while it is an accelerator, or while it is a CPU."""

    def __init__(self, items: Items, upper: float) -> None:
        super().__init__(items, upper)
        instance = items.instance
        self._counts = [min(count, items.count) for count in (instance.accelerators, instance.cpus)]
        self._length = sum(self._counts)
        self.kinds = [self.column(whole=True) for _ in range(self._length)]  # accelerators have 1
        self.require([(1, kind) for kind in self.kinds], self._counts[0], self._counts[0])
        accelerators, cpus = ([self._position(on) for _ in range(self._length)] for on in (True, False))
        for kind, on, off in zip(self.kinds, accelerators, cpus, strict=True):
            for v in range(items.count):
                self.require([(1, on[v]), (-1, kind)], 0)
                self.require([(1, off[v]), (1, kind)], 1)
        self.add_places(accelerators, cpus)
        self._follow(accelerators, cpus)
        self.add_loads()

    def _position(self, accelerator: bool) -> Columns:
        allowed = self.allowed(accelerator)
        some = self._counts[0 if accelerator else 1] > 0
        return [self.column(whole=True) if some and allowed[v] else None for v in range(self.items.count)]

    def _follow(self, accelerators: list[Columns], cpus: list[Columns]) -> None:
        """Edges between items lead to the same position or a later one: y says that an item is not after a position."""
        before: Columns = [None] * self.items.count
        for on, off in zip(accelerators[:-1], cpus[:-1], strict=True):
            y: list[int | None] = []
            for last, a, c in zip(before, on, off, strict=True):
                y.append(made := self.column())
                self.least[made] = [(last, None), (a, None), (c, None)]
                self.require([(1, made), (-1, last), (-1, a), (-1, c)], 0, 0)
            for u, v in zip(self.items.tail.tolist(), self.items.head.tolist(), strict=True):
                self.require([(1, y[v]), (-1, y[u])], 0)
            before = y

    def _ones(self, device: Ints) -> Columns | None:
        used, number = np.unique(device, return_inverse=True)
        ends = np.column_stack([number.reshape(-1)[end] for end in (self.items.tail, self.items.head)])
        ends = np.unique(ends[ends[:, 0] != ends[:, 1]], axis=0)
        if find_cycle(len(used), ends[:, 0], ends[:, 1]):
            return None
        order = Graph(len(used), ends[:, 0], ends[:, 1]).topological_order
        on = [d < self.items.instance.accelerators for d in used[order].tolist()]
        position = np.argsort(order)[number.reshape(-1)].tolist()
        chosen = [self.places[p + (0 if on[p] else self._length)].column[v] for v, p in enumerate(position)]
        idle = self._counts[0] - sum(on)
        filled = [*on, *[True] * idle, *[False] * self._length][: self._length]
        return [*chosen, *(kind for kind, accelerator in zip(self.kinds, filled, strict=True) if accelerator)]

    def _devices(self, value: Sequence[float]) -> Ints:
        on = np.array([value[kind] > 0.5 for kind in self.kinds])
        cpu = self.items.instance.accelerators + np.cumsum(~on) - 1
        return np.concatenate([np.cumsum(on) - 1, cpu]).astype(np.int64)


def _longest_first(items: Items, time: Floats) -> Ints:
    return np.argsort(-items.sums(time), kind="stable").astype(np.int64)
