"""Instances of ``scheduling``: every rule of links and memory, colocation, restrictions, devices of any speeds."""

from __future__ import annotations

import random
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
import oracle_scheduling

from crosscheck.draws.strata import FEWEST, MOST, SHAPES, Drawn, edges, numbers, renumbered, strata, valid
from shardmark.instances import InputError
from shardmark.instances.generate import families
from shardmark.instances.scheduling import FORMAT, Instance, parse

#: Numbers: one source for all, or ones for which a simple bound is tight, see `_costs`.
COSTS = ("own", "ordinary", "equal", "zeros", "mixed", "integers", "extreme", "work", "dominant", "slow links")


def draw(index: int) -> Drawn:
    """Return the instance of an index."""
    chosen = strata(
        index,
        costs=COSTS,
        graph=("family", "family", "lean", *SHAPES),
        links=("independent", "queue", "share"),
        holding=("waiting", "reserved"),
        memory=("none", "none", "some", "tight", "least"),
        grouped=(False, False, True),
        restricted=(False, False, True),
        speeds=("equal", "equal", "mixed", "extreme"),
        devices=(2, 2, 3, 4, 8),
        size=range(FEWEST, MOST + 1),
    )
    rng = random.Random(f"crosscheck scheduling {index}")
    memory = "no memory" if chosen["memory"] == "none" else chosen["holding"]
    extra = [word for word in ("grouped", "restricted") if chosen[word]]
    mode = f"{chosen['links']}, {memory}" + (", " + " and ".join(extra) if extra else "")
    return Drawn(valid(lambda: _drawn(rng, chosen)), mode, f"{chosen['graph']}, {chosen['costs']}")


def _drawn(rng: random.Random, chosen: dict[str, Any]) -> Instance:
    options = {"links": chosen["links"], "holding": chosen["holding"]}
    if chosen["graph"] == "lean":
        return replace(lean(rng), **options)
    if chosen["graph"] == "family" and chosen["costs"] == "own":
        shape = {"colocated": 0.3 * chosen["grouped"], "restricted": 0.3 * chosen["restricted"], "spare": None}
        shape |= {"reads": rng.choice([1, 2, 3]), "reach": rng.choice([4, 12]), "devices": chosen["devices"]}
        instance = families()["random-dataflow"].build(rng.randrange(2**31), nodes=chosen["size"], **shape)
        return _with_memory(replace(instance, **options), chosen["memory"], rng)
    instance = parse({**_document(rng, chosen), "options": options}, "drawn")
    return _with_memory(instance, chosen["memory"], rng)


def lean(rng: random.Random) -> Instance:
    """Return 8 to 14 vertices whose devices hold about as much as some vertices read or make.

    They are fewer than in other kinds: of these, exact methods mostly know whether anything fits.
    """
    while True:
        drawn = oracle_scheduling.draw(rng, 14)
        most = max(np.bincount(drawn.graph.head, drawn.size, drawn.nodes).max(initial=0.0), drawn.size.max(initial=0.0))
        if drawn.nodes < 8 or not most:
            continue
        memory = np.full(drawn.devices, most * rng.choice([0.4, 0.7, 1.0, 1.0 + 1e-8, 1.2, 1.5]))
        with suppress(InputError):  # less memory than a vertex reads
            return replace(drawn, memory=memory)


def _document(rng: random.Random, chosen: dict[str, Any]) -> dict[str, Any]:
    n, k, graph = chosen["size"], chosen["devices"], chosen["graph"]
    pairs = renumbered(edges("recent" if graph == "family" else graph, n, rng), n, rng)
    work, size = _costs("ordinary" if chosen["costs"] == "own" else chosen["costs"], n, len(pairs), rng)
    subsets = [sorted(rng.sample(range(k), rng.randint(1, k))) for _ in range(3)]
    width = rng.choice([1.0, 1.0, 10.0]) * (0.01 if chosen["costs"] == "slow links" else 1.0)
    bandwidth: list[list[float | None]] = [[width * rng.choice([1.0, 1.0, 2.0]) for _ in range(k)] for _ in range(k)]
    for d in range(k):
        bandwidth[d][d] = None
    nodes: dict[str, Any] = {"complexity": work}
    if chosen["grouped"]:
        nodes["colocation"] = [rng.choice([None, None, v // 3]) for v in range(n)]
    if chosen["restricted"]:
        nodes["devices"] = [rng.choice([None, None, *subsets]) for _ in range(n)]
    return {
        "format": FORMAT,
        "nodes": nodes,
        "edges": [[u, v, x] for (u, v), x in zip(pairs, size, strict=True)],
        "devices": {"speed": _speeds(chosen["speeds"], k, rng)},
        "bandwidth": bandwidth,
    }


def _costs(costs: str, nodes: int, edges: int, rng: random.Random) -> tuple[list[float], list[float]]:
    """Return the work of vertices and the sizes of tensors.

    work        equal work and tensors of size 0: the even share, and the longest path
    dominant    one vertex takes longer than all others together
    slow links  tensors take far longer than work, so that running vertices in parallel gains nothing
    """
    small = numbers("integers", rng)
    if costs == "work":
        return [1.0] * nodes, [0.0] * edges
    if costs == "dominant":
        work = [small() for _ in range(nodes)]
        work[rng.randrange(nodes)] = 2 * sum(work)
        return work, [0.01 * small() for _ in range(edges)]
    source = small if costs == "slow links" else numbers(costs, rng)
    return [source() for _ in range(nodes)], [source() for _ in range(edges)]


def _speeds(kind: str, devices: int, rng: random.Random) -> list[float]:
    kinds = {
        "equal": lambda: 1.0,
        "mixed": lambda: rng.choice([1.0, 2.0, 3.5]),
        "extreme": lambda: 10 ** rng.uniform(-6, 6),
    }
    return [kinds[kind]() for _ in range(devices)]


def _with_memory(instance: Instance, kind: str, rng: random.Random) -> Instance:
    """Return the instance with a memory in needs of the vertex that reads most: little more than one, or some."""
    if kind == "none":
        return instance
    need = float(np.bincount(instance.graph.head, instance.size, instance.nodes).max(initial=0.0))
    factor = {"some": 4.0, "tight": rng.uniform(1.1, 2.0), "least": 1 + 1e-8}[kind]
    return replace(instance, memory=np.full(instance.devices, max(need * factor, 1e-200)))
