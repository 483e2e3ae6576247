"""Instances of ``pipeline``: random and model-like graphs, 2 to 24 stages, with and without memory and bandwidth."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import numpy as np
import oracle_pipeline

from crosscheck.draws.strata import FEWEST, MOST, SHAPES, Drawn, edges, numbers, renumbered, strata, valid
from shardmark.instances.generate import families
from shardmark.instances.pipeline import FORMAT, Instance, parse

RANDOM = ("erdos-renyi", "barabasi-albert", "watts-strogatz", "block-model")

#: Model-like graphs of 17 to 57 nodes.
MODELS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("transformer", {"layers": 2}),
    ("transformer", {"layers": 3}),
    ("transformer", {"layers": 1, "head_groups": 4}),
    ("mixture-of-experts", {"layers": 2, "expert_groups": 2}),
    ("mixture-of-experts", {"layers": 1, "expert_groups": 4}),
    ("u-net", {"levels": 2}),
    ("u-net", {"levels": 3}),
    ("sequence-to-sequence", {"layers": 1, "steps": 4}),
    ("sequence-to-sequence", {"layers": 1, "steps": 7}),
)

#: Numbers: those of the graph's family, one source for all, or ones for which a simple bound is tight.
COSTS = (
    "own",
    "own",
    "ordinary",
    "equal",
    "zeros",
    "mixed",
    "integers",
    "extreme",
    "work",
    "dominant",
    "divisible",
    "sent",
)


def draw(index: int) -> Drawn:
    """Return the instance of an index."""
    chosen = strata(
        index,
        graph=(*RANDOM, *RANDOM, "model", "model", "oracle", *SHAPES),
        costs=COSTS,
        stages=(2, 2, 3, 3, 4, 5, 6, 8, 8, 9, 12, 16, 24, 40),
        memory=("none", "none", "some", "tight", "zero"),
        bandwidth=(1.0, 1.0, 0.1, 100.0, 1e6),
        size=range(FEWEST, MOST + 1),
    )
    rng = random.Random(f"crosscheck pipeline {index}")
    memory = "memory" if chosen["memory"] != "none" else "no memory"
    stages = chosen["stages"]
    group = "2" if stages == 2 else "3-8" if stages < 9 else "9+"
    instance = valid(lambda: _with_memory(_drawn(rng, chosen), chosen["memory"], rng))
    return Drawn(instance, f"{group} stages, {memory}", f"{chosen['graph']}, {chosen['costs']}")


def _drawn(rng: random.Random, chosen: dict[str, Any]) -> Instance:
    graph, nodes, stages = chosen["graph"], chosen["size"], chosen["stages"]
    if graph == "oracle":
        document = oracle_pipeline.document(rng, min(nodes, 40), (0.05, 0.1, 0.2, 0.5))
        return parse({**document, "stages": stages}, "drawn")
    if graph in RANDOM:
        instance = families()[graph].build(rng.randrange(2**31), **_shape(graph, nodes, rng), stages=stages)
    elif graph == "model":
        name, size = rng.choice(MODELS)
        instance = families()[name].build(rng.randrange(2**31), **size, stages=stages)
    else:
        instance = _plain(renumbered(edges(graph, nodes, rng), nodes, rng), nodes, stages)
    costs = chosen["costs"]
    if costs == "own" and instance.work.max(initial=0.0) > 0:
        return instance
    return replace(_costed(instance, "ordinary" if costs == "own" else costs, rng), bandwidth=chosen["bandwidth"])


def _shape(graph: str, nodes: int, rng: random.Random) -> dict[str, Any]:
    """Return parameters of a family of random graphs; ``between`` must leave some edges between small groups."""
    own: dict[str, dict[str, Any]] = {
        "erdos-renyi": {"probability": rng.choice([0.03, 0.05, 0.05, 0.1, 0.2])},
        "barabasi-albert": {"attached": rng.choice([1, 2, 2, 3])},
        "watts-strogatz": {"neighbours": rng.choice([2, 4, 4]), "rewiring": rng.choice([0.1, 0.3])},
        "block-model": {"blocks": rng.choice([2, 4]), "inside": 0.3, "between": rng.choice([0.001, 0.02])},
    }
    scale = {"costs_from": rng.choice(["all", "all", "own"]), "cost_spread": rng.choice([0.1, 0.1, 0.02])}
    return {"nodes": nodes, **own[graph], **scale}


def _plain(pairs: list[tuple[int, int]], nodes: int, stages: int) -> Instance:
    zeros = [0.0] * nodes
    columns = {"work": zeros, "output_size": zeros}
    return parse({"format": FORMAT, "stages": stages, "nodes": columns, "edges": [[u, v] for u, v in pairs]}, "drawn")


def _costed(instance: Instance, costs: str, rng: random.Random) -> Instance:
    """Return the instance with other numbers, the same ones if ``costs`` names a source of them.

    work       no tensors: `bottleneck` without cut or order is as good as with them
    dominant   one node does more than the share of a stage: the simple bound, and that of the stage that holds it
    divisible  equal work, in as many nodes as the stages need: the even share
    sent       tensors that cost far more than work: the cheapest set around a node
    """
    n = instance.nodes
    small = numbers("integers", rng)
    if costs == "work":
        return _columns(instance, [small() for _ in range(n)], [0.0] * n, [0.0] * n)
    if costs == "dominant":
        work = [small() for _ in range(n)]
        work[rng.randrange(n)] = sum(work) * rng.choice([1.0, 2.0])
        return _columns(instance, work, [rng.choice([0.0, 0.01 * small()]) for _ in range(n)], [0.0] * n)
    if costs == "divisible":
        return _columns(instance, [1.0] * n, [rng.choice([0.0, 0.0, 1e-6]) for _ in range(n)], [0.0] * n)
    if costs == "sent":
        return _columns(
            instance, [small() for _ in range(n)], [10 * small() for _ in range(n)], [small() for _ in range(n)]
        )
    source = numbers(costs, rng)
    return _columns(instance, *([source() for _ in range(n)] for _ in range(3)))


def _columns(instance: Instance, work: list[float], size: list[float], params: list[float]) -> Instance:
    arrays = {"work": work, "output_size": size, "param_size": params}
    return replace(instance, **{name: np.array(column, dtype=np.float64) for name, column in arrays.items()})


def _with_memory(instance: Instance, kind: str, rng: random.Random) -> Instance:
    """Return the instance with a memory: none, none at all, half of what an even stage needs, or more."""
    need = float((instance.param_size.sum() + instance.output_size.sum()) / min(instance.stages, 8))
    memory = {"none": None, "zero": 0.0, "tight": need * rng.uniform(0.3, 1), "some": need * rng.uniform(1, 3)}[kind]
    return replace(instance, memory=memory)
