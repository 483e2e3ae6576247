"""Units of ``placement`` that chains of ideals keep together, their order, and their costs as whole numbers."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from shardmark.harness.verify.certificates import Unproven
from shardmark.harness.verify.certificates.placement_units import Units
from shardmark.instances.graph import strong_components

#: Bits of the sum of all times, and of all sizes: what is computed with them stays within 64 bits.
BITS = 60
#: Most items, and most ideals of them.
MOST_ITEMS, MOST_IDEALS = 1 << 10, 1 << 16
#: Most nodes of which all pairs are compared.
MOST_ORDERED = 1 << 14


@dataclass(frozen=True)
class Chosen:
    """The units, edges and passes of an instance that a proof uses.

    ``left_out``  units that it does not use; ``skipped``: nodes whose edges it does not use for the order
    ``passes``    those whose edges order units; ``turned``: backward edges are reversed
    """

    left_out: set[int]
    skipped: set[int]
    passes: tuple[bool, ...]
    turned: bool


class Items:
    """Units that an order has on a cycle, so that an ideal contains all of them or none; other units are left out.

    Times and sizes are rounded down to whole multiples of a power of two, the target is rounded up.

    ``count``       items; ``units_in``: shape (count,), units of each
    ``preceding``   for each item, a mask of items that an ideal with it contains
    ``fast, slow``  shape (count,), int64: times, at least the target if no device of that kind takes the item
    ``size``        shape (count,), int64, and ``room``
    ``near``        for each node that orders units, the last such nodes before it
    ``nets``        per net its items, the item that makes its tensor (-1 if it does not matter) and its time
    """

    def __init__(self, units: Units, chosen: Chosen, target: Fraction) -> None:
        self.units, self.instance = units, units.instance
        self.passes, self.left_out, of = chosen.passes, chosen.left_out, units.of
        self.near = self._near(chosen.skipped.union(v for v, unit in enumerate(of) if unit in self.left_out))
        pairs, back = set[tuple[int, int]](), self.instance.backward.tolist()
        for v, nodes in enumerate(self.near):
            units.clock.tick()
            turned = chosen.turned and back[v]
            pairs.update((of[v], of[u]) if turned else (of[u], of[v]) for u in nodes)
        tail, head = np.array(list(pairs), dtype=np.int64).reshape(-1, 2).T
        component = strong_components(len(units.fast), tail, head).tolist()
        number: dict[int, int] = {}
        self.of = [
            -1 if unit in self.left_out else number.setdefault(each, len(number)) for unit, each in enumerate(component)
        ]
        self.count = len(number)
        if self.count > MOST_ITEMS:
            raise Unproven(f"proof.without: expected at most {MOST_ITEMS} items, found {self.count}")
        self.units_in = np.bincount([v for v in self.of if v >= 0], minlength=self.count)
        self.preceding = [0] * self.count
        for u, v in pairs:
            self.preceding[self.of[v]] |= (1 << self.of[u]) & ~(1 << self.of[v])
        self._round(target, self._nets(target))

    def _near(self, skipped: set[int]) -> list[set[int]]:
        """Return for each node that is not skipped the last such nodes on the paths to it, all within its pass."""
        instance = self.instance
        near: list[set[int]] = [set() for _ in self.units.of]
        for v in instance.graph.topological_order.tolist():
            self.units.clock.tick()
            if instance.backward[v] in self.passes:
                for u in self.units.before[v]:
                    if instance.backward[u] == instance.backward[v]:
                        near[v] |= near[u] if u in skipped else {u}
        return [set() if v in skipped else nodes for v, nodes in enumerate(near)]

    def _nets(self, target: Fraction) -> dict[tuple[int, ...], Fraction]:
        """Return the least of its time and the target for each net, by the item that makes its tensor and its items.

        If transfers in and out do not wait for each other, makers are distinguished and have to be known.
        """
        directed = self.instance.overlap == "full"
        members = [{unit} for unit in self.units.of]
        for v, tensors in enumerate(self.units.read):
            self.units.clock.tick()
            for u in tensors:
                members[u].add(self.units.of[v])
        nets: dict[tuple[int, ...], Fraction] = {}
        for u, (held, time) in enumerate(zip(members, self.units.transfer, strict=True)):
            items = sorted({self.of[unit] for unit in held} - {-1})
            maker = self.of[self.units.of[u]] if directed else -1
            if len(items) > 1 and time and (maker >= 0 or not directed):
                key = maker, *items
                nets[key] = nets.get(key, Fraction(0)) + time
        return {key: min(time, target) for key, time in nets.items()}

    def _round(self, target: Fraction, nets: dict[tuple[int, ...], Fraction]) -> None:
        """Sum the units of each item, and round everything to whole numbers."""
        units = self.units
        fast, slow, size = ([Fraction(0)] * self.count for _ in range(3))
        columns = self.of, units.fast, units.slow, units.size, self._shared(target)
        for item, on, off, held, more in zip(*columns, strict=True):
            if item >= 0:
                fast[item] += more + (target if on is None else on)
                slow[item] += target if off is None else off
                size[item] += held
        for item, total in enumerate(size):
            if total > units.room:
                fast[item], size[item] = target, Fraction(0)
        fast, slow = ([min(time, target) for time in times] for times in (fast, slow))
        scale = _scale([*fast, *slow, *nets.values(), target])
        self.target = -int(-target * scale // 1)
        self.fast, self.slow = (np.array([int(time * scale) for time in times]) for times in (fast, slow))
        self.nets = [(key[1:], key[0], int(time * scale)) for key, time in sorted(nets.items())]
        scale = _scale(size)
        self.room = int(min(units.room, sum(size, Fraction(0))) * scale)
        self.size = np.array([int(each * scale) for each in size])

    def _shared(self, target: Fraction) -> list[Fraction]:
        """Return for each unit what an accelerator with it does at least for units that are left out.

        It either moves the tensors between the two or has the other one too; each shares its time between such units.
        """
        units, shared = self.units, [Fraction(0)] * len(self.units.fast)
        if self.instance.overlap == "none":
            left = {v: target if (time := units.fast[v]) is None else time for v in self.left_out}
            for members, time in units.nets:
                for v, other in (members, members[::-1]) if len(members) == 2 else ():
                    if v in left and other not in left:
                        part = min(time, left[v])
                        left[v] -= part
                        shared[other] += part
        return shared

    def comparable(self) -> tuple[NDArray[np.int64], NDArray[np.bool_], NDArray[np.bool_]]:
        """Return what the order of nodes, not of units, says of items, all of one pass.

        For nodes that are comparable to all others of their item: that item, and the items of whose nodes, at least
        one, it is comparable to every one. And shape (count, count): pairs of items with nodes that are comparable;
        an item to itself if it has several units.
        """
        of = np.array([self.of[unit] for unit in self.units.of])
        ordering = {v for v, nodes in enumerate(self.near) if nodes}.union(*self.near)
        if len(ordering) > MOST_ORDERED:
            raise Unproven(f"proof.skipped: expected at most {MOST_ORDERED} nodes with an order, found {len(ordering)}")
        nodes = np.array(sorted(ordering), dtype=np.int64)
        place = {v: at for at, v in enumerate(nodes.tolist())}
        before = np.zeros((len(nodes), len(nodes)), dtype=bool)
        for v in self.instance.graph.topological_order.tolist():
            self.units.clock.tick()
            for u in self.near[v]:
                before[place[v]] |= before[place[u]]
                before[place[v], place[u]] = True
        item = of[nodes]
        order, known = np.argsort(item, kind="stable"), np.unique(item)
        starts = np.searchsorted(item[order], known)
        both = (before | before.T)[:, order]
        some, every = (np.zeros((len(nodes), self.count), dtype=bool) for _ in range(2))
        some[:, known] = np.logical_or.reduceat(both, starts, axis=1)
        both[np.arange(len(nodes)), np.argsort(order)] = True
        every[:, known] = np.logical_and.reduceat(both, starts, axis=1)
        related = np.zeros((self.count, self.count), dtype=bool)
        related[known] = np.logical_or.reduceat(some[order], starts, axis=0)
        np.fill_diagonal(related, self.units_in > 1)
        rows = np.unique(np.column_stack([item, every])[every[np.arange(len(nodes)), item]], axis=0)
        return rows[:, 0], rows[:, 1:].astype(bool), related


def _scale(numbers: list[Fraction]) -> Fraction:
    """Return a power of two by which the sum of some numbers has at most `BITS` bits."""
    total = sum(numbers, Fraction(0))
    return Fraction(2) ** (BITS - 1 - total.numerator.bit_length() + total.denominator.bit_length())
