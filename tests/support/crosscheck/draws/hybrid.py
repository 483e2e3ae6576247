"""Instances of ``hybrid``: 8 to 30 nodes, memory that binds, and every key beyond the paper's."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any

from crosscheck.draws.strata import SHAPES, Drawn, Pairs, edges, numbers, renumbered, strata, valid
from shardmark.instances.hybrid import Instance, parse

#: Nodes, fewest and most, and most down-sets.
FEWEST, MOST, DOWN_SETS = 8, 30, 3000

#: Numbers: "traded" has whole ones, and configurations that save memory and cost time, as recomputation does.
COSTS = ("traded", "traded", "traded", "traded", "integers", "zeros", "equal", "ordinary", "mixed", "extreme")

#: Factors of the memory that a drawn plan needs: that, a rounding error of it, or the tolerance of capacities.
NEAR = (1.0, 1.0, 1 - 2.0**-53, 1 + 2.0**-52, 1 - 1e-9, 1 - 2e-9)


def draw(index: int) -> Drawn:
    """Return the instance of an index."""
    chosen = strata(
        index,
        costs=COSTS,
        graph=("line", "line", *SHAPES),
        objective=("throughput", "step"),
        memory=("enough", "half", "plan", "plan", "near"),
        keys=("paper", "paper", "shared", "machines", "all"),
        devices=(2, 3, 4, 4, 6, 8, 16),
        batch=(1, 2, 4, 4, 6, 8, 12),
        degrees=((1,), (1, 2), (1, 2), (1, 2, 4), (2, 3)),
        menu=(1, 2, 2, 3),
        size=(*range(FEWEST, 16), *range(FEWEST, MOST + 1)),
    )
    rng = random.Random(f"crosscheck hybrid {index}")
    mode = f"{chosen['objective']}, memory {chosen['memory']}, keys {chosen['keys']}"
    return Drawn(valid(lambda: _drawn(rng, chosen)), mode, f"{chosen['graph']}, {chosen['costs']}")


def _drawn(rng: random.Random, chosen: dict[str, Any]) -> Instance:
    size = chosen["size"]
    pairs = _edges(rng, chosen["graph"], size)
    while size > FEWEST and _down_sets(size, pairs) > DOWN_SETS:
        size -= 1
        pairs = _edges(rng, chosen["graph"], size)
    document = _document(rng, chosen, size, renumbered(pairs, size, rng))
    return parse({**document, "maxMemoryPerDevice": _memory(rng, chosen["memory"], document)}, "drawn")


def _edges(rng: random.Random, graph: str, nodes: int) -> Pairs:
    """Return edges; "line" is a chain with some branches."""
    if graph != "line":
        return edges(graph, nodes, rng)
    return sorted({(u, v) for v in range(1, nodes) for u in (v - 1, rng.randrange(v)) if rng.random() < 0.8})


def _down_sets(nodes: int, pairs: Pairs) -> int:
    """Return the number of sets of nodes without edges into them, or a greater one than allowed."""
    before = [sum(1 << u for u, w in pairs if w == v) for v in range(nodes)]
    found, new = {0}, {0}
    while new and len(found) <= DOWN_SETS:
        grown = ((s, v) for s in new for v in range(nodes) if not s >> v & 1 and not before[v] & ~s)
        new = {s | 1 << v for s, v in grown} - found
        found |= new
    return len(found)


def _document(rng: random.Random, chosen: dict[str, Any], nodes: int, pairs: Pairs) -> dict[str, Any]:
    """Return a file without memory; all nodes have the first degree."""
    costs, degrees, keys = chosen["costs"], chosen["degrees"], chosen["keys"]
    number = numbers("integers" if costs == "traded" else costs, rng)
    bulk = 10 ** rng.uniform(-9, 9) if costs in ("ordinary", "mixed", "extreme") else 1  # sizes against times
    entry = _traded if costs == "traded" else _independent

    def configuration(v: int, t: int, i: int) -> dict[str, Any]:
        more = {key: bulk * number() for key in ("memoryShared", "gatherSize") if keys in ("shared", "all")}
        return {
            "id": f"c{i}",
            **entry(rng, number, bulk, t, i),
            **more,
            "syncTimeFw": {str(u): bulk * number() for u, w in pairs if w == v},
            "syncTimeBw": {str(w): bulk * number() for u, w in pairs if u == v},
        }

    def menu(v: int) -> dict[str, Any]:
        mine = degrees if rng.random() < 0.9 else degrees[:1]
        return {str(t): [configuration(v, t, i) for i in range(rng.randint(1, chosen["menu"]))] for t in mine}

    machine = {"devicesPerMachine": rng.choice([2, 4]), "bandwidthInside": rng.choice([8, 16])}
    return {
        "maxDevices": chosen["devices"],
        "mbsInBatch": chosen["batch"],
        "bandwidth": rng.choice([1, 2, 4]) if bulk == 1 else bulk * rng.uniform(0.1, 10),
        "options": {"objective": chosen["objective"]},
        **(machine if keys in ("machines", "all") else {}),
        "nodes": [{"id": v, "TMPCs": menu(v)} for v in range(nodes)],
        "edges": [{"sourceId": u, "destId": v, "communicationCost": bulk * number()} for u, v in pairs],
    }


def _traded(rng: random.Random, number: Callable[[], float], bulk: float, t: int, i: int) -> dict[str, float]:
    return {
        "timePerSample": rng.randint(8, 40) // t + i * rng.randint(1, 9),
        "parameterSize": rng.randint(0, 9),
        "memoryUsageA": max(0, rng.randint(2, 12) - i * rng.randint(1, 5)) // t,
        "memoryUsageB": rng.randint(0, 9) // t,
    }


def _independent(rng: random.Random, number: Callable[[], float], bulk: float, t: int, i: int) -> dict[str, float]:
    return {
        "timePerSample": number(),
        **{key: bulk * number() for key in ("parameterSize", "memoryUsageA", "memoryUsageB")},
    }


def _memory(rng: random.Random, kind: str, document: dict[str, Any]) -> float:
    """Return a memory: for all nodes on one device, half of that, or about what a random plan needs."""
    choices = [[c for menu in node["TMPCs"].values() for c in menu] for node in document["nodes"]]
    sizes = [min(c["memoryUsageA"] + c["memoryUsageB"] + c.get("memoryShared", 0) for c in some) for some in choices]
    if kind in ("enough", "half"):
        return min(2 * sum(sizes), 1e308) if kind == "enough" else max(*sizes, sum(sizes) * rng.uniform(0.3, 1.2))
    need = _need(rng, document)
    return need * (rng.choice(NEAR) if kind == "near" else rng.uniform(1, 1.3))


def _need(rng: random.Random, document: dict[str, Any]) -> float:
    """Return what the stages of a random plan need at most, whose degrees are within the limits."""
    count, first = len(document["nodes"]), next(iter(document["nodes"][0]["TMPCs"]))
    order = _order(document)
    most = min(count, document["mbsInBatch"], max(1, document["maxDevices"] // int(first)))
    cuts = sorted(rng.sample(range(1, count), rng.randrange(most)))
    data = [1] * (len(cuts) + 1)
    for i in range(len(data)):
        d = rng.choice([d for d in range(1, 5) if document["mbsInBatch"] % d == 0])
        if sum(data) - 1 + d <= min(document["mbsInBatch"], document["maxDevices"] // int(first)):
            data[i] = d
    need = 0.0
    for i, (begin, end) in enumerate(zip([0, *cuts], [*cuts, count], strict=True)):
        y = math.ceil(sum(data[i:]) / data[i])
        chosen = [rng.choice(document["nodes"][v]["TMPCs"][first]) for v in order[begin:end]]
        held = [c["memoryUsageA"] * y + c["memoryUsageB"] + c.get("memoryShared", 0) / data[i] for c in chosen]
        need = max(need, sum(held))
    return need


def _order(document: dict[str, Any]) -> list[int]:
    """Return the nodes in a topological order."""
    before: dict[int, set[int]] = {node["id"]: set() for node in document["nodes"]}
    for edge in document["edges"]:
        before[edge["destId"]].add(edge["sourceId"])
    order: list[int] = []
    while len(order) < len(before):
        order.append(next(v for v in before if v not in order and before[v] <= {*order}))
    return order
