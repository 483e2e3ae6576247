"""Small random instances of ``placement``, and what a placement is worth by the definitions, slowly and exactly."""

from __future__ import annotations

import random
from collections.abc import Iterator
from fractions import Fraction
from itertools import product
from typing import Any

from instances import InputError
from instances.placement import Instance, parse


def draw_document(draw: random.Random, most_nodes: int = 7) -> dict[str, Any]:
    """A document of the paper's format; edges lead to greater positions, backward nodes come last."""
    n = draw.randint(1, most_nodes)
    first_backward = draw.choice([n, n, draw.randint(0, n)])
    ids = draw.sample(range(-20, 20), n)
    costs = [draw.choice([0, 1, 2.5, 3]) for _ in range(n)]
    dense = draw.random()
    nodes = [
        {
            "id": ids[v],
            "supportedOnFpga": draw.random() < 0.9,
            "cpuLatency": draw.randint(0, 9),
            "fpgaLatency": draw.randint(0, 50) / 10,
            "isBackwardNode": v >= first_backward,
            "size": draw.randint(0, 3),
            **({"colorClass": draw.randint(5, 8)} if draw.random() < 0.4 else {}),
        }
        for v in range(n)
    ]
    edges = [
        {"sourceId": ids[u], "destId": ids[v], "cost": costs[u], "isArtificial": draw.random() < 0.1}
        for v in range(n)
        for u in range(v)
        if draw.random() < dense
    ]
    devices = {"maxFPGAs": draw.randint(0, 3), "maxCPUs": draw.randint(0, 2), "maxSizePerFPGA": draw.randint(2, 9)}
    return {**devices, "nodes": nodes, "edges": edges}


def draw_options(draw: random.Random) -> dict[str, Any]:
    """Options that go together."""
    if draw.random() < 0.4:
        return {"objective": "latency", "contiguity": draw.choice(["contiguous", "free"])}
    options = {
        "contiguity": draw.choice(["contiguous", "acyclic", "free"]),
        "overlap": draw.choice(["none", "none", "half", "full"]),
    }
    clusters = {"cluster": draw.randint(1, 2), "slowdown": 3.0}
    others = [{}, {"schedule": "gpipe"}, {"allreduce": 0.5}, {"allreduce": 8.0}, clusters, clusters]
    return {**options, **draw.choice(others)}


def draw_instance(draw: random.Random, most_nodes: int = 7, **options: Any) -> Instance:
    """An instance that devices can hold at all; options are drawn, too, if none are given."""
    while True:
        try:
            return parse(draw_document(draw, most_nodes), "drawn", **(options or draw_options(draw)))
        except InputError:
            continue


def draw_solution(draw: random.Random, instance: Instance) -> Any:
    """A placement in any form, mostly one that keeps colours together."""
    n, devices = instance.nodes, list(range(instance.accelerators + instance.cpus))
    of_unit = [draw.choice(devices) for _ in range(n)]
    place = [of_unit[instance.unit[v]] if draw.random() < 0.98 else draw.choice(devices) for v in range(n)]
    form = draw.random()
    if instance.objective == "latency" and form < 0.7:
        return {"device": place, "slot": [draw.randrange(min(n, draw.choice([1, 2, 3]))) for _ in range(n)]}
    if instance.allreduce and form < 0.7:
        k = instance.accelerators
        groups = [group for kind in (devices[:k], devices[k:]) for group in _parts(draw, kind)]
        of_unit = [draw.randrange(len(groups)) for _ in range(n)]
        return {"stage": [of_unit[u] for u in instance.unit.tolist()], "replicas": groups}
    return place


def _parts(draw: random.Random, devices: list[int]) -> list[list[int]]:
    """Devices in groups of one or more."""
    parts: list[list[int]] = []
    for device in draw.sample(devices, len(devices)):
        if parts and draw.random() < 0.5:
            parts[-1].append(device)
        else:
            parts.append([device])
    return parts


def placements(instance: Instance) -> Iterator[list[int]]:
    """Every list of devices that keeps colours together."""
    units = int(instance.unit.max()) + 1
    for choice in product(range(instance.accelerators + instance.cpus), repeat=units):
        yield [choice[u] for u in instance.unit.tolist()]


class Graph:
    """The instance as Python lists and sets."""

    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        ends = zip(instance.graph.tail.tolist(), instance.graph.head.tolist(), strict=True)
        self.edges = [(u, v, not off) for (u, v), off in zip(ends, instance.artificial.tolist(), strict=True)]
        self.nodes = range(instance.nodes)
        self.back = instance.backward.tolist()
        columns = (instance.accelerator_time, instance.cpu_time, instance.size, instance.transfer)
        self.fast, self.slow, self.size, self.cost = ([Fraction(x) for x in column.tolist()] for column in columns)

    def reaches(self, u: int, v: int) -> bool:
        """Whether a path of at least one edge leads from u to v."""
        return any(w == v or self.reaches(w, v) for x, w, _ in self.edges if x == u)

    def contiguous(self, nodes: set[int]) -> bool:
        """Definition 3.1, for forward and backward nodes apart."""
        for part in (False, True):
            inside = {v for v in nodes if self.back[v] == part}
            outside = {v for v in self.nodes if self.back[v] == part} - inside
            if any(self.reaches(u, v) and self.reaches(v, w) for v in outside for u in inside for w in inside):
                return False
        return True

    def acyclic(self, groups: list[set[int]]) -> bool:
        """Whether the groups have an order that edges respect, backward ones reversed or as they are."""
        return self._ordered(groups, True) or self._ordered(groups, False)

    def _ordered(self, groups: list[set[int]], reverse: bool) -> bool:
        left = [group for group in groups if group]
        while left:
            free = [group for group in left if not self._waits(group, set().union(*left) - group, reverse)]
            if not free:
                return False
            left = [group for group in left if group not in free]
        return True

    def _waits(self, group: set[int], others: set[int], reverse: bool) -> bool:
        for u, v, _ in self.edges:
            if self.back[u] == self.back[v]:
                first, second = (v, u) if reverse and self.back[u] else (u, v)
                if first in others and second in group:
                    return True
        return False

    def transfers(self, nodes: set[int], made_by: set[int], home: list[int]) -> tuple[Fraction, Fraction]:
        """Time to bring in what ``nodes`` read, and to send what others read of theirs, of what is ``made_by`` some.

        ``home`` is the device of each node, where clusters count.
        """
        ends = [(u, v) for u, v, real in self.edges if real and u in made_by]
        into = [(u, v) for u, v in ends if v in nodes and u not in nodes]
        out = [(u, v) for u, v in ends if u in nodes and v not in nodes]
        return self._paid(into, home), self._paid(out, home)

    def _paid(self, ends: list[tuple[int, int]], home: list[int]) -> Fraction:
        """Each tensor once, at the rate of its farthest edge."""
        k, cluster = self.instance.accelerators, self.instance.cluster
        total = Fraction()
        for tensor in {u for u, _ in ends}:
            across = [
                cluster and home[u] < k and home[v] < k and home[u] // cluster != home[v] // cluster
                for u, v in ends
                if u == tensor
            ]
            total += self.cost[tensor] * (Fraction(self.instance.slowdown) if any(across) else 1)
        return total

    def allowed(self, nodes: set[int], accelerator: bool) -> bool:
        """Whether a device supports and can hold the nodes."""
        if not accelerator:
            return True
        limit = Fraction(self.instance.memory)
        return all(self.instance.supported[v] for v in nodes) and sum(self.size[v] for v in nodes) <= limit

    def together(self, groups: list[set[int]]) -> bool:
        """Whether colours are."""
        colour = self.instance.colour.tolist()
        return all(
            len([group for group in groups if any(colour[v] == c for v in group)]) <= 1 for c in set(colour) - {-1}
        )


def judge(instance: Instance, solution: Any) -> tuple[bool, Fraction | None, bool]:
    """Whether a well-formed solution is feasible, its cost, and whether its quotient graph is acyclic."""
    graph = Graph(instance)
    if instance.objective == "latency":
        return _judge_latency(graph, solution)
    if isinstance(solution, dict):
        stage, replicas = solution["stage"], solution["replicas"]
        groups = [({v for v in graph.nodes if stage[v] == i}, devices) for i, devices in enumerate(replicas)]
    else:
        groups = [({v for v in graph.nodes if solution[v] == d}, [d]) for d in set(solution)]
    sets = [nodes for nodes, _ in groups]
    acyclic = graph.acyclic(sets)
    feasible = graph.together(sets)
    feasible &= all(graph.allowed(nodes, devices[0] < instance.accelerators) for nodes, devices in groups)
    if instance.contiguity == "acyclic":
        feasible &= acyclic
    if instance.contiguity == "contiguous":
        feasible &= all(map(graph.contiguous, sets))
    passes = [set(graph.nodes)]
    if instance.schedule == "gpipe":
        passes = [{v for v in graph.nodes if graph.back[v] == part} for part in (False, True)]
    home = [next(devices[0] for nodes, devices in groups if v in nodes) for v in graph.nodes]
    cost = sum(max(_load(graph, *group, nodes, home) for group in groups) for nodes in passes)
    return feasible, Fraction(cost), acyclic


def _load(graph: Graph, nodes: set[int], devices: list[int], counted: set[int], home: list[int]) -> Fraction:
    instance = graph.instance
    if devices[0] < instance.accelerators:
        work = sum((graph.fast[v] for v in nodes & counted), Fraction())
        read, sent = graph.transfers(nodes, counted, home)
    else:
        work, read, sent = sum((graph.slow[v] for v in nodes & counted), Fraction()), Fraction(), Fraction()
    load = {"none": work + read + sent, "half": max(work, read + sent), "full": max(work, read, sent)}[instance.overlap]
    r = len(devices)
    if r == 1:
        return load
    assert instance.allreduce
    sync = (r - 1) * sum(graph.size[v] for v in nodes) / (r * Fraction(instance.allreduce))
    return load / r + sync if instance.overlap == "none" else max(load / r, sync)


def _judge_latency(graph: Graph, solution: Any) -> tuple[bool, Fraction | None, bool]:
    """Time goes on from one end of something to the next; whatever can start does."""
    instance, k = graph.instance, graph.instance.accelerators
    device = solution["device"] if isinstance(solution, dict) else solution
    slot = solution["slot"] if isinstance(solution, dict) else [int(x) for x in graph.back]
    held = [{v for v in graph.nodes if device[v] == d} for d in range(k)]
    pool = {v for v in graph.nodes if device[v] >= k}
    queues = [[{v for v in nodes if slot[v] == s} for s in sorted({slot[v] for v in nodes})] for nodes in held]
    feasible = graph.together([*held, pool]) and all(graph.allowed(nodes, True) for nodes in held)
    if instance.contiguity == "contiguous":
        for queue in queues:
            passes = [{graph.back[v] for v in nodes} for nodes in queue]
            feasible &= len(queue) < 2 or (len(queue) == 2 and sorted(map(list, passes)) == [[False], [True]])
    done: dict[int, Fraction] = {}
    free = [Fraction()] * k
    while len(done) < instance.nodes:
        before = len(done)
        for v in pool - done.keys():
            inputs = [u for u, w, _ in graph.edges if w == v]
            if all(u in done for u in inputs):
                done[v] = max((done[u] for u in inputs), default=Fraction()) + graph.slow[v]
        for d, queue in enumerate(queues):
            if queue and all(u in done for u, v, _ in graph.edges if v in queue[0] and u not in queue[0]):
                nodes = queue.pop(0)
                ready = [done[u] for u, v, _ in graph.edges if v in nodes and u not in nodes]
                work = sum(graph.fast[v] for v in nodes) + sum(graph.transfers(nodes, set(graph.nodes), device))
                free[d] = max([free[d], *ready]) + work
                done |= dict.fromkeys(nodes, free[d])
        if len(done) == before:
            return False, None, False
    return feasible, max(done.values()), True
