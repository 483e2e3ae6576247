"""Verdicts for ``scheduling``: the makespan of a partition and its local schedules, simulated event by event.

Definition: "The TensorFlow Partitioning and Scheduling Problem: It's the Critical Path!", Sections 2 and 4.
The events of one moment are processed in rounds: first vertices finish, tensors arrive and new tensors depart, then
every idle device starts one vertex, if one may start. A vertex of duration 0 finishes in the next round of the same
moment; a tensor with transfer time 0 arrives at once.

Floating-point times that would be equal differ by their rounding, so times that differ by no more than a relative
`TOLERANCE` count as equal: if devices choose by priority a moment lasts that long, and memory is released that much
earlier. Sizes are compared likewise. A vertex still starts as soon as its device is free and its inputs are there.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np

from shardmark.harness.verify import Times, Verdict, malformed, misplaced
from shardmark.instances.files.columns import LARGEST, describe
from shardmark.instances.graph import find_cycle
from shardmark.instances.scheduling import TOLERANCE, Instance

FORMS = ({"device", "order"}, {"device", "priority"})
LACKING = {frozenset({"device"}): "device", frozenset({"order", "priority"}): "order or priority"}


def verify(instance: Instance, solution: Any) -> Verdict:
    """Judge ``{"device": [...], "order": [[...], ...]}`` or ``{"device": [...], "priority": [...]}``.

    ``device`` has a device number for each vertex. ``order`` has a list for each device: its vertices in the order in
    which it runs them; it waits if the next one is not executable yet. ``priority`` has a number for each vertex: an
    idle device starts the executable vertex of the greatest priority; of equal ones the vertex that has been executable
    longest, then the first. The cost is None if some vertex can never run.
    """
    if not isinstance(solution, dict) or solution.keys() not in FORMS:
        expected = "solution: expected the keys device and order, or device and priority"
        return malformed(f"{expected}, found {_keys(solution)}")
    device = solution["device"]
    reason = misplaced(device, [instance.devices] * instance.nodes, "a device", "device", "vertex")
    reason = reason or _unordered(instance, device, solution)
    if reason:
        return malformed(reason)
    violations = [*_misassigned(instance, device), *_unlinked(instance, device)]
    if any(place.startswith("edges") for place in violations):
        return Verdict(False, None, tuple(violations))
    execution = _executed(instance, solution)
    if execution.left:
        return Verdict(False, None, (*violations, _deadlock(instance, solution["order"])))
    violations += _overfull(instance, device, execution)
    return Verdict(not violations, max(execution.finish, default=0.0), tuple(violations))


def times(instance: Instance, solution: Any) -> Times | None:
    """Return the times of a feasible solution; None if it is infeasible."""
    if not verify(instance, solution).feasible:
        return None
    execution = _executed(instance, solution)
    return Times(execution.device, execution.start, execution.finish, execution.arrival, execution.begun)


def _keys(solution: Any) -> str:
    """List the keys that a solution lacks, and what it has instead."""
    if not isinstance(solution, dict):
        return describe(solution)
    found = ", ".join(map(describe, solution)) or "none"
    lacking = [words for keys, words in LACKING.items() if not keys & solution.keys()]
    return found + (f": there is no {' and no '.join(lacking)}" if solution and lacking else "")


def _executed(instance: Instance, solution: dict[str, Any]) -> Execution:
    device, order = solution["device"], solution.get("order")
    if order is None:
        chosen = Execution(instance, device, _Priorities(solution["priority"], instance.devices))
        order = [list[int]() for _ in range(instance.devices)]
        for v in chosen.begun:
            order[device[v]].append(v)
    return Execution(instance, device, _Orders(order))


def _unordered(instance: Instance, device: list[int], solution: dict[str, Any]) -> str:
    """Return why the order or the priorities are malformed; "" if they are not."""
    if "priority" in solution:
        return _no_priorities(solution["priority"], instance.nodes)
    order = solution["order"]
    if not isinstance(order, list) or len(order) != instance.devices or any(type(part) is not list for part in order):
        return f"order: expected {instance.devices} lists, one per device, found {describe(order)}"
    seen = [False] * instance.nodes
    for d, part in enumerate(order):
        for i, v in enumerate(part):
            if type(v) is not int or not 0 <= v < instance.nodes:
                return f"order[{d}][{i}]: expected a vertex from 0 to {instance.nodes - 1}, found {describe(v)}"
            if device[v] != d:
                return f"order[{d}][{i}]: expected a vertex of device {d}, found vertex {v}, which is on {device[v]}"
            if seen[v]:
                return f"order[{d}][{i}]: expected every vertex once, found vertex {v} again"
            seen[v] = True
    return "" if all(seen) else f"order: expected every vertex once, but vertex {seen.index(False)} is missing"


def _no_priorities(values: Any, nodes: int) -> str:
    if not isinstance(values, list) or len(values) != nodes:
        return f"priority: expected a list of {nodes} numbers, found {describe(values)}"
    for v, value in enumerate(values):
        if type(value) not in (int, float) or not -LARGEST <= value <= LARGEST:
            return f"priority[{v}]: expected a finite number, found {describe(value)}"
    return ""


def _misassigned(instance: Instance, device: list[int]) -> Iterator[str]:
    """Yield a sentence per vertex on a device that it may not use, and per group on several devices."""
    sets = [frozenset(choice.tolist()) for choice in instance.choices]
    for v in np.flatnonzero(instance.choice >= 0).tolist():
        number = int(instance.choice[v])
        if device[v] not in sets[number]:
            allowed = instance.choices[number]
            names = [_named(instance, d) for d in allowed[:5].tolist()] + ["..."] * (len(allowed) > 5)
            yield f"device[{v}]: expected one of the devices {', '.join(names)}, found {_named(instance, device[v])}"
    first: dict[int, int] = {}
    for v in np.flatnonzero(instance.colocation >= 0).tolist():
        group = int(instance.colocation[v])
        other = first.setdefault(group, v)
        if device[v] != device[other]:
            where = f"where vertex {other} of its colocation group {group} is"
            expected = f"expected device {_named(instance, device[other])}, {where}"
            yield f"device[{v}]: {expected}, found {_named(instance, device[v])}"


def _unlinked(instance: Instance, device: list[int]) -> Iterator[str]:
    """Yield a sentence per edge whose tensor has no link."""
    place = np.array(device, dtype=np.int64)
    source, target = place[instance.graph.tail], place[instance.graph.head]
    for e in np.flatnonzero((instance.size > 0) & (instance.bandwidth[source, target] == 0)).tolist():
        ends = (
            f"from vertex {instance.graph.tail[e]} on device {_named(instance, source[e])}"
            f" to {instance.graph.head[e]} on {_named(instance, target[e])}"
        )
        yield f"edges[{e}]: expected a link for the tensor {ends}, found bandwidth 0"


def _named(instance: Instance, device: int) -> str:
    """Return a device's number, and its name if that says more."""
    return _with_name(device, instance.device_names[device])


def _with_name(number: int, name: str) -> str:
    return f"{number}" if name == str(number) else f"{number} ({name})"


class _Orders:
    """Devices that run their vertices in a given order."""

    tolerance = 0.0

    def __init__(self, order: list[list[int]]) -> None:
        self.order = order
        self.next = [0] * len(order)
        self.executable: set[int] = set()

    def add(self, v: int, device: int, now: float) -> None:
        self.executable.add(v)

    def take(self, device: int) -> int | None:
        at = self.next[device]
        if at == len(self.order[device]) or self.order[device][at] not in self.executable:
            return None
        self.next[device] += 1
        return self.order[device][at]


class _Priorities:
    """Devices that run the executable vertex of the greatest priority."""

    tolerance = TOLERANCE

    def __init__(self, priority: Sequence[float], devices: int) -> None:
        self.priority = priority
        self.waiting: list[list[tuple[float, float, int]]] = [[] for _ in range(devices)]

    def add(self, v: int, device: int, now: float) -> None:
        heapq.heappush(self.waiting[device], (-self.priority[v], now, v))

    def take(self, device: int) -> int | None:
        return heapq.heappop(self.waiting[device])[2] if self.waiting[device] else None


@dataclass
class _Link:
    """Tensors on their way from one device to another at equal parts of a bandwidth.

    ``served`` is the size that a tensor on it since it was last empty has transferred up to the time ``since``.
    ``through`` is a heap of (value of ``served`` at which a tensor arrives, tensor). ``changes`` counts how often their
    number changed.
    """

    bandwidth: float
    served: float = 0.0
    since: float = 0.0
    through: list[tuple[float, int]] = field(default_factory=list)
    changes: int = 0

    def join(self, e: int, size: float, now: float) -> None:
        """Let a tensor depart."""
        now = max(now, self.since)
        self.served = self.served + (now - self.since) * self._pace() if self.through else 0.0
        self.since = now
        heapq.heappush(self.through, (self.served + size, e))
        self.changes += 1

    def leave(self, now: float) -> list[int]:
        """Let the next tensor arrive, and all that arrive with it; return them."""
        self.served, self.since = self.through[0][0], now
        self.changes += 1
        arrived = []
        while self.through and self.through[0][0] <= self.served:
            arrived.append(heapq.heappop(self.through)[1])
        return arrived

    def next_end(self) -> float:
        """Return the time at which the next tensor arrives if nothing changes."""
        return self.since + max(0.0, self.through[0][0] - self.served) / self._pace()

    def _pace(self) -> float:
        return self.bandwidth / len(self.through)


#: Kinds of events, in their order at equal times: the next tensor of a shared link arrives unless another joins before,
#: a tensor arrives, a vertex finishes.
_IS_THROUGH, _ARRIVES, _FINISHES = range(3)


class Execution:
    """One iteration: ``start`` and ``finish`` of every vertex, ``arrival`` of every tensor; ``left`` never ran.

    ``begun`` has the vertices in the order in which they began.
    """

    def __init__(self, instance: Instance, device: list[int], queues: _Orders | _Priorities) -> None:
        n, graph = instance.nodes, instance.graph
        self.instance, self.device, self.queues = instance, device, queues
        self.start, self.finish, self.arrival = [0.0] * n, [0.0] * n, [0.0] * instance.edges
        self.begun: list[int] = []
        self.left = n
        self.duration = (instance.complexity / instance.speed[np.array(device, dtype=np.int64)]).tolist()
        self.tail, self.head, self.size = graph.tail.tolist(), graph.head.tolist(), instance.size.tolist()
        self.missing = np.bincount(graph.head, minlength=n).tolist()
        self.ready = [0.0] * n  # when the last input so far arrived
        self.sent: list[list[int]] = [[] for _ in range(n)]  # edges of each vertex, ascending
        for e, u in enumerate(self.tail):
            self.sent[u].append(e)
        self.busy, self.free = [False] * instance.devices, [0.0] * instance.devices  # and since when it is
        self.link_free: dict[tuple[int, int], float] = {}  # when a link is free on which tensors queue
        self.shared: dict[tuple[int, int], _Link] = {}
        #: Heap of (time, kind, link, tensor or vertex, for links their ``changes`` when the event was predicted).
        self.events: list[tuple[float, int, Any, int]] = []
        self.moment = self.until = 0.0  # begin and end of the current moment
        self._run()

    def _run(self) -> None:
        """Simulate from 0 until nothing can happen any more."""
        self._start([v for v, count in enumerate(self.missing) if not count], set(range(self.instance.devices)))
        while self.events:
            if self.events[0][0] > self.until:
                self.moment = self.events[0][0]
                self.until = self.moment * (1 + self.queues.tolerance)
            self._round()

    def _round(self) -> None:
        """Process what ends at this moment, in order of time, then what begins."""
        ready, freed = list[int](), set[int]()
        while self.events and self.events[0][0] <= self.until:
            now, kind, what, change = heapq.heappop(self.events)
            if kind == _FINISHES:
                device = self.device[what]
                self.left -= 1
                self.busy[device], self.free[device] = False, now
                freed.add(device)
                arrived = [e for e in self.sent[what] if self._send(e, now)]
            elif kind == _ARRIVES:
                arrived = [what]
            else:
                arrived = self._leave(what, now) if self.shared[what].changes == change else []
            ready += self._receive(arrived, now)
        self._start(ready, freed)

    def _send(self, e: int, now: float) -> bool:
        """Let a tensor depart; return True if it arrives at once."""
        ends = self.device[self.tail[e]], self.device[self.head[e]]
        if ends[0] == ends[1] or not self.size[e]:
            return True
        bandwidth = float(self.instance.bandwidth[ends])
        if self.instance.links == "share":
            link = self.shared.setdefault(ends, _Link(bandwidth))
            link.join(e, self.size[e], now)
            heapq.heappush(self.events, (link.next_end(), _IS_THROUGH, ends, link.changes))
            return False
        begin = max(now, self.link_free.get(ends, 0.0)) if self.instance.links == "queue" else now
        self.link_free[ends] = arrival = begin + self.size[e] / bandwidth
        if arrival > now:
            heapq.heappush(self.events, (arrival, _ARRIVES, e, 0))
        return arrival == now

    def _leave(self, ends: tuple[int, int], now: float) -> list[int]:
        link = self.shared[ends]
        arrived = link.leave(now)
        if link.through:
            heapq.heappush(self.events, (link.next_end(), _IS_THROUGH, ends, link.changes))
        return arrived

    def _receive(self, arrived: list[int], now: float) -> list[int]:
        """Return the vertices that become executable."""
        ready = []
        for e in arrived:
            v = self.head[e]
            self.arrival[e] = now
            self.ready[v] = max(self.ready[v], now)
            self.missing[v] -= 1
            if not self.missing[v]:
                ready.append(v)
        return ready

    def _start(self, ready: list[int], freed: set[int]) -> None:
        """Let each idle device start a vertex if one has finished or become executable there."""
        for v in ready:
            self.queues.add(v, self.device[v], self.moment)
        for d in freed | {self.device[v] for v in ready}:
            if not self.busy[d] and (taken := self.queues.take(d)) is not None:
                self.busy[d] = True
                self.begun.append(taken)
                self.start[taken] = max(self.free[d], self.ready[taken])
                self.finish[taken] = self.start[taken] + self.duration[taken]
                heapq.heappush(self.events, (self.finish[taken], _FINISHES, taken, 0))


def _deadlock(instance: Instance, order: list[list[int]]) -> str:
    """Return a sentence on a cycle of vertices that wait for each other."""
    then = [(u, v) for part in order for u, v in pairwise(part)]
    tail = np.append(instance.graph.tail, [u for u, _ in then])
    head = np.append(instance.graph.head, [v for _, v in then])
    cycle = find_cycle(instance.nodes, tail.astype(np.int64), head.astype(np.int64))
    path = " -> ".join([*map(str, cycle[:8]), *["..."] * (len(cycle) > 8)])
    return f"order: expected an executable order, found vertices that wait for each other: {path}"


def _overfull(instance: Instance, device: list[int], execution: Execution) -> Iterator[str]:
    """Yield a sentence per device whose memory is full at some time, on the first such moment: Equation (2).

    A tensor is held until a relative `TOLERANCE` before it is released, and its sum with others has to be below the
    memory by as much. Sums are exact.
    """
    limited = np.isfinite(instance.memory)
    place = np.array(device, dtype=np.int64)
    held = np.flatnonzero(limited[place[instance.graph.head]] & (instance.size > 0)).tolist()
    tail, head, size = instance.graph.tail.tolist(), instance.graph.head.tolist(), instance.size.tolist()
    waits = instance.holding == "waiting"
    changes: dict[int, list[tuple[float, bool, int]]] = {}
    for e in held:
        u, v = tail[e], head[e]
        begin, end = (execution.arrival[e], execution.start[v]) if waits else (execution.finish[u], execution.finish[v])
        end *= 1 - TOLERANCE
        if begin < end:
            changes.setdefault(device[v], []).extend([(begin, True, e), (end, False, e)])
    for d in sorted(changes):
        if excess := _first_excess(size, float(instance.capacity[d]), sorted(changes[d])):
            now, e, used = excess
            reader = f"vertex {_with_name(head[e], instance.node_names[head[e]])}"
            expected = f"expected less than its memory {instance.memory[d]:g} at every moment, found {used:g}"
            yield f"device {_named(instance, d)}: {expected} at time {now:g}, when an input of {reader} is there"


def _first_excess(
    size: list[float], limit: float, changes: list[tuple[float, bool, int]]
) -> tuple[float, int, float] | None:
    """Return the first moment at which tensors reach a limit, after all its changes; with a tensor, and their sum.

    Sums are of integers: sizes are scaled by the least power of two that makes all of them integers.
    """
    scale = max(size[e].as_integer_ratio()[1] for _, _, e in changes)
    full, used = math.ceil(Fraction(limit) * scale), 0
    for at, (now, taken, e) in enumerate(changes):
        above, below = size[e].as_integer_ratio()
        used += above * (scale // below) if taken else -above * (scale // below)
        last = at + 1 == len(changes) or changes[at + 1][0] > now
        if last and used and used >= full:
            return now, e, float(Fraction(used, scale))
    return None
