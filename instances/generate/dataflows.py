"""Dataflow graphs for ``scheduling``: two solved by hand, a random family, and a sample with tight memory."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np

from shardmark.instances import scheduling
from shardmark.instances.errors import InputError
from shardmark.instances.files.columns import Ints
from shardmark.instances.generate.portable_random import Draws
from shardmark.instances.generate.random_graphs import barabasi_albert, watts_strogatz
from shardmark.instances.generate.simulated import links as symmetric_links
from shardmark.instances.generate.simulated import speeds, weights
from shardmark.instances.generate.training_graphs import convolutional
from shardmark.instances.graph import Graph
from shardmark.instances.scheduling import Instance

#: Vertices of a colocation group, and distinct sets of devices that vertices are restricted to.
TOGETHER, SETS = 3, 4
MAX_EDGES = 20_000_000  # of a graph

#: Vertices of the sample of tight memory, fewest and most.
FEWEST, MOST = 60, 2000

#: Memory of its devices, in largest needs of a vertex.
NEEDS = (1.0, 1.1, 1.5)


def fork_join(draws: Draws) -> Instance:
    """Fork into three vertices and join; the first and the last vertex are bound to the slower of two devices.

    The optimum has two of the three on the fast device. The first vertex takes 2, a tensor 1, the two vertices 2 + 2
    while the third takes 4 on the slow device, the tensor back 1, and the last vertex 2: 10 in total. If tensors share
    a link, the first one arrives 1 later: 11.
    """
    return _solved(
        [2, 4, 4, 4, 2],
        [[0, v, 2] for v in (1, 2, 3)] + [[v, 4, 2] for v in (1, 2, 3)],
        colocation=[0, None, None, None, 0],
        devices=[[1], None, None, None, None],
        speed=[2, 1],
        bandwidth=2,
    )


def waiting_room(draws: Draws) -> Instance:
    """Two senders, and two readers that take 4 each on another device, which has no memory for a waiting tensor.

    The second tensor must not arrive before the first reader has ended at 2 + 4, so a third vertex of 4 must run
    between the senders, and the makespan is 1 + 4 + 1 + 1 + 4 = 11; with memory for the tensor it would be 10.
    """
    return _solved(
        [1, 1, 4, 4, 4],
        [[0, 2, 2], [1, 3, 2]],
        devices=[[0], [0], [1], [1], [0]],
        speed=[1, 1],
        memory=[None, 2],
        bandwidth=2,
    )


def _solved(complexity: list[int], edges: list[list[int]], *, bandwidth: float, **columns: Any) -> Instance:
    nodes: dict[str, Any] = {"complexity": complexity}
    nodes |= {key: columns.pop(key) for key in ("colocation", "devices") if key in columns}
    document = {"nodes": nodes, "edges": edges, "devices": columns, "bandwidth": bandwidth}
    return scheduling.parse({"format": scheduling.FORMAT, **document}, "generate")


def random_dataflow(
    draws: Draws,
    *,
    nodes: int,
    devices: int,
    reads: int,
    reach: int,
    colocated: float,
    restricted: float,
    spare: float | None,
    links: str,
    holding: str,
) -> Instance:
    """Random vertices that read from recent ones; weights, speeds and bandwidths are random as in Section 5.1.

    Colocation groups have three random members. A restricted group, or vertex without a group, may use one of four
    random sets of devices. Bandwidths differ by direction.
    """
    if nodes * reads > MAX_EDGES:
        expected = f"expected at most {MAX_EDGES} edges to draw, found {nodes} nodes that read {reads} each"
        raise InputError("generate random-dataflow", "reads", expected)
    tail, head = _edges(draws, nodes, reads, reach)
    size = weights(draws, len(tail))
    colocation = _groups(draws, nodes, colocated)
    choices, choice = _restrictions(draws, colocation, devices, restricted)
    bandwidth = draws.integers(10, 61, devices * devices).reshape(devices, devices).astype(np.float64)
    np.fill_diagonal(bandwidth, np.inf)
    return Instance(
        name="dataflow",
        graph=Graph(nodes, tail, head),
        node_names=tuple(map(str, range(nodes))),
        complexity=weights(draws, nodes),
        size=size,
        colocation=colocation,
        choices=choices,
        choice=choice,
        device_names=tuple(f"device-{d}" for d in range(devices)),
        speed=speeds(draws, devices),
        memory=_memory(np.bincount(head, weights=size, minlength=nodes), devices, spare),
        bandwidth=bandwidth,
        links=links,
        holding=holding,
    )


def _edges(draws: Draws, nodes: int, reads: int, reach: int) -> tuple[Ints, Ints]:
    """Draw up to ``reads`` of the ``reach`` vertices before each one as its inputs; repeated draws count once."""
    head = np.repeat(np.arange(nodes), reads)
    back = 1 + (draws.uniform(len(head)) * np.minimum(reach, head)).astype(np.int64)
    pairs = np.unique(np.stack([head, head - back])[:, head > 0], axis=1)
    return pairs[1], pairs[0]


def _groups(draws: Draws, nodes: int, colocated: float) -> Ints:
    colocation = np.full(nodes, -1, dtype=np.int64)
    chosen = draws.permutation(nodes)[: round(nodes * colocated)]
    colocation[chosen] = np.arange(len(chosen)) // TOGETHER
    return colocation


def _restrictions(draws: Draws, colocation: Ints, devices: int, restricted: float) -> tuple[tuple[Ints, ...], Ints]:
    """Sets of devices, and the index of each vertex's set, the same for its whole group; -1: any device."""
    order = [draws.permutation(devices) for _ in range(SETS)]
    largest = draws.integers(1, max(2, devices), SETS).tolist()
    choices = tuple(np.sort(devices_[:count]) for devices_, count in zip(order, largest, strict=True))
    nodes = len(colocation)
    chosen = np.where(draws.uniform(2 * nodes) < restricted, draws.integers(0, SETS, 2 * nodes), -1)
    return choices, chosen[np.where(colocation >= 0, nodes + colocation, np.arange(nodes))]


def _memory(read: Any, devices: int, spare: float | None) -> Any:
    """``spare`` times the mean size read per device, but more than any vertex reads; None: no limit."""
    if spare is None:
        return np.full(devices, np.inf)
    return np.full(devices, np.ceil(max(spare * read.sum() / devices, read.max(initial=0.0))) + 1)


def tight_memory(number: int) -> Instance:
    """Return one of a sample of instances whose devices hold little more than the largest need of a vertex.

    The sample, numbered from 0, is the same on every call. It crosses graphs (random dataflow, Barabasi-Albert,
    Watts-Strogatz, the convolutional network), 60 to 2,000 vertices, links, what is held, and memory of 1, 1.1 and 1.5
    times the largest need, plus 1. The need of a vertex is all that it reads. Some instances have no schedule that
    fits.
    """
    options = scheduling.OPTIONS
    rules = list(product(options["links"].choices, options["holding"].choices, NEEDS))
    links, holding, factor = rules[number % len(rules)]
    draws = Draws(number)
    instance = _flow(draws, number // len(rules) % 5)
    read = np.bincount(instance.graph.head, instance.size, instance.nodes)
    memory = np.full(instance.devices, factor * read.max(initial=0.0) + 1)
    return replace(instance, links=links, holding=holding, name=f"tight-{number}", memory=memory)


def _flow(draws: Draws, kind: int) -> Instance:
    """Draw an instance without limits of memory: a random dataflow for kinds 0 and 1, or on another graph."""
    share = draws.uniform(3)
    nodes, devices = (round(FEWEST * (MOST / FEWEST) ** share[0]), int(2 + 15 * share[1] ** 2))
    if kind == 2:
        return convolutional(draws, devices=devices)
    if kind < 2:
        parts: dict[str, Any] = {"reads": 2 + kind, "reach": round(4 * 16 ** share[2])}
        parts |= {"colocated": 0.1 * kind, "restricted": 0.2 * kind, "spare": None}
        return random_dataflow(draws, nodes=nodes, devices=devices, links="independent", holding="waiting", **parts)
    costs = {"stages": 1, "costs_from": "own", "size_mean": 50.0, "size_spread": 10.0, "cost_spread": 0.1}
    if kind == 3:
        graph = barabasi_albert(draws, nodes=nodes, attached=2, **costs).graph
    else:
        graph = watts_strogatz(draws, nodes=nodes, neighbours=4, rewiring=0.3, **costs).graph
    return Instance(
        name="dataflow",
        graph=graph,
        node_names=tuple(map(str, range(nodes))),
        complexity=weights(draws, nodes),
        size=weights(draws, graph.edges),
        colocation=np.full(nodes, -1),
        choices=(),
        choice=np.full(nodes, -1),
        device_names=tuple(map(str, range(devices))),
        speed=speeds(draws, devices),
        memory=np.full(devices, np.inf),
        bandwidth=symmetric_links(draws, devices),
    )
