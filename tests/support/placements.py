"""Small instances of ``placement``, given or drawn, all placements of one, and costs of reported solutions."""

from __future__ import annotations

import json
import math
import os
import random
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
from oracle_placement import judge

from shardmark.harness.verify.placement import verify
from shardmark.instances import InputError
from shardmark.instances.placement import Instance, parse

#: Instances to draw for each engine and mode; 0 for a few.
DRAWS = int(os.environ.get("SHARDMARK_DRAWS", "0"))


#: Name in `built`, and key in the file, of each column of nodes; and default values.
KEYS = {
    "cpu": "cpuLatency",
    "supported": "supportedOnFpga",
    "backward": "isBackwardNode",
    "size": "size",
    "colour": "colorClass",
}
USUAL = {"cpu": 9, "supported": True, "backward": False, "size": 1}


def built(
    times: Sequence[float], edges: Iterable[Sequence[float]] = (), devices: Sequence[int] = (2, 1), **more: Any
) -> Instance:
    """Parse a graph of nodes that take these times on accelerators.

    ``edges`` are (producer, consumer, cost), by default 0; ``devices`` the numbers of accelerators and of CPUs, and by
    default a memory of 9. ``more`` has columns of nodes, see `KEYS`, one value for all or one per node, and options.
    """
    columns: dict[str, Any] = {"id": range(len(times)), "fpgaLatency": times}
    for name, key in KEYS.items():
        if (value := more.pop(name, USUAL.get(name))) is not None:
            columns[key] = value if isinstance(value, Sequence) else [value] * len(times)
    document = {
        **dict(zip(("maxFPGAs", "maxCPUs", "maxSizePerFPGA"), (*devices, 9), strict=False)),
        "nodes": [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)],
        "edges": [dict(zip(("sourceId", "destId", "cost"), (*edge, 0), strict=False)) for edge in edges],
    }
    return parse(document, "graph", **more)


def crossing(time: float, contiguity: str = "contiguous") -> Instance:
    """Two rows of nodes for latency, a -> b and c -> d; their halves {a, d} and {b, c} wait for each other.

    Each half fits the memory of one of two accelerators exactly. A row does not, nor a and c; there is no CPU.
    """
    return built([time] * 4, [(0, 1), (2, 3)], (2, 0, 4), size=[3, 2, 2, 1], objective="latency", contiguity=contiguity)


def plain(solutions: Any) -> Any:
    """Return reported solutions as plain JSON."""
    return json.loads(json.dumps(solutions, default=lambda array: np.asarray(array).tolist()))


def cost_of(instance: Instance, solution: Any) -> float:
    """Return the verified cost of a reported solution, which must be feasible."""
    verdict = verify(instance, plain(solution))
    assert verdict.feasible, verdict.violations
    assert verdict.cost is not None
    return float(verdict.cost)


def judged(instance: Instance, solution: Any) -> Fraction:
    """Return the oracle's cost of a reported solution, which must be feasible."""
    feasible, cost = judge(instance, plain(solution))
    assert feasible
    assert cost is not None
    return cost


def draw_document(draw: random.Random, most_nodes: int = 7) -> dict[str, Any]:
    """Return a random document of the paper's format; edges lead to greater positions, backward nodes come last."""
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
    """Return random compatible options."""
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
    """Return a random instance that fits its devices; options are drawn, too, if none are given."""
    while True:
        try:
            return parse(draw_document(draw, most_nodes), "drawn", **(options or draw_options(draw)))
        except InputError:
            continue


def placements(instance: Instance) -> Iterator[list[int]]:
    """Yield every list of devices that keeps colours together."""
    units = int(instance.unit.max()) + 1
    for choice in product(range(instance.accelerators + instance.cpus), repeat=units):
        yield [choice[u] for u in instance.unit.tolist()]


def small(draw: random.Random, contiguity: str, most: int = 300, filling: float = 0.5) -> Instance:
    """An instance with at most so many placements, with options that the programs cover.

    As often as ``filling`` says some set of nodes fills a memory such that the last bits decide whether it fits.
    """
    while True:
        options = {
            "contiguity": contiguity,
            "schedule": draw.choice(["pipedream", "gpipe"]),
            "overlap": draw.choice(["none", "none", "half", "full"]),
            **draw.choice([{}, {"cluster": draw.randint(1, 3), "slowdown": draw.choice([1.5, 3.0])}]),
        }
        instance = draw_instance(draw, 8, **options)
        if instance.accelerators and draw.random() < 0.2:
            instance = replace(instance, accelerators=draw.randint(4, 7))
        if (instance.accelerators + instance.cpus) ** (int(instance.unit.max()) + 1) <= most:
            with suppress(InputError):  # too large for the accelerators, and there are no CPUs
                return instance if draw.random() >= filling else filled(draw, instance)


def filled(draw: random.Random, instance: Instance) -> Instance:
    unit = instance.unit
    some = np.isin(unit, draw.sample(range(int(unit.max()) + 1), draw.randint(1, int(unit.max()) + 1)))
    scale = draw.choice([1.0, 1e-6, 2.0**40])
    size = np.array([draw.choice([draw.random(), draw.randint(1, 3), 0.1]) for _ in unit]) * scale
    memory = math.fsum(size[some].tolist()) / (1 + 1e-9) * (1 + draw.choice([-2, -1, 0, 0, 1]) * 2.0**-52)
    return replace(instance, size=size, memory=memory)
