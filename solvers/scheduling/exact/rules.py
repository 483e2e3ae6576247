"""Rules of the model for limited memory and queues of tensors: when vertices and tensors may wait."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from functools import cached_property
from itertools import combinations, permutations, product

import numpy as np

from shardmark.instances.scheduling import Instance
from shardmark.solvers.scheduling.exact.model import Model

#: Most integer units of a memory if sizes are fractional or too large; and the limit on these times the number of
#: edges: multiplied by the units of time of a schedule, it stays far below 2^63.
PARTS, AREA = 2**14, 2**24

#: Most clauses on pairs of vertices, or of tensors, for which waiting without a reason is excluded.
DENSE = 20_000

#: Most tensors times links for queues in the model: more take seconds to write.
QUEUED = 5_000


def limited(instance: Instance) -> list[int]:
    """Devices whose memory could be exceeded by all tensors that may be read there."""
    least = np.zeros(instance.devices)
    for number in (*range(len(instance.unit_choices)), -1):
        heads = instance.unit_choice[instance.unit[instance.graph.head]] == number
        least[slice(None) if number < 0 else instance.unit_choices[number]] += instance.size[heads].sum()
    return np.flatnonzero(instance.capacity <= least * (1 + 1e-9)).tolist()


def small(instance: Instance) -> bool:
    """True if the model excludes waiting without a reason."""
    return instance.nodes**2 * instance.devices <= DENSE


def queues(instance: Instance) -> bool:
    """True if tensors queue in the model."""
    return instance.links == "queue" and instance.edges * instance.devices**2 <= QUEUED


def add_rules(model: Model) -> None:
    """Add constraints of all schedules: memory, queues and, for small graphs, no waiting without a reason.

    Every schedule, with times rounded down to units, is a solution: sizes are rounded down too, and if times are
    fractional, equal times may differ by `Model.slack`. If times are integers and waiting is excluded, every solution
    is a schedule, except for vertices without time and the order of tensors made at the same time.
    """
    instance = model.instance
    full, queue = limited(instance), queues(instance)
    if not full and not queue:
        return
    rules = _Rules(model)
    if queue:
        rules.queue()
    for d in full:
        rules.limit(d)
    if small(instance):
        rules.start_at_once()
        if queue and instance.edges**2 * instance.devices**2 <= DENSE:
            rules.send_at_once()


class _Rules:
    """Times of tensors, and the constraints on them."""

    def __init__(self, model: Model) -> None:
        self.model, self.writer, self.instance = model, model.writer, model.instance
        self.graph = model.instance.graph
        self.ends = list(enumerate(zip(self.graph.tail.tolist(), self.graph.head.tolist(), strict=True)))
        self.departure = self._departures() if queues(model.instance) else {}
        self.arrival = self._arrivals()

    def _variable(self) -> int:
        return self.writer.variable(self.model.most)

    def _departures(self) -> dict[int, int]:
        """Departure of each tensor that moves, no earlier than it is made."""
        departures = {e: self._variable() for e, _ in self.ends if self.model.moves(e)}
        for e, departure in departures.items():
            self.writer.before(self.model.end[self.graph.tail[e]], departure)
        return departures

    def _arrivals(self) -> list[int]:
        """Arrival of each tensor at its reader: no earlier than possible, and no later if links are independent."""
        model, times = self.model, []
        late = model.slack if self.departure or self.instance.links == "independent" else None
        for e, (u, v) in self.ends:
            arrival = self._variable()
            departure = self.departure.get(e, model.end[u])
            self.writer.before(departure, arrival)
            self.writer.before(arrival, model.start[v])
            if model.moves(e):
                model.carry(e, departure, arrival, late)
            else:
                self.writer.before(arrival, model.end[u], -model.slack)
            times.append(arrival)
        return times

    def limit(self, d: int) -> None:
        """Keep the memory of the tensors read on a device below its capacity: Equation (2).

        Each is released as early as the tolerance of times allows in any schedule.
        """
        intervals, demands = [], []
        demand, capacity = demands_of(self.instance, d)
        for e, (_, v) in self.ends:
            present = self.model.of(v).get(d)
            if present is None or not demand[e]:
                continue
            begin, end = self._held[e]
            if demand[e] > capacity:
                self.writer.before(end, begin, -self.model.clock.early, when=[present])
            else:
                intervals.append(self.writer.span(begin, self._released(begin, end), present, self.model.most))
                demands.append(demand[e])
        if sum(demands) > capacity:
            self.writer.limit_demand(intervals, demands, capacity)

    def _released(self, begin: int, end: int) -> int:
        """Earliest time at which a tensor that is held until ``end`` no longer takes memory."""
        if not self.model.clock.early:
            return end
        released = self._variable()
        self.writer.before(begin, released)
        self.writer.before(end, released, -self.model.clock.early)
        return released

    @cached_property
    def _held(self) -> list[tuple[int, int]]:
        """The interval in which each tensor takes memory."""
        if self.instance.holding == "waiting":
            return [(self.arrival[e], self.model.start[v]) for e, (_, v) in self.ends]
        spans = []
        for _, (u, v) in self.ends:
            begin = self._variable()
            self.writer.before(self.model.end[u], begin)
            self.writer.before(begin, self.model.end[u], -self.model.slack)
            self.writer.before(begin, self.model.end[v])
            spans.append((begin, self.model.end[v]))
        return spans

    def queue(self) -> None:
        """A link transfers one tensor at a time."""
        self.on = self._links()
        for tensors in self.on.values():
            tasks = [self.writer.task(self.departure[e], delay, present) for e, (present, delay) in tensors.items()]
            self.writer.no_overlap(tasks)

    def _links(self) -> dict[tuple[int, int], dict[int, tuple[int, int]]]:
        """For each link, the tensors that may use it: a literal for its use, and the duration."""
        on: dict[tuple[int, int], dict[int, tuple[int, int]]] = {}
        for e in self.departure:
            u, v = int(self.graph.tail[e]), int(self.graph.head[e])
            for (a, left), (b, reached) in product(self.model.of(u).items(), self.model.of(v).items()):
                if a != b and (delay := self.model.delay(e, a, b)):
                    present = self.writer.variable(1)
                    self.writer.clause([~present, left])
                    self.writer.clause([~present, reached])
                    self.writer.clause([~left, ~reached, present])
                    on.setdefault((a, b), {})[e] = present, delay
        return on

    def start_at_once(self) -> None:
        """A vertex starts at 0, when one of its inputs arrives, or when another vertex ends on its device."""
        behind = self._descendants()
        for v, start in enumerate(self.model.start):
            causes = [self._cause(start, self.writer.constant(0))]
            causes += [self._cause(start, self.arrival[e]) for e, (_, head) in self.ends if head == v]
            for u in set(range(self.instance.nodes)) - behind[v] - {v}:
                cause = self._cause(start, self.model.end[u])
                causes.append(cause)
                self.writer.before(self.model.end[u], start, when=[cause])
                self._together(cause, u, v)
            self.writer.clause(causes)

    def _together(self, cause: int, u: int, v: int) -> None:
        """Two vertices are on one device if a literal is true."""
        if self.instance.unit[u] != self.instance.unit[v]:
            for d, literal in self.model.of(v).items():
                also = [self.model.of(u)[d]] if d in self.model.of(u) else []
                self.writer.clause([~cause, ~literal, *also])

    def _cause(self, time: int, other: int) -> int:
        """A literal that, if true, makes ``time`` no later than ``other``."""
        cause = self.writer.variable(1)
        self.writer.before(time, other, -self.model.slack, when=[cause])
        return cause

    def _descendants(self) -> list[set[int]]:
        behind: list[set[int]] = [set() for _ in self.model.start]
        for v in self.graph.topological_order[::-1].tolist():
            behind[v].update(*({w} | behind[w] for w in self.graph.successors(v).tolist()))
        return behind

    def send_at_once(self) -> None:
        """Tensors depart in the order in which they are made, each at once or when another has arrived on its link."""
        first = dict(self._orders())
        causes = {
            e: [self._cause(departure, self.model.end[self.graph.tail[e]])] for e, departure in self.departure.items()
        }
        for tensors in self.on.values():
            for e, f in permutations(tensors, 2):
                (there, delay), (here, _) = tensors[e], tensors[f]
                u, w = int(self.graph.tail[e]), int(self.graph.tail[f])
                before = [first[u, w]] if u != w else []
                if u != w or e < f:
                    self.writer.before(self.departure[e], self.departure[f], delay, when=[there, here, *before])
                cause = self.writer.variable(1)
                wait = [(self.departure[f], 1), (self.departure[e], -1)]
                self.writer.row(wait, delay, delay + self.model.slack, when=[cause])
                self.writer.clause([~cause, there])
                self.writer.clause([~cause, here])
                causes[f].append(cause)
        for each in causes.values():
            self.writer.clause(each)

    def _orders(self) -> Iterator[tuple[tuple[int, int], int]]:
        """For pairs of vertices that make tensors, a literal: the first finishes no later than the second."""
        makers = sorted({int(self.graph.tail[e]) for e in self.departure})
        for u, w in combinations(makers, 2):
            before = self.writer.variable(1)
            for (a, b), literal in (((u, w), before), ((w, u), ~before)):
                self.writer.before(self.model.end[a], self.model.end[b], -self.model.slack, when=[literal])
                yield (a, b), literal


def demands_of(instance: Instance, d: int) -> tuple[list[int], int]:
    """Integer sizes of tensors, rounded down, and an integer capacity that no sum below the device's exceeds."""
    memory = Fraction(float(instance.capacity[d]))
    parts = max(1, min(PARTS, AREA // max(1, instance.edges)))
    whole = memory <= parts and (instance.size % 1 == 0).all()
    part = Fraction(1) if whole or not memory else memory / parts
    capacity = max(0, math.ceil(memory / part) - 1)
    sizes = [math.floor(Fraction(size) / part) if memory else math.ceil(size) for size in instance.size.tolist()]
    return [min(size, capacity + 1) for size in sizes], capacity
