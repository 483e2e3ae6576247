"""``scheduling`` by its definition, in exact integers: the cost of a schedule, whether it fits, and the optimum.

Mayer et al., "The TensorFlow Partitioning and Scheduling Problem: It's the Critical Path!", Sections 2 and 4, with the
options and the tolerance of the README. Shares no code with the verifier or the solvers. Times and sizes are multiples
of units fine enough for every event, so that nothing is ever rounded.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from fuzz import numbers

from shardmark.instances import InputError
from shardmark.instances.scheduling import FORMAT, Instance, parse

#: Two times, or two sizes, are equal if they differ by no more than one part in this number.
EQUAL = 10**9

Devices = Sequence[int]
Orders = Sequence[Sequence[int]]


class Oracle:
    """An instance in plain lists and integers.

    ``edges``     (producer, consumer) of each tensor
    ``time``      of each vertex on each device
    ``transfer``  of each tensor from each device to each other one, None without a link
    ``size``      of each tensor, and ``memory`` of each device, None without a limit
    ``unit``      of time
    """

    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        self.nodes, self.devices = range(instance.nodes), range(instance.devices)
        self.edges = list(zip(instance.graph.tail.tolist(), instance.graph.head.tolist(), strict=True))
        self.read = [[e for e, (_, head) in enumerate(self.edges) if head == v] for v in self.nodes]
        self.sent = [[e for e, (tail, _) in enumerate(self.edges) if tail == v] for v in self.nodes]
        self._measure_sizes()
        self._measure_times()

    def _measure_sizes(self) -> None:
        size = [Fraction(x) for x in self.instance.size.tolist()]
        memory = [Fraction(x) if math.isfinite(x) else None for x in self.instance.memory.tolist()]
        unit = Fraction(1, math.lcm(*(x.denominator for x in [*size, *filter(None, memory)])))
        self.size = [int(x / unit) for x in size]
        self.memory = [None if x is None else int(x / unit) for x in memory]

    def _measure_times(self) -> None:
        instance, every = self.instance, self.devices
        speed = [Fraction(x) for x in instance.speed.tolist()]
        time = [[Fraction(x) / s for s in speed] for x in instance.complexity.tolist()]

        def pass_link(size: float, a: int, b: int) -> Fraction | None:
            width = float(instance.bandwidth[a, b])
            return Fraction() if a == b or not size else Fraction(size) / Fraction(width) if width else None

        moves = [[[pass_link(x, a, b) for b in every] for a in every] for x in instance.size.tolist()]
        flat = [*itertools.chain(*time), *(x for table in moves for row in table for x in row if x is not None)]
        m = len(self.edges)  # each departure on a shared link divides a span of time by m at most
        parts = math.lcm(*range(1, m + 1)) ** m if instance.links == "share" else 1
        self.unit = Fraction(1, math.lcm(*(x.denominator for x in flat)) * parts)
        self.time = [[int(x / self.unit) for x in row] for row in time]
        self.transfer = [[[None if x is None else int(x / self.unit) for x in row] for row in table] for table in moves]

    @cached_property
    def groups(self) -> list[list[int]]:
        """The groups of vertices that must share a device."""
        colour = self.instance.colocation.tolist()
        numbered = [[v for v in self.nodes if colour[v] == c] for c in sorted(set(colour) - {-1})]
        return numbered + [[v] for v in self.nodes if colour[v] < 0]

    def allowed(self, v: int) -> set[int]:
        """Return the devices that a vertex may use."""
        number = int(self.instance.choice[v])
        return set(self.devices if number < 0 else self.instance.choices[number].tolist())

    def linked(self, device: Devices) -> bool:
        """Return True if every tensor has a link to travel on."""
        return all(self.transfer[e][device[u]][device[v]] is not None for e, (u, v) in enumerate(self.edges))

    def fits(self, device: Devices, run: Run) -> bool:
        """Equation (2): memory in use stays below the limit of each device, up to one part in `EQUAL`."""
        waits = self.instance.holding == "waiting"
        for d, memory in enumerate(self.memory):
            spans = []
            for e, (u, v) in enumerate(self.edges if memory is not None else []):
                begin, end = (run.arrival[e], run.start[v]) if waits else (run.finish[u], run.finish[v])
                assert begin is not None
                assert end is not None
                if device[v] == d and self.size[e] and begin * EQUAL < end * (EQUAL - 1):
                    spans.append((begin * EQUAL, end * (EQUAL - 1), self.size[e]))
            for now, _, _ in spans:
                assert memory is not None
                if sum(size for begin, end, size in spans if begin <= now < end) * EQUAL >= memory * (EQUAL - 1):
                    return False
        return True


class Run:
    """A simulation in which devices run their vertices by an order or, if given, by ``priority``.

    ``start``, ``finish``  of each vertex, ``arrival`` of each tensor; None if that never happens
    ``order``              the vertices of each device as they started
    """

    def __init__(
        self, oracle: Oracle, device: Devices, order: Orders = (), priority: Sequence[float] | None = None
    ) -> None:
        n = len(oracle.nodes)
        self.oracle, self.device, self._given, self._priority = oracle, device, order, priority
        self.start: list[int | None] = [None] * n
        self.finish: list[int | None] = [None] * n
        self.arrival: list[int | None] = [None] * len(oracle.edges)
        self.order: list[list[int]] = [[] for _ in oracle.devices]
        self._since: dict[int, int] = {}  # when each waiting vertex became executable
        self._missing = [len(edges) for edges in oracle.read]
        self._running: dict[int, tuple[int, int]] = {}  # per device: when its vertex ends, and the vertex
        self._flying: dict[int, int] = {}  # per tensor: when it arrives
        self._free: dict[tuple[int, int], int] = {}  # per queueing link: when it is free
        self._shared: dict[
            tuple[int, int], tuple[int, dict[int, int]]
        ] = {}  # per shared link: a time, and the transfer time left of each tensor then
        self._run()

    @property
    def makespan(self) -> int | None:
        """The end of the last vertex; None if not all ever run."""
        finish = [x for x in self.finish if x is not None]
        return max(finish, default=0) if len(finish) == len(self.finish) else None

    def _run(self) -> None:
        """Simulate moment by moment, in rounds: first all that ends in a moment, then idle devices start vertices.

        If devices choose by priority, a moment lasts for one part in `EQUAL` of the time.
        """
        moment = limit = 0
        for v, missing in enumerate(self._missing):
            if not missing:
                self._since[v] = 0
        self._start_idle()
        while (next_event := min(self._events(), default=None)) is not None:
            if next_event[0] > limit:
                moment = next_event[0]
                limit = moment + (moment // EQUAL if self._priority is not None else 0)
            while next_event is not None and next_event[0] <= limit:
                self._happen(*next_event, moment)
                next_event = min(self._events(), default=None)
            self._start_idle()

    def _events(self) -> Iterator[tuple[int, int, Any]]:
        for link, (since, left) in self._shared.items():
            if left:
                yield since + min(left.values()) * len(left), 0, link
        for e, time in self._flying.items():
            yield time, 1, e
        for d, (time, _) in self._running.items():
            yield time, 2, d

    def _happen(self, time: int, kind: int, what: Any, moment: int) -> None:
        if kind == 0:
            self._serve(what, time)
            left = self._shared[what][1]
            for e in [e for e, rest in left.items() if not rest]:
                del left[e]
                self._arrive(e, time, moment)
        elif kind == 1:
            del self._flying[what]
            self._arrive(what, time, moment)
        else:
            _, v = self._running.pop(what)
            for e in self.oracle.sent[v]:
                self._send(e, time, moment)

    def _serve(self, link: tuple[int, int], until: int) -> None:
        """Transfer tensors on a link at equal shares until a time."""
        since, left = self._shared[link]
        if left:
            span, rest = divmod(until - since, len(left))
            assert not rest
            left = {e: needed - span for e, needed in left.items()}
        self._shared[link] = until, left

    def _send(self, e: int, time: int, moment: int) -> None:
        u, v = self.oracle.edges[e]
        link = self.device[u], self.device[v]
        needed = self.oracle.transfer[e][link[0]][link[1]]
        assert needed is not None
        if not needed:
            self._arrive(e, time, moment)
        elif self.oracle.instance.links == "share":
            self._shared.setdefault(link, (time, {}))
            self._serve(link, max(time, self._shared[link][0]))
            self._shared[link][1][e] = needed
        elif self.oracle.instance.links == "queue":
            self._flying[e] = self._free[link] = max(time, self._free.get(link, 0)) + needed
        else:
            self._flying[e] = time + needed

    def _arrive(self, e: int, time: int, moment: int) -> None:
        v = self.oracle.edges[e][1]
        self.arrival[e] = time
        self._missing[v] -= 1
        if not self._missing[v]:
            self._since[v] = moment

    def _start_idle(self) -> None:
        for d in self.oracle.devices:
            v = None if d in self._running else self._choose(d)
            if v is None:
                continue
            del self._since[v]
            before = self.finish[self.order[d][-1]] if self.order[d] else 0
            begin = max(x for x in [before, *(self.arrival[e] for e in self.oracle.read[v])] if x is not None)
            self.order[d].append(v)
            self.start[v], self.finish[v] = begin, begin + self.oracle.time[v][d]
            self._running[d] = begin + self.oracle.time[v][d], v

    def _choose(self, d: int) -> int | None:
        if self._priority is None:
            at = len(self.order[d])
            return self._given[d][at] if at < len(self._given[d]) and self._given[d][at] in self._since else None
        ready = [v for v in self._since if self.device[v] == d]
        priority, since = self._priority, self._since
        return min(ready, key=lambda v: (-priority[v], since[v], v), default=None)


def judge(instance: Instance, solution: Any) -> tuple[bool, Fraction | None]:
    """Return whether a well-formed solution is feasible, and its makespan; None if not all of it can run.

    Priorities stand for the order in which devices run vertices by them.
    """
    oracle, device = Oracle(instance), solution["device"]
    if not oracle.linked(device):
        return False, None
    order = solution.get("order") or Run(oracle, device, priority=solution["priority"]).order
    run = Run(oracle, device, order)
    if run.makespan is None:
        return False, None
    placed = all(device[v] in oracle.allowed(v) for v in oracle.nodes)
    together = all(len({device[v] for v in group}) == 1 for group in oracle.groups)
    return placed and together and oracle.fits(device, run), run.makespan * oracle.unit


def optimum(instance: Instance) -> Fraction | None:
    """Return the least makespan of all partitions and orders that fit the memory; None if there is none."""
    oracle, best = Oracle(instance), None
    for least, device in sorted((_least(oracle, device), device) for device in partitions(oracle)):
        if best is not None and least >= best:
            break
        for order in _orders(oracle, device):
            run = Run(oracle, device, order)
            if run.makespan is not None and (best is None or run.makespan < best) and oracle.fits(device, run):
                best = run.makespan
    return None if best is None else best * oracle.unit


def partitions(oracle: Oracle) -> Iterator[list[int]]:
    """Yield every partition that restrictions, colocation and links allow."""
    sets = [sorted(set.intersection(*map(oracle.allowed, group))) for group in oracle.groups]
    for chosen in itertools.product(*sets):
        device = [0] * len(oracle.nodes)
        for d, group in zip(chosen, oracle.groups, strict=True):
            for v in group:
                device[v] = d
        if oracle.linked(device):
            yield device


def _least(oracle: Oracle, device: Devices) -> int:
    """Return a lower bound for a partition: its longest path with transfers, or the greatest load of a device."""
    finish, load = [0] * len(device), [0] * len(oracle.devices)
    for v in oracle.instance.graph.topological_order.tolist():
        for e in oracle.read[v]:
            u = oracle.edges[e][0]
            finish[v] = max(finish[v], finish[u] + (oracle.transfer[e][device[u]][device[v]] or 0))
        finish[v] += oracle.time[v][device[v]]
        load[device[v]] += oracle.time[v][device[v]]
    return max([*finish, *load])


def _orders(oracle: Oracle, device: Devices) -> Iterator[list[list[int]]]:
    """Yield orders that contradict the graph on no single device; together they may."""
    before: list[set[int]] = [set() for _ in oracle.nodes]
    for v in oracle.instance.graph.topological_order.tolist():
        for e in oracle.read[v]:
            before[v] |= before[oracle.edges[e][0]] | {oracle.edges[e][0]}

    def arrangements(left: frozenset[int]) -> Iterator[list[int]]:
        if not left:
            yield []
        for v in sorted(left):
            if not before[v] & left:
                yield from ([v, *rest] for rest in arrangements(left - {v}))

    parts = [frozenset(v for v, at in enumerate(device) if at == d) for d in oracle.devices]
    for order in itertools.product(*(list(arrangements(part)) for part in parts)):
        yield list(order)


def draw(rng: random.Random, most_nodes: int = 5) -> Instance:
    """Return a small instance with numbers of one extreme kind or of several, and often memory that just suffices."""
    while True:
        with suppress(InputError):  # a contradiction, or times beyond float64
            return _fitted(rng, parse(_document(rng, most_nodes), "drawn"))


def _document(rng: random.Random, most_nodes: int) -> dict[str, Any]:
    n, k = max(rng.randint(0, most_nodes), rng.randint(0, most_nodes)), rng.choice([1, 2, 2, 2, 3])
    work, size, density = numbers(rng), numbers(rng), rng.choice([0.3, 0.6, 0.9])
    rank = rng.sample(range(n), n)
    pairs = [(u, v) for u in range(n) for v in range(n) if rank[u] < rank[v] and rng.random() < density]
    speed, width = _rates(rng), _rates(rng)
    rows: list[list[float | None]] = [[0 if rng.random() < 0.05 else width() for _ in range(k)] for _ in range(k)]
    for d in range(k):
        rows[d][d] = None
    subset = [sorted(rng.sample(range(k), rng.randint(1, k))) for _ in range(n)]
    grouped, restricted = rng.random() < 0.3, rng.random() < 0.3
    return {
        "format": FORMAT,
        "options": {
            "links": rng.choice(["independent", "queue", "share"]),
            "holding": rng.choice(["waiting", "reserved"]),
        },
        "nodes": {
            "complexity": [work() for _ in range(n)],
            "colocation": [rng.choice([None, 0, 1]) for _ in range(n)] if grouped else None,
            "devices": [rng.choice([None, devices]) for devices in subset] if restricted else None,
        },
        "edges": [[u, v, size()] for u, v in rng.sample(pairs, len(pairs))],
        "devices": {"speed": [speed() for _ in range(k)]},
        "bandwidth": rows,
    }


def _rates(rng: random.Random) -> Callable[[], float]:
    """A source of speeds or bandwidths: mostly ordinary ones, so that several devices are worth using."""
    kinds: list[Callable[[], float]] = [
        lambda: 1,
        lambda: rng.randint(1, 4),
        lambda: rng.choice([1, 3, 7, 0.1, 0.3]),
        lambda: 1 + rng.randint(-2, 2) * 2.0**-52,
        lambda: rng.uniform(0.5, 2),
        lambda: 10 ** rng.uniform(-12, 12),
        lambda: 10 ** rng.uniform(-300, 300),
    ]
    return rng.choice(kinds)


def _fitted(rng: random.Random, instance: Instance) -> Instance:
    """The instance, mostly with memories that some of its tensors fill, up to an ulp, or nearly."""

    def memory() -> float:
        size = instance.size.tolist()
        need = math.fsum(rng.sample(size, rng.randint(min(1, len(size)), min(3, len(size)))))
        near = [need, math.nextafter(need, 0), math.nextafter(need, math.inf), need * (1 + 1e-12)]
        return rng.choice([math.inf, 0.0, rng.choice(near), need * (1 + 1e-7), need * (1 + 1e-7), need * 1.5])

    if rng.random() < 0.3:
        return instance
    return replace(instance, memory=np.array([memory() for _ in range(instance.devices)]))


def draw_solution(rng: random.Random, instance: Instance) -> Any:
    """Devices, mostly allowed ones, with priorities, an order that can be run, or any order."""
    oracle = Oracle(instance)
    device = [rng.choice(oracle.devices) for _ in oracle.nodes]
    if (legal := list(itertools.islice(partitions(oracle), 500))) and rng.random() < 0.9:
        device = rng.choice(legal)
    if rng.random() < 0.4:
        return {"device": device, "priority": [rng.choice([0, 1, 2.5, rng.random()]) for _ in oracle.nodes]}
    order: list[list[int]] = [[] for _ in oracle.devices]
    run, ready = list[int](), list(oracle.nodes)
    while left := [v for v in ready if v not in run]:
        free = [v for v in left if all(oracle.edges[e][0] in run for e in oracle.read[v])]
        run.append(rng.choice(free))
    if rng.random() < 0.1:
        rng.shuffle(run)
    for v in run:
        order[device[v]].append(v)
    return {"device": device, "order": order}
