"""The model of schedules for CP-SAT: optional, non-overlapping intervals on devices, and transfers between them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise, product

import numpy as np
from numpy.typing import NDArray

from shardmark.instances.files.columns import Floats, Ints
from shardmark.instances.scheduling import TOLERANCE, Instance
from shardmark.solvers._cpsat import add_hint
from shardmark.solvers.scheduling.exact.writer import Writer
from shardmark.solvers.scheduling.schedules.heads_tails import HeadsTails, proved

#: Most units of time of a schedule.
FINEST = 2**36

#: Greatest share of a makespan that rounding all times down may remove.
EXACT = 1e-10

#: Units subtracted before times are rounded down, more than the errors of float sums up to the longest time; and the
#: greatest difference of two equal times after a start, a duration and a transfer are rounded.
SHAVED, SLACK = 2**-7, 3


@dataclass(frozen=True)
class Clock:
    """Units of time: ``whole`` if every time is a multiple of the unit; else times are rounded down.

    ``most``  greatest makespan of the schedules to find
    """

    unit: Fraction
    whole: bool
    most: int

    @property
    def early(self) -> int:
        """Units by which memory is released early in the model: at least `TOLERANCE` of ``most``."""
        return int(self.most * TOLERANCE * (1 + 1e-6)) + (not self.whole)

    def units(self, amount: Floats, rate: Floats) -> Ints:
        """Times of amounts at rates, shape (amounts, rates), at most one above ``most``; rates may be infinite."""
        if self.whole:
            exact = [[int(_quotient(a, r) / self.unit) for r in rate.tolist()] for a in amount.tolist()]
            table = np.minimum(np.array(exact, dtype=object).reshape(len(amount), len(rate)), self.most + 1)
        else:
            with np.errstate(over="ignore"):  # times far above the longest
                units = amount[:, None] / rate / float(self.unit) * (1 - 1e-15)
            table = np.floor(np.clip(units - SHAVED, 0, self.most + 1))
        return table.astype(np.int64)


def clock(instance: Instance, longest: float) -> Clock:
    """A common unit of all times if ``longest`` is less than `FINEST` of them; else a sufficiently fine unit."""
    common, finest = 1, FINEST / Fraction(longest)
    rates = instance.bandwidth[(instance.bandwidth > 0) & np.isfinite(instance.bandwidth)]
    for amounts, each in ((instance.complexity, instance.speed), (instance.size, rates)):
        for amount, rate in product(np.unique(amounts).tolist(), np.unique(each).tolist()):
            common = math.lcm(common, _quotient(amount, rate).denominator)
            if common > finest:
                steps = min(FINEST, int(2 * (instance.nodes + 1) / EXACT))
                return Clock(Fraction(longest) / steps, False, steps + 1)
    return Clock(Fraction(1, common), True, math.ceil(Fraction(longest) * common) + 1)


def _quotient(amount: float, rate: float) -> Fraction:
    return Fraction(amount) / Fraction(rate) if math.isfinite(rate) else Fraction(0)


class Model:
    """A literal per unit and device, an integer start per vertex; minimises the makespan."""

    def __init__(self, instance: Instance, ends: HeadsTails, clock: Clock) -> None:
        self.instance, self.writer = instance, Writer()
        self.clock, self.most, self.slack = clock, clock.most, 0 if clock.whole else SLACK
        self.time = clock.units(instance.complexity, instance.speed).tolist()
        rates, place = np.unique(np.where(instance.bandwidth > 0, instance.bandwidth, np.inf), return_inverse=True)
        self._sizes, self._rate = clock.units(instance.size, rates), place.reshape(instance.bandwidth.shape)
        self.literals = [self._literals(number) for number in instance.unit_choice.tolist()]
        self._first: list[int] = np.unique(instance.unit, return_index=True)[1].tolist()  # vertex of each unit
        self._excluded: set[bytes] = set()
        #: For pairs of vertices a literal: if true, the second ends before the first starts.
        self._swaps: dict[tuple[int, int], int] = {}
        self.makespan = self.writer.variable(self.most)
        self.writer.minimise(self.makespan)
        self.start, self.end = ([self.writer.variable(self.most) for _ in self.time] for _ in range(2))
        self._run()
        self._send()
        self._bound(ends)

    def _literals(self, number: int) -> dict[int, int]:
        every = range(self.instance.devices)
        devices = every if number < 0 else self.instance.unit_choices[number].tolist()
        if len(devices) == 1:
            return {devices[0]: self.writer.constant(1)}
        literals = {d: self.writer.variable(1) for d in devices}
        self.writer.exactly_one(literals.values())
        return literals

    def of(self, v: int) -> dict[int, int]:
        """A literal for each device that a vertex may use."""
        return self.literals[self.instance.unit[v]]

    def _run(self) -> None:
        """Vertices on the same device do not overlap."""
        on: list[list[int]] = [[] for _ in range(self.instance.devices)]
        load: list[list[tuple[int, int]]] = [[(self.makespan, -1)] for _ in on]
        for v, (start, end) in enumerate(zip(self.start, self.end, strict=True)):
            terms = [(literal, self.time[v][d]) for d, literal in self.of(v).items()]
            self.writer.row([(start, 1), (end, -1), *terms], 0, 0)
            for d, (literal, time) in zip(self.of(v), terms, strict=True):
                on[d].append(self.writer.task(start, time, literal))
                load[d].append((literal, time))
        for intervals, parts in zip(on, load, strict=True):
            if len(intervals) > 1:
                self.writer.no_overlap(intervals)
                self.writer.row(parts, most=0)

    def _send(self) -> None:
        """Tensors arrive before their readers start."""
        for e, (u, v) in enumerate(
            zip(self.instance.graph.tail.tolist(), self.instance.graph.head.tolist(), strict=True)
        ):
            self.writer.before(self.end[u], self.start[v])
            if self.moves(e):
                self.carry(e, self.end[u], self.start[v])

    def moves(self, e: int) -> bool:
        """True if the ends of an edge can be on different devices such that its transfer takes time."""
        ends = self.instance.graph.tail[e], self.instance.graph.head[e]
        return bool(self.instance.unit[ends[0]] != self.instance.unit[ends[1]] and self.instance.size[e])

    def carry(self, e: int, departure: int, arrival: int, late: int | None = None) -> None:
        """A tensor arrives no earlier than its transfer allows; at most ``late`` units later, if given.

        Other constraints ensure that it does not arrive before it departs. Makers and readers must be linked.
        """
        tail, head = (self.of(int(v)) for v in (self.instance.graph.tail[e], self.instance.graph.head[e]))
        for b, reached in head.items():
            linked = {a: left for a, left in tail.items() if self.instance.bandwidth[a, b]}
            for a in tail.keys() - linked.keys():
                self.writer.clause([~tail[a], ~reached])
            delays = [(left, self.delay(e, a, b)) for a, left in linked.items()]
            late_by = [(arrival, 1), (departure, -1), *((left, -delay) for left, delay in delays)]
            if any(delay for _, delay in delays):
                self.writer.row(late_by, least=0, when=[reached])
            if late is not None:
                self.writer.row(late_by, most=late, when=[reached])

    def delay(self, e: int, a: int, b: int) -> int:
        """Time that a tensor takes from one device to another, in units; 0 within a device."""
        return int(self._sizes[e, self._rate[a, b]])

    def _bound(self, ends: HeadsTails) -> None:
        """Add heads and tails, per device if known, and the known upper bound on the makespan."""
        start, behind = ends.start, ends.behind
        if ends.instance.devices < self.instance.devices:
            every = (1, self.instance.devices)
            start, behind = np.tile(ends.head[:, None], every), np.tile(ends.tail[:, None], every)
        heads, tails = (self._floor(ends) for ends in (start, behind))
        for v, (head, tail) in enumerate(zip(heads, tails, strict=True)):
            near, far = (min(ends[d] for d in self.of(v)) for ends in (head, tail))
            self.writer.row([(self.start[v], 1)], least=near)
            self.writer.before(self.end[v], self.makespan, far)
            for d, literal in self.of(v).items():
                if head[d] > near:
                    self.writer.row([(self.start[v], 1)], least=head[d], when=[literal])
                if tail[d] > far:
                    self.writer.before(self.end[v], self.makespan, tail[d], when=[literal])

    def _floor(self, times: Floats) -> list[list[int]]:
        """Proved times in units, capped just above the longest."""
        with np.errstate(over="ignore"):  # times far above the longest
            units = np.minimum(self.most + 1, proved(1.0, self.instance) * times / float(self.clock.unit))
        floors: list[list[int]] = np.floor(units).astype(np.int64).tolist()
        return floors

    def proved(self, bound: float) -> float:
        """Convert a bound in units, rounded down, to the time of the instance."""
        return float(bound * self.clock.unit) * (1 - 1e-12)

    def hint(self, device: Ints, sequence: Ints) -> None:
        """Hint: vertices on these devices, in a sequence of all vertices."""
        graph, free = self.instance.graph, [0] * self.instance.devices
        values = dict[int, int]()
        into = np.split(np.argsort(graph.head, kind="stable"), graph.in_csr[0][1:-1])
        end = [0] * self.instance.nodes
        for v in sequence.tolist():
            d = int(device[v])
            tails = ((e, int(graph.tail[e])) for e in into[v].tolist())
            start = max(free[d], max((end[u] + self.delay(e, int(device[u]), d) for e, u in tails), default=0))
            free[d] = end[v] = start + self.time[v][d]
            values |= {self.start[v]: start, self.end[v]: end[v]}
        values[self.makespan] = max(end)
        for literals, v in zip(self.literals, self._first, strict=True):
            for d, literal in literals.items() if len(literals) > 1 else ():
                values[literal] = int(d == device[v])
        add_hint(self.writer.proto, values)

    def exclude(self, device: Ints, sequence: Ints) -> bool:
        """Exclude a schedule from further solutions; True if it was not excluded before.

        Every other schedule has some unit on another device, or swaps two consecutive vertices of a device.
        """
        order = sequence[np.argsort(device[sequence], kind="stable")]
        if (key := device.tobytes() + order.tobytes()) in self._excluded:
            return False
        self._excluded.add(key)
        others = [~literals[int(device[v])] for literals, v in zip(self.literals, self._first, strict=True)]
        for u, v in pairwise(order.tolist()):
            if device[u] == device[v]:
                if (u, v) not in self._swaps:
                    self._swaps[u, v] = self.writer.variable(1)
                    self.writer.before(self.end[v], self.start[u], when=[self._swaps[u, v]])
                others.append(self._swaps[u, v])
        self.writer.clause(others)
        return True

    def found(self, solution: Sequence[int]) -> tuple[Ints, Ints]:
        """Devices of the vertices in a solution, and all vertices by start, then end, then topological order."""
        place: NDArray[np.int64] = np.empty(self.instance.nodes, dtype=np.int64)
        place[self.instance.graph.topological_order] = np.arange(self.instance.nodes)
        start, end = (np.array([solution[x] for x in column]) for column in (self.start, self.end))
        chosen = np.array([next(d for d, x in of.items() if solution[x]) for of in self.literals])
        return chosen[self.instance.unit], np.lexsort((place, end, start))
