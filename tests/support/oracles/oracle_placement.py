"""``placement`` by its definition, in exact fractions: the cost of a placement, and the optimum of small instances.

Tarnawski et al., "Efficient Algorithms for Device Placement of DNN Graph Operators", Section 3 (devices, transfers,
Definition 3.1), Section 5 (loads), Appendix A (schedules), Appendix H (overlap, replicas, clusters); the options are
documented in ``instances/placement.py``. Shares no code with the verifier or the solvers.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
from fuzz import numbers

from shardmark.instances import InputError
from shardmark.instances.placement import Instance, parse

Nodes = frozenset[int]
Group = tuple[Nodes, Sequence[int]]  # nodes, and the devices of their stage


class Oracle:
    """An instance as plain sets and fractions."""

    def __init__(self, instance: Instance) -> None:
        self.instance, self.nodes = instance, range(instance.nodes)
        self.edges = list(zip(instance.graph.tail.tolist(), instance.graph.head.tolist(), strict=True))
        self.tensors = [
            e for e, artificial in zip(self.edges, instance.artificial.tolist(), strict=True) if not artificial
        ]
        self.back = instance.backward.tolist()
        columns = (instance.accelerator_time, instance.cpu_time, instance.size, instance.transfer)
        self.fast, self.slow, self.size, self.cost = ([Fraction(x) for x in column.tolist()] for column in columns)
        self.units = [frozenset(v for v in self.nodes if instance.unit[v] == u) for u in set(instance.unit.tolist())]
        self.below = [frozenset[int]() for _ in self.nodes]
        for v in reversed(instance.graph.topological_order.tolist()):
            after = {w for u, w in self.edges if u == v}
            self.below[v] = frozenset(after.union(*(self.below[w] for w in after)))
        self.contiguous, self.allowed, self.load = cache(self._contiguous), cache(self._allowed), cache(self._load)

    def _contiguous(self, nodes: Nodes) -> bool:
        """Definition 3.1, separately for forward and backward nodes: no path leaves the set and comes back."""
        for part in (False, True):
            inside = {v for v in nodes if self.back[v] == part}
            outside = {v for v in self.nodes if self.back[v] == part} - inside
            if any(v in self.below[u] and self.below[v] & inside for u in inside for v in outside):
                return False
        return True

    def acyclic(self, sets: Sequence[Nodes]) -> bool:
        """Return True if the sets have an order that edges respect, backward ones reversed or as they are."""
        return self._ordered(sets, True) or self._ordered(sets, False)

    def _ordered(self, sets: Sequence[Nodes], reverse: bool) -> bool:
        same = [(u, v) for u, v in self.edges if self.back[u] == self.back[v]]
        ends = [(v, u) if reverse and self.back[u] else (u, v) for u, v in same]
        left = list(sets)
        while left:
            waiting = {v for u, v in ends for nodes in left if u in nodes and v not in nodes}
            first = [nodes for nodes in left if not nodes & waiting]
            if not first:
                return False
            left = [nodes for nodes in left if nodes not in first]
        return True

    def _allowed(self, nodes: Nodes) -> bool:
        """Return True if an accelerator supports and holds the nodes, with a relative tolerance of 1e-9 on memory."""
        size = sum((self.size[v] for v in nodes), Fraction())
        return all(self.instance.supported[v] for v in nodes) and float(size) <= self.instance.memory * (1 + 1e-9)

    def together(self, sets: Sequence[Nodes]) -> bool:
        """Return True if every colour class lies on one device."""
        return all(any(unit <= nodes for nodes in sets) for unit in self.units)

    # ------------------------------------------------------------ throughput

    def throughput(self, groups: Sequence[Group]) -> Fraction:
        """Return the greatest load of a group; with the schedule gpipe the sum of those of both passes."""
        passes = [(False,), (True,)] if self.instance.schedule == "gpipe" else [(False, True)]
        return sum((max(self._of(group, groups, kinds) for group in groups) for kinds in passes), Fraction())

    def _of(self, group: Group, groups: Sequence[Group], kinds: tuple[bool, ...]) -> Fraction:
        nodes, devices = group
        far = frozenset().union(*(other for other, others in groups if self._is_far(devices[0], others[0])))
        return self.load(nodes, len(devices), devices[0] < self.instance.accelerators, kinds, far)

    def _is_far(self, device: int, other: int) -> bool:
        """Return True if two devices are accelerators of different clusters."""
        cluster, k = self.instance.cluster, self.instance.accelerators
        return cluster is not None and max(device, other) < k and device // cluster != other // cluster

    def _load(self, nodes: Nodes, count: int, fast: bool, kinds: tuple[bool, ...], far: Nodes) -> Fraction:
        """Return the load of some devices for nodes and their tensors, of some passes; ``far`` nodes are far away."""
        work = sum(((self.fast if fast else self.slow)[v] for v in nodes if self.back[v] in kinds), Fraction())
        ends = [(u, v) for u, v in self.tensors if self.back[u] in kinds and fast]
        read = self._moved([(u, u in far) for u, v in ends if v in nodes and u not in nodes])
        sent = self._moved([(u, v in far) for u, v in ends if u in nodes and v not in nodes])
        overlap = self.instance.overlap
        load = {"none": work + read + sent, "half": max(work, read + sent), "full": max(work, read, sent)}[overlap]
        if count == 1:
            return load
        size, rate = sum((self.size[v] for v in nodes), Fraction()), Fraction(self.instance.allreduce or 0)
        share, synchronising = load / count, (count - 1) * size / (count * rate)
        return share + synchronising if overlap == "none" else max(share, synchronising)

    def _moved(self, tensors: Sequence[tuple[int, bool]]) -> Fraction:
        """Sum each tensor once, slowly if any other end is far away."""
        slow = {u for u, far in tensors if far}
        rate = {u: Fraction(self.instance.slowdown) if u in slow else 1 for u, _ in tensors}
        return sum((self.cost[u] * rate[u] for u in rate), Fraction())

    def splits(self) -> Iterator[list[Group]]:
        """Yield every feasible placement for throughput, up to equal devices."""
        for sets in self._partitions(
            frozenset(range(len(self.units))), self.instance.accelerators + self.instance.cpus
        ):
            if self.shaped(sets):
                yield from self._on_devices(sets)

    def shaped(self, sets: Sequence[Nodes]) -> bool:
        """Return True if devices may hold these sets."""
        contiguity = self.instance.contiguity
        return contiguity == "free" or (
            self.acyclic(sets) if contiguity == "acyclic" else all(map(self.contiguous, sets))
        )

    def _partitions(self, units: Nodes, most: int) -> Iterator[list[Nodes]]:
        """Yield partitions of units into at most ``most`` sets of nodes."""
        if not units:
            yield []
        if not units or not most:
            return
        first, *others = sorted(units)
        for count in range(len(others) + 1):
            for some in itertools.combinations(others, count):
                nodes = frozenset[int]().union(*(self.units[u] for u in (first, *some)))
                for rest in self._partitions(units - {first, *some}, most - 1):
                    yield [nodes, *rest]

    def _on_devices(self, sets: Sequence[Nodes]) -> Iterator[list[Group]]:
        """Yield the ways to give each set a device of a kind, or several if stages have replicas."""
        k, cpus, size = (
            self.instance.accelerators,
            self.instance.cpus,
            self.instance.cluster or self.instance.accelerators,
        )
        kinds = [list(range(first, min(first + size, k))) for first in range(0, k, size or 1)]
        kinds.append(list(range(k, k + cpus)))

        def rest(left: Sequence[Nodes], used: tuple[int, ...]) -> Iterator[list[Group]]:
            if not left:
                yield []
                return
            for i, devices in enumerate(kinds):
                again = any(len(kinds[j]) == len(devices) and not used[j] for j in range(i))
                if i < len(kinds) - 1 and (again or not self.allowed(left[0])):
                    continue
                for count in range(1, 1 + min(len(devices) - used[i], len(devices) if self.instance.allreduce else 1)):
                    mine = left[0], devices[used[i] : used[i] + count]
                    for others in rest(left[1:], (*used[:i], used[i] + count, *used[i + 1 :])):
                        yield [mine, *others]

        return rest(sets, (0,) * len(kinds))

    # ------------------------------------------------------------ latency

    def latency(self, queues: Sequence[Sequence[Nodes]]) -> Fraction | None:
        """Return the end if accelerators run these subgraphs in this order and CPUs the rest; None for a deadlock.

        What can start does. A subgraph moves in what it reads, computes, and moves out what others read.
        """
        task = {v: nodes for queue in queues for nodes in queue for v in nodes}
        previous = {nodes: before for queue in queues for before, nodes in itertools.pairwise(queue)}
        ends: dict[Nodes, Fraction | None] = {}

        def end(nodes: Nodes) -> Fraction | None:
            if nodes in ends:
                return ends[nodes]
            ends[nodes] = None  # if it is needed before it is known, it waits for itself
            waits = {task.get(u, frozenset([u])) for u, v in self.edges if v in nodes and u not in nodes}
            ready = [end(other) for other in waits | ({previous[nodes]} if nodes in previous else set())]
            if None not in ready:
                begin = max((time for time in ready if time is not None), default=Fraction())
                ends[nodes] = begin + self._duration(nodes, any(nodes in queue for queue in queues))
            return ends[nodes]

        every = [end(task.get(v, frozenset([v]))) for v in self.nodes]
        return None if None in every else max((time for time in every if time is not None), default=Fraction())

    def _duration(self, nodes: Nodes, fast: bool) -> Fraction:
        return self.load(nodes, 1, fast, (False, True), frozenset())

    def schedules(self) -> Iterator[list[list[Nodes]]]:
        """Yield every feasible placement for latency, up to the numbers of accelerators, as the subgraphs of each."""
        units = frozenset(range(len(self.units)))
        for count in range(len(units) + 1):
            for some in itertools.combinations(units, count):
                if count < len(units) and not self.instance.cpus:
                    continue
                for sets in self._partitions(frozenset(some), self.instance.accelerators):
                    if all(map(self.allowed, sets)):
                        yield from map(list, itertools.product(*map(self.queues, sets)))

    def queues(self, nodes: Nodes) -> list[list[Nodes]]:
        """Return the ordered subgraphs into which an accelerator may split some nodes."""
        if self.instance.contiguity == "free":
            return list(_ordered_partitions(nodes))
        forward = frozenset(v for v in nodes if not self.back[v])
        both = [forward, nodes - forward]
        return [[nodes], both, both[::-1]] if all(both) else [[nodes]]


def _ordered_partitions(nodes: Nodes) -> Iterator[list[Nodes]]:
    if not nodes:
        yield []
    for count in range(1, len(nodes) + 1):
        for first in itertools.combinations(nodes, count):
            for rest in _ordered_partitions(nodes - set(first)):
                yield [frozenset(first), *rest]


def judge(instance: Instance, solution: Any) -> tuple[bool, Fraction | None]:
    """Return whether a well-formed solution is feasible, and its cost; None if it has no schedule."""
    oracle, k = Oracle(instance), instance.accelerators
    if instance.objective == "latency":
        return _judge_latency(oracle, solution)
    where, devices = solution, {d: [d] for d in range(k + instance.cpus)}
    if isinstance(solution, dict):
        where, devices = solution["stage"], dict(enumerate(solution["replicas"]))
    groups = [(frozenset(v for v in oracle.nodes if where[v] == d), devices[d]) for d in set(where)]
    sets = [nodes for nodes, _ in groups]
    held = [nodes for nodes, devices in groups if devices[0] < k]
    return oracle.together(sets) and all(map(oracle.allowed, held)) and oracle.shaped(sets), oracle.throughput(groups)


def _judge_latency(oracle: Oracle, solution: Any) -> tuple[bool, Fraction | None]:
    """CPUs are one pool. Without slots backward nodes come after forward nodes."""
    device, slot = (solution["device"], solution["slot"]) if isinstance(solution, dict) else (solution, oracle.back)
    queues = []
    for d in range(oracle.instance.accelerators):
        slots = sorted({slot[v] for v in oracle.nodes if device[v] == d})
        queues.append([frozenset(v for v in oracle.nodes if (device[v], slot[v]) == (d, s)) for s in slots])
    held = [frozenset().union(*queue) for queue in queues]
    pool = frozenset(oracle.nodes).difference(*held)
    feasible = oracle.together([*held, pool]) and all(map(oracle.allowed, held))
    if oracle.instance.contiguity == "contiguous":
        feasible &= all(queue in oracle.queues(nodes) for queue, nodes in zip(queues, held, strict=True) if nodes)
    end = oracle.latency(queues)
    return feasible and end is not None, end


def optimum(instance: Instance) -> Fraction | None:
    """Return the least cost of any placement; None if none is feasible."""
    oracle = Oracle(instance)
    if instance.objective == "throughput":
        return min(map(oracle.throughput, oracle.splits()), default=None)
    ends = map(oracle.latency, oracle.schedules())
    return min((end for end in ends if end is not None), default=None)


def draw(rng: random.Random) -> Instance:
    """Return a small instance with numbers of one extreme kind or of several, and often a memory that just suffices."""
    while True:
        with suppress(InputError):  # sums beyond float64, or nodes that only absent CPUs could hold
            graph = document(rng, rng.choice([1, 2, 3, 3, 4, 4, 5, 5]), (0.2, 0.5, 0.9))
            instance = parse(graph, "drawn", **_options(rng))
            return instance if rng.random() < 0.4 else filled(rng, instance)


def document(rng: random.Random, n: int, densities: Sequence[float]) -> dict[str, Any]:
    """Return the file of a graph of ``n`` nodes, whose numbers may be beyond float64 together."""
    density = rng.choice(densities)
    backward, coloured, supported = rng.choice([n, n, rng.randint(0, n)]), rng.choice([0, 0, 0.6]), rng.choice([0.7, 1])
    shared = numbers(rng)
    time, size, cost = (rng.choice([shared, numbers(rng)]) for _ in range(3))
    nodes = [
        {
            "id": v,
            "supportedOnFpga": rng.random() < supported,
            "cpuLatency": time(),
            "fpgaLatency": time(),
            "isBackwardNode": v >= backward,
            "size": size(),
            **({"colorClass": rng.randint(0, 2)} if rng.random() < coloured else {}),
        }
        for v in range(n)
    ]
    costs = [cost() for _ in range(n)]
    edges = [
        {"sourceId": u, "destId": v, "cost": costs[u], "isArtificial": rng.random() < 0.1}
        for u, v in itertools.combinations(range(n), 2)
        if rng.random() < density
    ]
    devices = {"maxFPGAs": rng.choice([0, 1, 1, 2, 2, 3, 9]), "maxCPUs": rng.choice([0, 0, 1, 1, 2])}
    return {**devices, "maxSizePerFPGA": rng.choice([size(), 1e300]), "nodes": nodes, "edges": edges}


def _options(rng: random.Random) -> dict[str, Any]:
    if rng.random() < 0.4:
        return {"objective": "latency", "contiguity": rng.choice(["contiguous", "contiguous", "free"])}
    options = {
        "contiguity": rng.choice(["contiguous", "acyclic", "acyclic", "free"]),
        "overlap": rng.choice(["none", "none", "half", "full"]),
    }
    clusters = {"cluster": rng.randint(1, 3), "slowdown": rng.choice([1.5, 3.3, 1e16, 1 + 2.0**-52])}
    replicas = {"allreduce": rng.choice([0.5, 8.0, 1e16, 10 ** rng.uniform(-300, 300)])}
    return {**options, **rng.choice([{}, {}, {"schedule": "gpipe"}, clusters, replicas])}


def filled(rng: random.Random, instance: Instance) -> Instance:
    """Return the instance with a memory that some units fill, up to an ulp."""
    units = int(instance.unit.max()) + 1
    some = np.isin(instance.unit, rng.sample(range(units), rng.randint(1, units)))
    held = math.fsum(instance.size[some].tolist()) / rng.choice([1, 1 + 1e-9])
    return replace(instance, memory=rng.choice([held, math.nextafter(held, 0), math.nextafter(held, math.inf)]))


def draw_solution(rng: random.Random, instance: Instance) -> Any:
    """Return a placement in any form, mostly one that keeps colours together."""
    n, devices = instance.nodes, list(range(instance.accelerators + instance.cpus))
    of_unit = [rng.choice(devices) for _ in range(n)]
    place = [of_unit[instance.unit[v]] if rng.random() < 0.98 else rng.choice(devices) for v in range(n)]
    form = rng.random()
    if instance.objective == "latency" and form < 0.7:
        return {"device": place, "slot": [rng.randrange(min(n, rng.choice([1, 2, 3]))) for _ in range(n)]}
    if instance.allreduce and form < 0.7:
        k = instance.accelerators
        groups = [group for kind in (devices[:k], devices[k:]) for group in _parts(rng, kind)]
        of_unit = [rng.randrange(len(groups)) for _ in range(n)]
        return {"stage": [of_unit[u] for u in instance.unit.tolist()], "replicas": groups}
    return place


def _parts(rng: random.Random, devices: list[int]) -> list[list[int]]:
    """Return devices in groups of one or more."""
    parts: list[list[int]] = []
    for device in rng.sample(devices, len(devices)):
        if parts and rng.random() < 0.5:
            parts[-1].append(device)
        else:
            parts.append([device])
    return parts


def false_reason(instance: Instance, best: Fraction | None, reason: str) -> bool:
    """Return True if a solver declines because nothing fits, though something does."""
    if reason.startswith("no acyclic placement is known to fit"):  # also the reason if rounding decides what fits
        try:
            less = instance.memory * (1 - 1e-8)
            best = optimum(replace(instance, contiguity="acyclic", objective="throughput", memory=less))
        except InputError:
            return False
    if reason.startswith("no contiguous placement"):
        best = optimum(replace(instance, contiguity="contiguous"))
    return best is not None and reason.startswith(("no placement fits the memory", "no acyclic ", "no contiguous "))
