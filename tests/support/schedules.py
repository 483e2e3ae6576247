"""Small random instances of ``scheduling``, and schedules for them that can be run."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
import oracle_scheduling

from shardmark.instances import InputError
from shardmark.instances.files.columns import Floats, Ints
from shardmark.instances.generate import families
from shardmark.instances.scheduling import TOLERANCE, Instance, parse
from shardmark.solvers.registry import LocalRun
from shardmark.solvers.scheduling._kernels import Execution, PathMoves, Simulator
from shardmark.solvers.scheduling.heuristics.heft import earliest_finish
from shardmark.solvers.scheduling.heuristics.local import path_computation_time
from shardmark.solvers.scheduling.schedules.memory_conflicts import too_many_conflicts
from shardmark.solvers.scheduling.schedules.memory_cuts import MemoryCuts, limited_devices


def made(
    complexity: Any,
    edges: Any,
    speed: Any,
    bandwidth: Any = 1,
    *,
    memory: Any = None,
    options: Any = None,
    **nodes: Any,
) -> Instance:
    """Return an instance from plain lists; ``nodes`` are further columns of the vertices."""
    document = {
        "format": "shardmark/scheduling/1",
        "options": options or {},
        "nodes": {"complexity": complexity, **nodes},
        "edges": edges,
        "devices": {"speed": speed, "memory": memory},
        "bandwidth": bandwidth,
    }
    return parse(document, "made")


class Claims(LocalRun):
    """A run that keeps solutions as plain JSON, and their claimed costs."""

    def __init__(self, **limits: Any) -> None:
        super().__init__(**limits)
        self.claimed: list[float] = []

    def report(self, solution: Any, cost: float | None = None) -> None:
        assert cost is not None
        super().report({"device": np.asarray(solution["device"]).tolist(), "order": solution["order"]})
        self.claimed.append(cost)


def draw_document(draw: random.Random, most_nodes: int = 8, **options: str) -> dict[str, Any]:
    """Return a document with random features; it may contradict itself."""
    n, k = draw.randint(1, most_nodes), draw.randint(1, 3)
    whole, dense = draw.random() < 0.6, draw.random()

    def number(least: int, most: int) -> float:
        return draw.randint(least, most) if whole else draw.uniform(least, most)

    name = draw.sample(range(n), n)
    edges = [[name[u], name[v], number(0, 6)] for v in range(n) for u in range(v) if draw.random() < dense]
    draw.shuffle(edges)
    subset = [sorted(draw.sample(range(k), draw.randint(1, k))) for _ in range(n)]
    bandwidth = [[0 if draw.random() < 0.05 else number(1, 4) for _ in range(k)] for _ in range(k)]
    kinds = {"links": ["independent", "queue", "share"], "holding": ["waiting", "reserved"]}
    return {
        "format": "shardmark/scheduling/1",
        "options": {**{key: draw.choice(values) for key, values in kinds.items()}, **options},
        "nodes": {
            "complexity": [number(0, 9) for _ in range(n)],
            "colocation": [draw.choice([None, None, 0, 1]) for _ in range(n)],
            "devices": [devices if draw.random() < 0.3 else None for devices in subset],
        },
        "edges": edges,
        "devices": {
            "speed": [number(1, 4) for _ in range(k)],
            "memory": [draw.choice([None, None, number(2, 20)]) for _ in range(k)],
        },
        "bandwidth": [[None if i == j else x for j, x in enumerate(row)] for i, row in enumerate(bandwidth)],
    }


def draw_instance(draw: random.Random, most_nodes: int = 8, **options: str) -> Instance:
    """Return a random instance that does not contradict itself."""
    while (instance := parsed(draw_document(draw, most_nodes, **options))) is None:
        pass
    return instance


def parsed(document: dict[str, Any]) -> Instance | None:
    """Return the instance of a document; None if it contradicts itself."""
    try:
        return parse(document, "drawn")
    except InputError:
        return None


def draw_devices(draw: random.Random, instance: Instance) -> list[int]:
    """Return a random allowed device for each vertex and its group."""
    chosen = [
        draw.choice(range(instance.devices) if number < 0 else instance.unit_choices[number].tolist())
        for number in instance.unit_choice.tolist()
    ]
    return [chosen[unit] for unit in instance.unit.tolist()]


def draw_order(draw: random.Random, instance: Instance, device: list[int]) -> list[list[int]]:
    """Return an order per device, from a random topological order of all vertices."""
    waiting = [len(instance.graph.predecessors(v)) for v in range(instance.nodes)]
    ready = [v for v, count in enumerate(waiting) if not count]
    order: list[list[int]] = [[] for _ in range(instance.devices)]
    while ready:
        v = ready.pop(draw.randrange(len(ready)))
        order[device[v]].append(v)
        for w in instance.graph.successors(v).tolist():
            waiting[w] -= 1
            if not waiting[w]:
                ready.append(w)
    return order


def optimum(instance: Instance) -> float:
    """Return the least makespan of all partitions and orders; infinite if none is feasible."""
    best = oracle_scheduling.optimum(instance)
    return math.inf if best is None else float(best)


def peaks(instance: Instance, device: Ints, execution: Execution) -> Floats:
    """The most that each device holds at a time."""
    tail, head = instance.graph.tail, instance.graph.head
    waits = instance.holding == "waiting"
    begin = execution.arrival if waits else execution.finish[tail]
    end = (execution.start[head] if waits else execution.finish[head]) * (1 - TOLERANCE)
    held = begin < end
    most = np.zeros(instance.devices)
    for time in begin[held]:
        now = held & (begin <= time) & (time < end)
        most = np.maximum(most, np.bincount(device[head[now]], instance.size[now], instance.devices))
    return most


def draw_tight(draw: random.Random) -> Instance | None:
    """Return an instance that reserves little memory, at times on some devices only; None if it contradicts itself."""
    n, k = draw.randint(4, 6), draw.choice([1, 2, 2])
    sets = [None, None, *([d] for d in range(k))]
    document = {
        "format": "shardmark/scheduling/1",
        "options": {"holding": "reserved", "links": draw.choice(["independent", "queue", "share"])},
        "nodes": {
            "complexity": [draw.choice([0, 1e-9, 1, 2, 3]) for _ in range(n)],
            "colocation": [draw.choice([None, None, None, 0]) for _ in range(n)],
            "devices": [draw.choice(sets) for _ in range(n)],
        },
        "edges": [[u, v, draw.choice([0, 1, 5, 9])] for u, v in combinations(range(n), 2) if draw.random() < 0.6],
        "devices": {"speed": [draw.choice([1, 2]) for _ in range(k)]},
        "bandwidth": [[None if a == b else draw.choice([0, 2, 2, 2]) for b in range(k)] for a in range(k)],
    }
    loose = parsed(document)
    if loose is None:
        return None
    most = np.bincount(loose.graph.head, loose.size, n).max(initial=0.0)
    limits = [0.0, math.inf, *(most * factor + 1e-6 for factor in (1.0, 1.0, 1.0, 1.3))]
    try:
        return replace(loose, memory=np.array([draw.choice(limits) for _ in range(k)]))
    except InputError:  # less memory than a vertex reads
        return None


def conflicting(instance: Instance) -> bool:
    """Say if more units exclude each other than there are devices that they may use."""
    every = [MemoryCuts(instance, devices, math.inf) for devices in limited_devices(instance)]
    return any(too_many_conflicts(instance, cuts.devices, cuts.confined, math.inf) for cuts in every)


def overfull_at_some_size(instance: Instance) -> bool:
    """Say if all sets of some size that may have started overfill memory, by some cut."""
    every = [MemoryCuts(instance, devices, math.inf) for devices in limited_devices(instance)]
    possible = [(cuts, size) for cuts in every if cuts.possible() for size in range(1, int(cuts.lasting.sum()) + 1)]
    return any(cuts.share_refuted(size, cut, 60.0) == 1 for cuts, size in possible for cut in cuts.proofs)


def without_order(instance: Instance) -> bool:
    """Say if every order of the vertices exceeds the memory of all devices, or of those that some are restricted to."""
    return any(MemoryCuts(instance, devices, math.inf).no_order_fits() for devices in limited_devices(instance))


def flow(seed: int, nodes: int = 80) -> Instance:
    """A random data flow graph with room for all tensors."""
    plain = families()["random-dataflow"].build(seed, nodes=nodes, devices=4, restricted=0.0)
    return replace(plain, memory=np.full(4, np.inf))


def moves_of(simulator: Simulator, seed: int) -> PathMoves:
    device = earliest_finish(simulator.instance)
    run = simulator.by_priority(device, path_computation_time(simulator.instance, device))
    return PathMoves(simulator, device, run.sequence[np.argsort(device[run.sequence], kind="stable")], seed)


def mean_time(moves: PathMoves, instance: Instance) -> float:
    return float((instance.complexity / instance.speed[moves.best_device]).mean())


def proofs_held(proved: Callable[[Instance], bool], draw: random.Random, count: int) -> int:
    """Return how many of ``count`` drawn instances are proved to have no schedule that fits; assert that none has."""
    proofs = 0
    for number in range(count):
        instance = draw_tight(draw)
        if instance and proved(instance):
            assert oracle_scheduling.optimum(instance) is None, number
            proofs += 1
    return proofs
