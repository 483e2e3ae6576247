"""Partitioners and local schedulers of ``scheduling``, straight from the paper, one vertex at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from shardmark.instances.scheduling import Instance
from shardmark.solvers.scheduling._kernels import Execution

#: The least value of a factor of a product; for traffic in units of the mean transfer time.
LEAST = 0.01

Devices = list[int]
Weights = tuple[float, float, float, float]


def makers(instance: Instance, v: int) -> list[tuple[int, float]]:
    """Return the tensors that a vertex reads: producer and size of each."""
    edges = zip(instance.graph.tail.tolist(), instance.graph.head.tolist(), instance.size.tolist(), strict=True)
    return [(u, size) for u, head, size in edges if head == v]


def readers(instance: Instance, v: int) -> list[tuple[int, float]]:
    """Return the readers of a vertex's tensors, and the sizes."""
    edges = zip(instance.graph.tail.tolist(), instance.graph.head.tolist(), instance.size.tolist(), strict=True)
    return [(w, size) for tail, w, size in edges if tail == v]


def paths(instance: Instance) -> Iterator[list[int]]:
    """Yield every path from a source to a sink."""

    def further(path: list[int]) -> Iterator[list[int]]:
        then = readers(instance, path[-1])
        if not then:
            yield path
        for w, _ in then:
            yield from further([*path, w])

    for v in range(instance.nodes):
        if not makers(instance, v):
            yield from further([v])


def upward(instance: Instance, v: int) -> float:
    """Equation (5), with a sink's own complexity."""
    return max((upward(instance, w) for w, _ in readers(instance, v)), default=0.0) + float(instance.complexity[v])


def downward(instance: Instance, v: int) -> float:
    """Equation (6), over predecessors as the text says: 0 for a source."""
    before = [u for u, _ in makers(instance, v)]
    return max((downward(instance, u) + float(instance.complexity[u]) for u in before), default=0.0)


def total(instance: Instance) -> list[float]:
    """Return the sum of both per vertex."""
    return [upward(instance, v) + downward(instance, v) for v in range(instance.nodes)]


class Assignment:
    """Devices of vertices and their memory; ``device`` is -1 for a vertex without one."""

    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        self.device: Devices = [-1] * instance.nodes

    def group(self, v: int) -> list[int]:
        """Return the vertices that must share a vertex's device, including itself."""
        number = self.instance.colocation[v]
        return [v] if number < 0 else np.flatnonzero(self.instance.colocation == number).tolist()

    def read(self, members: Sequence[int]) -> float:
        """Return the total size of the tensors that some vertices read."""
        return sum(size for v in members for _, size in makers(self.instance, v))

    def used(self, d: int) -> float:
        """Return the total size of the tensors read on a device."""
        return self.read([v for v, at in enumerate(self.device) if at == d])

    def allowed(self, v: int) -> set[int]:
        """Return the devices that the whole group may use."""
        devices = set(range(self.instance.devices))
        for w in self.group(v):
            if self.instance.choice[w] >= 0:
                devices &= set(self.instance.choices[self.instance.choice[w]].tolist())
        return devices

    def feasible(self, v: int) -> Devices:
        """Return the allowed devices with room for all that the group reads, else those with the most room."""
        spare = {d: float(self.instance.capacity[d]) - self.used(d) for d in sorted(self.allowed(v))}
        fitting = [d for d in spare if spare[d] > self.read(self.group(v))]
        return fitting or [d for d in spare if spare[d] == max(spare.values())]

    def assign(self, v: int, d: int) -> None:
        """Put a vertex and its group on a device."""
        for w in self.group(v):
            self.device[w] = d

    def each(self, order: Sequence[int], choose: Callable[[int, Devices], int]) -> Devices:
        """Assign all vertices of an order that have no device yet."""
        for v in order:
            if self.device[v] < 0:
                self.assign(v, choose(v, self.feasible(v)))
        return self.device

    def work(self, d: int) -> float:
        """Return the operations of all vertices on a device."""
        return sum(float(self.instance.complexity[v]) for v, at in enumerate(self.device) if at == d)


def descending(values: Sequence[float]) -> list[int]:
    """Return the indices of values in descending order, ties by index."""
    return sorted(range(len(values)), key=lambda v: -values[v])


def batch_split(instance: Instance) -> Devices:
    """Section 3.2.1: the 1/k of the vertices with the greatest total rank on the fastest device, and so on."""
    assignment, order = Assignment(instance), descending(total(instance))
    fastest = descending(instance.speed.tolist())

    def choose(v: int, feasible: Devices) -> int:
        batch = order.index(v) * instance.devices // instance.nodes
        return next(d for d in [*fastest[batch:], *fastest[:batch]] if d in feasible)

    return assignment.each(order, choose)


def critical_path(instance: Instance, path: Sequence[int]) -> Devices:
    """Section 3.2.2: a given path on the fastest devices, others by Equation (7)."""
    assignment, speed = Assignment(instance), instance.speed.tolist()
    together = {w for v in path for w in assignment.group(v)}
    whole = [d for d in range(instance.devices) if all(d in assignment.allowed(v) for v in together)]
    whole = [d for d in whole if assignment.read(sorted(together)) < instance.capacity[d]]
    assignment.each(path, lambda v, feasible: max(whole or feasible, key=lambda d: speed[d]))

    def choose(v: int, feasible: Devices) -> int:
        own = sum(float(instance.complexity[w]) for w in assignment.group(v))
        return min(feasible, key=lambda d: assignment.work(d) / speed[d] + own / speed[d])

    return assignment.each(descending(total(instance)), choose)


def traffic(instance: Instance, device: Devices, v: int, d: int) -> float:
    """Equation (10), over producers that have a device."""
    time = 0.0
    for u, size in makers(instance, v):
        if device[u] >= 0 and device[u] != d and size:
            bandwidth = float(instance.bandwidth[device[u], d])
            time += size / bandwidth if bandwidth else float("inf")
    return max(time, LEAST * mean_transfer(instance))


def mean_transfer(instance: Instance) -> float:
    """Return the mean transfer time over tensors and links; 1 if none takes any."""
    return float(np.mean([between(instance, size) for size in instance.size.tolist()] or [0.0])) or 1.0


def between(instance: Instance, size: float) -> float:
    """Return the mean transfer time of a tensor over links."""
    devices = range(instance.devices)
    widths = [float(instance.bandwidth[a, b]) for a in devices for b in devices if a != b and instance.bandwidth[a, b]]
    return float(np.mean([size / width for width in widths] or [0.0]))


def execution_time(instance: Instance, d: int) -> float:
    """Return the execution time of any vertex relative to the slowest device."""
    return float(instance.speed.min() / instance.speed[d])


def mite(instance: Instance) -> Devices:
    """Section 3.3.1: Equations (8) to (10)."""
    assignment, rank = Assignment(instance), total(instance)
    everything = float(instance.size.sum()) or 1.0

    def score(v: int, d: int) -> float:
        limit = float(instance.memory[d])
        memory = assignment.used(d) / (everything if limit == float("inf") else max(limit, everything * 1e-9))
        share = rank[v] / (max(rank) or 1.0)
        importance = 1 - share * float(instance.speed[d] / instance.speed.max())
        factors = max(memory, LEAST) * max(importance, LEAST)
        return factors * traffic(instance, assignment.device, v, d) * execution_time(instance, d)

    return assignment.each(descending(rank), lambda v, feasible: min(feasible, key=lambda d: score(v, d)))


def dfs(instance: Instance) -> Devices:
    """Section 3.3.2: Equation (11), from the source of greatest total rank, ties to the last."""
    assignment, rank, order = Assignment(instance), total(instance), list[int]()

    def visit(v: int) -> None:
        if v not in order:
            order.append(v)
            for w in best_first([w for w, _ in readers(instance, v)]):
                visit(w)

    def best_first(vertices: list[int]) -> list[int]:
        return sorted(vertices, key=lambda w: (rank[w], vertices.index(w)), reverse=True)

    for v in best_first([v for v in range(instance.nodes) if not makers(instance, v)]):
        visit(v)

    def score(v: int, d: int) -> float:
        return traffic(instance, assignment.device, v, d) * execution_time(instance, d)

    return assignment.each(order, lambda v, feasible: min(feasible, key=lambda d: score(v, d)))


def upward_rank(instance: Instance, v: int) -> float:
    """HEFT's upward rank, with mean times over devices and links."""
    behind = [between(instance, size) + upward_rank(instance, w) for w, size in readers(instance, v)]
    own = np.mean([float(instance.complexity[v]) / speed for speed in instance.speed.tolist()])
    return float(own) + max(behind, default=0.0)


def heft(instance: Instance, rank: Sequence[float]) -> Devices:
    """Section 5.1: earliest finish, with insertion into gaps; members of a group in their own turn."""
    assignment, end = Assignment(instance), dict[int, float]()
    plan: list[list[tuple[float, float]]] = [[] for _ in range(instance.devices)]

    def slot(v: int, d: int) -> tuple[float, float]:
        ready, takes = 0.0, float(instance.complexity[v] / instance.speed[d])
        for u, size in makers(instance, v):
            at = assignment.device[u]
            bandwidth = float(instance.bandwidth[at, d])
            moved = 0.0 if at == d or not size else size / bandwidth if bandwidth else float("inf")
            ready = max(ready, end[u] + moved)
        starts = sorted([ready, *(last for _, last in plan[d] if last > ready)])
        free = [t for t in starts if all(t + takes <= first or t >= last for first, last in plan[d])]
        return free[0], free[0] + takes

    while len(end) < instance.nodes:
        open_ = [v for v in range(instance.nodes) if v not in end and all(u in end for u, _ in makers(instance, v))]
        v = max(open_, key=lambda v: (rank[v], -v))
        if assignment.device[v] < 0:
            assignment.assign(v, min(assignment.feasible(v), key=lambda d: slot(v, d)[1]))
        plan[assignment.device[v]].append(slot(v, assignment.device[v]))
        end[v] = plan[assignment.device[v]][-1][1]
    return assignment.device


def path_computation_time(instance: Instance, device: Devices, v: int) -> float:
    """Equation (12)."""
    further = []
    for w, size in readers(instance, v):
        bandwidth = float(instance.bandwidth[device[v], device[w]])
        moved = 0.0 if device[v] == device[w] or not size else size / bandwidth if bandwidth else float("inf")
        further.append(path_computation_time(instance, device, w) + moved)
    return max(further, default=0.0) + float(instance.complexity[v] / instance.speed[device[v]])


def successor_score(
    instance: Instance, device: Devices, execution: Execution, v: int, at: int, weights: Weights
) -> float:
    """Equation (13) when the vertex at a place of the sequence starts, ``weights`` alpha to delta.

    Predecessors are those that have not finished then.
    """
    score, started = 0.0, execution.sequence.tolist()
    now = execution.start[started[at]]
    alpha, beta, gamma, delta = weights
    for w, _ in readers(instance, v):
        left = [u for u, _ in makers(instance, w) if execution.finish[u] > now]
        idle = not any(device[u] == device[w] and execution.finish[u] > now for u in started[:at])
        score += alpha + beta * (device[w] != device[v]) + gamma * (len(left) == 1)
        score += delta * (len(left) == 1 and device[w] != device[v] and idle)
    return score


def executable_since(instance: Instance, execution: Execution, v: int) -> float:
    """Return the time at which a vertex has all its inputs."""
    return max(execution.arrival[instance.graph.head == v].tolist(), default=0.0)
