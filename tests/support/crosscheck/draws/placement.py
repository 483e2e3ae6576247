"""Instances of ``placement``: throughput and latency, every contiguity, schedule, overlap, clusters and replicas."""

from __future__ import annotations

import random
from contextlib import suppress
from dataclasses import replace
from typing import Any

import oracle_placement

from crosscheck.draws.strata import FEWEST, MOST, SHAPES, Drawn, Pairs, edges, numbers, strata, valid
from shardmark.instances import InputError
from shardmark.instances.generate import families
from shardmark.instances.placement import Instance, parse

#: Objective and contiguity; latency knows no acyclic placements.
SHAPED = (
    ("throughput", "contiguous"),
    ("throughput", "acyclic"),
    ("throughput", "free"),
    ("throughput", "free"),
    ("latency", "contiguous"),
    ("latency", "free"),
)

#: Numbers: one source for all, or ones for which a simple bound is tight, see `_columns`.
COSTS = ("own", "ordinary", "equal", "zeros", "mixed", "integers", "extreme", "work", "dominant", "sent")


def draw(index: int) -> Drawn:
    """Return the instance of an index."""
    chosen = strata(
        index,
        shape=SHAPED,
        costs=COSTS,
        graph=("operators", "operators", "oracle", *SHAPES),
        training=(False, False, True),
        extra=("plain", "plain", "gpipe", "clusters", "replicas"),
        overlap=("none", "none", "half", "full"),
        accelerators=(1, 2, 2, 3, 4, 6),
        cpus=(0, 1, 1, 2),
        memory=("ample", "tight", "filled"),
        size=range(FEWEST, MOST + 1),
    )
    rng = random.Random(f"crosscheck placement {index}")
    objective, contiguity = chosen["shape"]
    options: dict[str, Any] = {"objective": objective, "contiguity": contiguity}
    if objective == "throughput":
        options |= {"overlap": chosen["overlap"], **_extra(rng, chosen)}
    extra = chosen["extra"] if objective == "throughput" else "plain"
    passes = "training" if chosen["training"] else "inference"
    mode = f"{objective}, {contiguity}, {passes}" + ("" if extra == "plain" else f", {extra}")
    instance = valid(lambda: _with_memory(replace(_drawn(rng, chosen), **options), chosen["memory"], rng))
    return Drawn(instance, mode, f"{chosen['graph']}, {chosen['costs']}")


def _extra(rng: random.Random, chosen: dict[str, Any]) -> dict[str, Any]:
    clusters = {"cluster": rng.randint(1, 3), "slowdown": rng.choice([1.5, 4.0])}
    replicas = {"allreduce": rng.choice([0.5, 8.0, 1e6])}
    return {"plain": {}, "gpipe": {"schedule": "gpipe"}, "clusters": clusters, "replicas": replicas}[chosen["extra"]]


def _drawn(rng: random.Random, chosen: dict[str, Any]) -> Instance:
    graph, nodes = chosen["graph"], chosen["size"]
    devices = {"accelerators": chosen["accelerators"], "cpus": chosen["cpus"]}
    if graph == "operators" and chosen["costs"] == "own":
        nodes = nodes // 2 if chosen["training"] else nodes  # each has a backward node
        shape = {"branching": rng.choice([0.0, 0.3, 0.6]), "unsupported": 0.05 if devices["cpus"] else 0.0}
        shape |= {"training": int(chosen["training"]), "room": 2.0}
        at_least_one = {"accelerators": devices["accelerators"], "cpus": max(1, devices["cpus"])}
        drawn = families()["operators"].build(rng.randrange(2**31), nodes=nodes, **shape, **at_least_one)
        return replace(drawn, **devices)
    if graph == "oracle":
        document = oracle_placement.document(rng, min(nodes, 40), (0.03, 0.06, 0.1, 0.3))
        return parse(document | {"maxFPGAs": chosen["accelerators"], "maxCPUs": chosen["cpus"]}, "drawn")
    pairs = edges("recent" if graph == "operators" else graph, nodes, rng)
    return parse(_document(rng, chosen, pairs, nodes), "drawn")


def _document(rng: random.Random, chosen: dict[str, Any], pairs: Pairs, nodes: int) -> dict[str, Any]:
    """Return the paper's file of a graph: later nodes are backward ones in training, some share a device."""
    columns = _columns("ordinary" if chosen["costs"] == "own" else chosen["costs"], nodes, rng)
    backward = rng.randint(nodes // 3, nodes - 1) if chosen["training"] else nodes
    coloured = rng.choice([0, 0, 0.3])
    rows = [
        {
            "id": v,
            "supportedOnFpga": not chosen["cpus"] or rng.random() < 0.95,
            "isBackwardNode": v >= backward,
            **{name: column[v] for name, column in columns.items() if name != "transfer"},
            **({"colorClass": v // 3} if rng.random() < coloured else {}),
        }
        for v in range(nodes)
    ]
    sent = [{"sourceId": u, "destId": v, "cost": columns["transfer"][u]} for u, v in pairs]
    devices = {"maxFPGAs": chosen["accelerators"], "maxCPUs": chosen["cpus"], "maxSizePerFPGA": 1e300}
    return {**devices, "nodes": rows, "edges": sent}


def _columns(costs: str, nodes: int, rng: random.Random) -> dict[str, list[float]]:
    """Return the times, sizes and transfers of nodes.

    work      equal work and free transfers: the even share, and the longest path
    dominant  one node does more than the share of a device
    sent      transfers that cost more than work: what a node pays for its neighbours, and a path that changes devices
    """
    small = numbers("integers", rng)
    if costs in ("work", "dominant", "sent"):
        fast = [1.0 if costs == "work" else small() for _ in range(nodes)]
        if costs == "dominant":
            fast[rng.randrange(nodes)] = 2 * sum(fast)
        factor = rng.choice([1.0, 5.0, 1000.0])
        sent = {"work": [0.0] * nodes, "dominant": [0.0] * nodes, "sent": [10 * small() for _ in range(nodes)]}[costs]
        size = [1.0 if costs == "work" else small() for _ in range(nodes)]
        return {"fpgaLatency": fast, "cpuLatency": [factor * x for x in fast], "size": size, "transfer": sent}
    shared = numbers(costs, rng)
    sources = {name: rng.choice([shared, numbers(costs, rng)]) for name in ("fpgaLatency", "size", "transfer")}
    columns = {name: [source() for _ in range(nodes)] for name, source in sources.items()}
    if costs == "extreme":
        slow = [shared() for _ in range(nodes)]
    else:
        slow = [x * rng.uniform(1, 8) for x in columns["fpgaLatency"]]
    return {**columns, "cpuLatency": slow}


def _with_memory(instance: Instance, kind: str, rng: random.Random) -> Instance:
    """Return the instance with memory for all, for little more than an even share, or just for some units."""
    total = float(instance.size.sum())
    if kind == "filled" and rng.random() < 0.5:
        with suppress(InputError):  # too little without CPUs
            return oracle_placement.filled(rng, instance)
    share = total / max(1, instance.accelerators)
    memory = (
        2 * total
        if kind == "ample"
        else max(share * rng.uniform(1.02, 1.4), float(instance.of_units(instance.size).max()))
    )
    return replace(instance, memory=memory)
