"""The integer program for latency, with integer coefficients: the nodes, the start and the end of each subgraph.

Figures 5 and 6 of Tarnawski et al. 2020, with conditional rows instead of a large constant H. Times are rounded down,
so the latency of the program is a lower bound. But nodes without time get one unit each, as tasks could otherwise wait
for each other in a cycle.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise, product

import numpy as np

from shardmark.instances.files.columns import Ints
from shardmark.instances.placement import Instance
from shardmark.instances.rounding import safely
from shardmark.solvers.placement.ip.engine_cpsat import whole_sizes

#: Approximate cost of the best known placement, in units of time.
FINE = 2.0**30

Terms = Iterable[tuple[int, int | None]]  # a whole factor and a column; None is 0


@dataclass(frozen=True)
class Row:
    """A sum from ``least`` to ``most`` if all columns of ``when`` are 1."""

    terms: list[tuple[int, int]]
    least: int | None
    most: int | None
    when: tuple[int, ...] = ()


@dataclass(eq=False)
class Columns:
    """Whole columns from 0 to ``top``, and rows."""

    top: list[int] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)

    def add(self, top: int = 1) -> int:
        """Add a column."""
        self.top.append(top)
        return len(self.top) - 1

    def require(
        self, terms: Terms, least: int | None = None, most: int | None = None, when: tuple[int, ...] = ()
    ) -> None:
        """Add a row."""
        self.rows.append(Row([(factor, at) for factor, at in terms if at is not None], least, most, when))


def entries(instance: Instance, slots: int) -> int:
    """Approximate upper bound on the number of entries of the rows."""
    n, m = instance.nodes, instance.edges
    k = min(instance.accelerators, int(instance.unit.max(initial=-1)) + 1)
    return k * slots * (7 * n + 9 * m) + m * k * (k + slots**2)


class LatencyProgram(Columns):
    """Every placement that takes at most ``upper``, with at most ``slots`` subgraphs per accelerator.

    ``pool``    the column of each colocation unit for CPUs, None if it cannot be there
    ``on``      the same per accelerator and unit
    ``within``  the same per accelerator, slot and node: the column for this subgraph
    ``begin``, ``end``  times per accelerator and slot; ``done`` is the end of each node, ``total`` the latency
    ``owed``    units of time by which the latency of the program may exceed that of a placement
    """

    def __init__(self, instance: Instance, upper: float, lowest: float, slots: int) -> None:
        super().__init__()
        self.instance, self.upper, self.slots = instance, upper, slots
        self.unit_time = max(2.0 ** math.frexp(upper)[1] / FINE, math.ulp(0.0))
        self.units = int(instance.unit.max(initial=-1)) + 1
        self._cpu, self._fast, self._moved = (
            [int(min(x / self.unit_time, 2 * FINE)) for x in times.tolist()]
            for times in (instance.cpu_time, instance.accelerator_time, instance.transfer)
        )
        self.owed = sum(not (cpu and fast) for cpu, fast in zip(self._cpu, self._fast, strict=True))
        self._horizon = math.ceil(upper / self.unit_time) + self.owed + 1
        self.total = self.add(self._horizon)
        self.require([(1, self.total)], least=math.floor(lowest / self.unit_time))
        self.accelerators = range(min(instance.accelerators, self.units))
        self._place(upper)
        self._fit()
        self.done = [self.add(self._horizon) for _ in range(instance.nodes)]
        self._follow()
        self.begin, self.end = (
            [[self.add(self._horizon) for _ in range(slots)] for _ in self.accelerators] for _ in "ab"
        )
        for i, s in product(self.accelerators, range(slots)):
            self._schedule(i, s)
        self._order()

    def _place(self, upper: float) -> None:
        """Constraint (1), and colocation."""
        instance, most = self.instance, upper * (1 + 1e-9)
        slowest = np.zeros(self.units)
        np.maximum.at(slowest, instance.unit, instance.cpu_time)
        fast = (instance.of_units(instance.size) <= instance.room) & (instance.of_units(~instance.supported) == 0)
        fast &= instance.of_units(instance.accelerator_time) <= most
        self.pool = [self.add() if instance.cpus and time <= most else None for time in slowest.tolist()]
        self.on = [[self.add() if can else None for can in fast.tolist()] for _ in self.accelerators]
        for u in range(self.units):
            self.require([(1, self.pool[u]), *((1, on[u]) for on in self.on)], 1, 1)
        unit = instance.unit.tolist()
        self.within = [[self._subgraph(on, unit) for _ in range(self.slots)] for on in self.on]
        for on, subgraphs in zip(self.on, self.within, strict=True):
            for v, u in enumerate(unit if self.slots > 1 else []):
                self.require([*((1, columns[v]) for columns in subgraphs), (-1, on[u])], 0, 0)

    def _subgraph(self, on: list[int | None], unit: list[int]) -> list[int | None]:
        """Columns of the nodes of a slot; those of their units if the accelerator has a single slot."""
        if self.slots == 1:
            return [on[u] for u in unit]
        return [None if on[u] is None else self.add() for u in unit]

    def _fit(self) -> None:
        """Constraint (3)."""
        size = self.instance.of_units(self.instance.size)
        for on in self.on if size.sum() > self.instance.capacity else []:
            some = [(at, x) for at, x in zip(on, size.tolist(), strict=True) if at is not None and x]
            sizes, room = whole_sizes([x for _, x in some], self.instance)
            self.require([(x, at) for (at, _), x in zip(some, sizes, strict=True)], most=room)

    def _follow(self) -> None:
        """Constraints (8) and (9): a node ends after the nodes that it reads, and on CPUs it takes its time."""
        for v, u in enumerate(self.instance.unit.tolist()):
            takes = max(self._cpu[v], 1)
            for before in [None, *(self.done[w] for w in self.instance.graph.predecessors(v).tolist())]:
                self.require([(1, self.done[v]), (-1, before), (-takes, self.pool[u])], least=0)
            if not len(self.instance.graph.successors(v)):
                self.require([(1, self.total), (-1, self.done[v])], least=0)

    def _schedule(self, i: int, s: int) -> None:
        """Constraints (4) to (7) and (10) of a subgraph."""
        graph, within = self.instance.graph, self.within[i][s]
        spent: list[tuple[int, int]] = [(1, self.begin[i][s]), (-1, self.end[i][s])]
        ends = zip(graph.tail.tolist(), graph.head.tolist(), strict=True)
        real = dict(zip(ends, ~self.instance.artificial, strict=True))
        for u in range(self.instance.nodes):
            readers = [v for v in graph.successors(u).tolist() if within[v] != within[u]]
            paid = [v for v in readers if real[u, v]]
            read = self._any([(within[v], within[u]) for v in paid])
            waits = read if len(paid) == len(readers) else self._any([(within[v], within[u]) for v in readers])
            sent = self._any([(within[u], within[v]) for v in paid])
            if waits is not None:
                self.require([(1, self.begin[i][s]), (-1, self.done[u])], least=0, when=(waits,))
            spent += [(self._moved[u], at) for at in (read, sent) if at is not None and self._moved[u]]
        for v, at in enumerate(within):
            if at is None:
                continue
            spent.append((self._fast[v], at))
            self.require([(1, self.done[v]), (-1, self.end[i][s])], least=0, when=(at,))
            if not self._fast[v]:
                self.require([(1, self.end[i][s]), (-1, self.begin[i][s]), (-1, at)], least=0)
        self.require(spent, most=0)

    def _any(self, pairs: list[tuple[int | None, int | None]]) -> int | None:
        """A column that is 1 if in some pair the first column is 1 and the second is 0; None if that is impossible."""
        some = dict.fromkeys(pair for pair in pairs if pair[0] is not None)
        if not some:
            return None
        made = self.add()
        for first, second in some:
            self.require([(1, made), (-1, first), (1, second)], least=0)
        return made

    def _order(self) -> None:
        """Order the subgraphs of an accelerator, Constraint (14), and equal accelerators by their first subgraphs.

        In both orders, no node comes before a node that it reads.
        """
        for begin, end, subgraphs in zip(self.begin, self.end, self.within, strict=True):
            for s in range(1, self.slots):
                self.require([(1, begin[s]), (-1, end[s - 1])], least=0)
            self._after(subgraphs)
        for before, after in pairwise(self.begin):
            self.require([(1, after[0]), (-1, before[0])], least=0)
        self._after([subgraphs[0] for subgraphs in self.within])

    def _after(self, row: list[list[int | None]]) -> None:
        """No edge leads back in a row of subgraphs."""
        for u, v in zip(self.instance.graph.tail.tolist(), self.instance.graph.head.tolist(), strict=True):
            for cut in range(1, len(row)):
                late, early = [columns[u] for columns in row[cut:]], [columns[v] for columns in row[:cut]]
                self.require([(1, at) for at in late + early], most=1)

    def one_of_either_pass(self) -> None:
        """Of the two subgraphs of an accelerator, one has forward and one has backward nodes."""
        backward = self.instance.backward.tolist()
        for first, second in self.within:
            turned, both = self.add(), self.add()
            for v, (a, b) in enumerate(zip(first, second, strict=True)):
                sign, more = (1, 0) if backward[v] else (-1, 1)  # if reversed, backward nodes come first
                self.require([(1, b), (-1, both)], most=0)
                self.require([(1, b), (sign, turned)], most=1 - more)
                self.require([(1, a), (1, both), (-sign, turned)], most=1 + more)

    def proved(self, bound: float) -> float:
        """Convert a bound on the latency of the program to a safe one."""
        least = min((bound - self.owed) * self.unit_time, self.upper)
        return safely(least, self.instance.nodes + self.instance.edges)

    def places(self, device: Ints, slot: Ints) -> dict[int, int]:
        """Columns that place nodes, with their values for a `Schedule`; empty if the program does not contain it."""
        value: dict[int, int] = {}
        for v, (u, d, s) in enumerate(zip(self.instance.unit.tolist(), device.tolist(), slot.tolist(), strict=True)):
            if d < self.instance.accelerators and s >= self.slots:
                return {}
            at = [(self.pool[u], d >= self.instance.accelerators)]
            for i, (on, subgraphs) in enumerate(zip(self.on, self.within, strict=True)):
                at += [(on[u], d == i), *((columns[v], (d, s) == (i, j)) for j, columns in enumerate(subgraphs))]
            if any(column is None and is_there for column, is_there in at):
                return {}
            value |= {column: int(is_there) for column, is_there in at if column is not None}
        return value

    def placement(self, value: Sequence[int]) -> tuple[Ints, Ints]:
        """Device and slot of each node, shape (n,), in a solution."""
        device = np.full(self.instance.nodes, self.instance.accelerators)
        slot = np.zeros(self.instance.nodes, dtype=np.int64)
        for i, subgraphs in enumerate(self.within):
            for s, columns in enumerate(subgraphs):
                there = [v for v, at in enumerate(columns) if at is not None and value[at]]
                device[there], slot[there] = i, s
        return device, slot
