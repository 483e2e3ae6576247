"""The integer programs of each mode: arbitrary sets, contiguous sets, or ordered devices."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np

from shardmark.instances.files.columns import Floats, Ints
from shardmark.instances.graph import Graph, Index, find_cycle
from shardmark.instances.placement import Instance
from shardmark.solvers.placement.ideals.blocks import edges_between
from shardmark.solvers.placement.ip.devices import DeviceKind
from shardmark.solvers.placement.ip.program import Build, Columns, Items, LoadProgram, Pairs, Place, successive, units
from shardmark.solvers.registry import Declined

#: Items per device with rows that break the symmetry of devices.
RANKED = 3


def require_covered(instance: Instance) -> None:
    """Decline options that no program covers."""
    if instance.objective != "throughput":
        raise Declined("the programs for the greatest load are for throughput")
    if instance.allreduce is not None:
        raise Declined(f"the programs are for allreduce none, found {instance.allreduce}")


def programs(instance: Instance, contiguity: str) -> list[Build]:
    """Programs that together contain all placements of a mode, at their costs under the other options."""
    if contiguity == "acyclic":
        shape = Positions if instance.cluster is None else Ordered
        return [partial(shape, items) for items in successive(instance)]
    return [partial(Sets if contiguity == "free" else Contiguous, units(instance))]


class Sets(LoadProgram):
    """A place is a device of a `DeviceKind`; items are sorted by time, longest first."""

    def __init__(self, items: Items, upper: float, most: int, *more: Any) -> None:
        super().__init__(items, upper, most, *more)
        instance = items.instance
        k, count = instance.accelerators, items.count
        self._kinds = DeviceKind(0, k, count, instance.cluster), DeviceKind(k, instance.cpus, count)
        self._order = [_longest_first(items, time) for time in (instance.accelerator_time, instance.cpu_time)]
        accelerators, cpus = (self._ranked(kind, on) for kind, on in zip(self._kinds, (True, False), strict=True))
        clusters = self._kinds[0].cluster
        self.add_places(accelerators, cpus, clusters if len(set(clusters)) > 1 else None)
        self._add_shape()
        self.add_loads()

    def _add_shape(self) -> None:
        """Restrict the sets of places; here not at all."""

    def _ranked(self, kind: DeviceKind, accelerator: bool) -> list[Columns]:
        """Columns of devices of one kind."""
        allowed = self.allowed(accelerator)
        ranked = [v for v in self._order[not accelerator].tolist() if allowed[v]]
        found: list[Columns] = [[None] * self.items.count for _ in kind.number]
        for rank, v in enumerate(ranked):
            for column, depth in zip(found, kind.depth, strict=True):
                if depth <= rank:
                    column[v] = self.column(whole=True)
        for rank, v in enumerate(ranked[: RANKED * len(found)]):
            for column, before in zip(found, kind.previous, strict=True):
                if before is not None and column[v] is not None:
                    self.require([(1, column[v]), *((-1, found[before][u]) for u in ranked[:rank])], 0)
        return found

    def _places(self, device: Ints) -> list[int]:
        """The number of the place of each item, given its device."""
        k, number = self.items.instance.accelerators, dict[int, int]()
        for kind, on, first in zip(self._kinds, (True, False), (0, len(self._kinds[0].number)), strict=True):
            mine = dict.fromkeys(d for d in device[self._order[not on]].tolist() if (d < k) == on)
            number |= {d: first + place for d, place in kind.among(list(mine)).items()}
        return [number[d] for d in device.tolist()]

    def _place_columns(self, device: Ints) -> Columns | None:
        return [self.places[place].column[v] for v, place in enumerate(self._places(device))]

    def _devices(self, value: Sequence[float]) -> Ints:
        return np.array([d for kind in self._kinds for d in kind.number], dtype=np.int64)


class Contiguous(Sets):
    """A place has a contiguous set of the nodes of each pass."""

    def _add_shape(self) -> None:
        for place in self.places:
            for part in (False, True):
                self._keep_contiguous(place, np.flatnonzero(self.items.instance.backward == part))

    def _keep_contiguous(self, place: Place, nodes: Ints) -> None:
        """Lemma A.1 for the nodes of one pass: z is 1 if a node is in the place or reaches a node of it.

        Nodes without predecessors need no z, and for nodes without successors it is x.
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
            pairs: Pairs = [(at, []) for at in dict.fromkeys([x[v], *(reached[w] for w in after)])]
            z = reached[v] = self.greatest(pairs)
            for at in dict.fromkeys(x[u] for u in before):
                if at is not None and at != x[v]:
                    self.require([(1, z), (1, at), (-1, x[v])], 1)


class Ordered(Sets):
    """Places have an order: a column per pair is 1 if the first comes before the second."""

    def _add_shape(self) -> None:
        count = len(self.places)
        self._before = {pair: self.column(whole=True) for pair in combinations(range(count), 2)}
        for i, j, h in combinations(range(count), 3):
            ends = [(1, self._before[i, j]), (1, self._before[j, h]), (-1, self._before[i, h])]
            self.require(ends, 1, 0)
        for u, v in zip(self.items.tail.tolist(), self.items.head.tolist(), strict=True):
            for (i, j), before in self._before.items():
                self._follow(self.places[i].column[u], self.places[j].column[v], [(-1, before)], 1)
                self._follow(self.places[j].column[u], self.places[i].column[v], [(1, before)], 2)

    def _follow(self, u: int | None, v: int | None, before: list[tuple[int, int | None]], most: int) -> None:
        if u is not None and v is not None:
            self.require([(1, u), (1, v), *before], most)

    def _place_columns(self, device: Ints) -> Columns | None:
        place = np.array(self._places(device))
        order = _group_order(self.items, place, len(self.places))
        if order is None:
            return None
        rank = np.argsort(order).tolist()
        ahead = [column for (i, j), column in self._before.items() if rank[i] < rank[j]]
        return [*(self.places[p].column[v] for v, p in enumerate(place.tolist())), *ahead]


class Positions(LoadProgram):
    """A place is a position in the order of the devices, and a kind of device."""

    def __init__(self, items: Items, upper: float, most: int, *more: Any) -> None:
        super().__init__(items, upper, most, *more)
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
        """Edges lead to the same position or a later one; y is 1 if an item is not after a position."""
        before: Columns = [None] * self.items.count
        for on, off in zip(accelerators[:-1], cpus[:-1], strict=True):
            y: list[int | None] = []
            for last, a, c in zip(before, on, off, strict=True):
                y.append(made := self.column())
                self.least[made] = [(last, []), (a, []), (c, [])]
                self.require([(1, made), (-1, last), (-1, a), (-1, c)], 0, 0)
            for u, v in zip(self.items.tail.tolist(), self.items.head.tolist(), strict=True):
                self.require([(1, y[v]), (-1, y[u])], 0)
            before = y

    def _place_columns(self, device: Ints) -> Columns | None:
        used, number = np.unique(device, return_inverse=True)
        order = _group_order(self.items, number.reshape(-1), len(used))
        if order is None:
            return None
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


def _group_order(items: Items, group: Ints, groups: int) -> Index | None:
    """A topological order of groups of items; None if there is none."""
    ends = edges_between(group, items.tail, items.head)
    return None if find_cycle(groups, *ends) else Graph(groups, *ends).topological_order


def _longest_first(items: Items, time: Floats) -> Ints:
    return np.argsort(-items.sums(time), kind="stable").astype(np.int64)
