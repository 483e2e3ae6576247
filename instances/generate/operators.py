"""Graphs of operators for ``placement``: merging branches, a backward pass, weights that must share a device.

Two can be solved by hand, the third is a random family. All numbers are multiples of 0.01.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from shardmark.instances.files.columns import Floats, Ints
from shardmark.instances.generate.portable_random import Draws
from shardmark.instances.graph import Graph
from shardmark.instances.placement import Instance


def crossing(draws: Draws) -> Instance:
    """Two chains of two nodes, with times 5, 3 and 3, 1: the optimum is 6 for contiguous sets, 7 for acyclic ones."""
    return _instance([5, 3, 3, 1], [[0, 1], [2, 3]], accelerators=2, cpus=0, memory=0)


def sandwich(draws: Draws) -> Instance:
    """A CPU node and a chain with times 3, 4, 3; a tensor takes 0.25. Optimum: 7.25 for contiguous sets, 6.75 for any.

    Two nodes of the chain fit into an accelerator. A single sample takes at least 11.75: 1 on the CPU, 3 + 4 on one
    accelerator, 3 on the other, and three transfers.
    """
    return _instance(
        [0, 3, 4, 3],
        [[0, 1], [1, 2], [2, 3]],
        transfer=[0.25] * 4,
        supported=[False, True, True, True],
        size=[0, 1, 1, 1],
        cpu_time=[1, 30, 40, 30],
        accelerators=2,
        cpus=1,
        memory=2,
    )


def operators(
    draws: Draws,
    *,
    nodes: int,
    training: int,
    accelerators: int,
    cpus: int,
    room: float,
    branching: float,
    unsupported: float,
    tied: float,
    jitter: float,
) -> Instance:
    """Random operators that read one or two recent ones; some share a device with the next, some run only on CPUs.

    In a training graph every operator has a backward operator that reads it, and the edges of the backward pass are
    reversed. Most backward operators share a device with their forward operator.
    """
    back = np.minimum(1 + (draws.uniform(nodes) * 4 * branching).astype(np.int64), np.arange(nodes))[1:]
    first = np.column_stack([np.arange(1, nodes) - back, np.arange(1, nodes)])
    again = draws.uniform(nodes - 1) < branching
    other = (draws.uniform(nodes - 1) * first[:, 1]).astype(np.int64)
    second = np.column_stack([other, first[:, 1]])[again & (other != first[:, 0])]
    edges = np.concatenate([first, second])
    time = np.maximum(np.abs(draws.normal(2.0, 2.0, nodes)), 0.1)
    size = np.abs(draws.normal(10.0, 8.0, nodes))
    transfer = np.abs(draws.normal(0.5, 0.4, nodes))
    supported = draws.uniform(nodes) >= unsupported
    pair = np.arange(nodes) // 2
    colour = np.where((draws.uniform(nodes) < tied)[pair], pair, -1)
    columns = {"time": time, "size": size, "transfer": transfer, "supported": supported, "colour": colour}
    if training:
        columns, edges = _with_backward(draws, columns, edges)
    slower = np.where(columns["supported"], 5 + 5 * draws.uniform(len(columns["time"])), 1)
    cpu_time = columns["time"] * slower * draws.factors_around_one(jitter, len(slower))
    return _instance(
        columns["time"].round(2),
        edges,
        transfer=columns["transfer"].round(2),
        supported=columns["supported"],
        size=columns["size"].round(2),
        cpu_time=cpu_time.round(2),
        colour=columns["colour"],
        backward=np.arange(len(slower)) >= nodes,
        accelerators=accelerators,
        cpus=cpus,
        memory=round(float(columns["size"].sum()) * room / accelerators, 2),
    )


def _with_backward(draws: Draws, columns: dict[str, Any], edges: Ints) -> tuple[dict[str, Any], Ints]:
    """Append a backward pass to the columns and edges: twice the time, and the tensors of the forward operators."""
    nodes = len(columns["time"])
    orphan = draws.uniform(nodes) < 0.15
    colour = np.where((columns["colour"] < 0) & ~orphan, nodes + np.arange(nodes), columns["colour"])
    both = {key: np.concatenate([column, column]) for key, column in columns.items()}
    both["time"][nodes:] *= 2
    both["colour"] = np.concatenate([colour, np.where(orphan, -1, colour)])
    own = np.column_stack([np.arange(nodes), nodes + np.arange(nodes)])
    return both, np.concatenate([edges, own, nodes + edges[:, ::-1]])


def _instance(
    time: Sequence[float] | Floats,
    edges: Sequence[Sequence[int]] | Ints,
    *,
    accelerators: int,
    cpus: int,
    memory: float,
    **columns: Any,
) -> Instance:
    """An instance; by default nodes send and keep nothing, are supported and forward, and have no colour."""
    count = len(time)
    ends = np.array(edges, dtype=np.int64).reshape(-1, 2)

    def column(name: str, usual: Any, kind: Any) -> Any:
        return np.array(columns.get(name, [usual] * count), dtype=kind)

    sends = np.bincount(ends[:, 0], minlength=count) > 0
    return Instance(
        name="operators",
        graph=Graph(count, ends[:, 0], ends[:, 1]),
        ids=np.arange(count),
        node_names=tuple(map(str, range(count))),
        cpu_time=column("cpu_time", 0, np.float64),
        accelerator_time=np.array(time, dtype=np.float64),
        size=column("size", 0, np.float64),
        transfer=np.where(sends, column("transfer", 0, np.float64), 0.0),
        supported=column("supported", True, bool),
        backward=column("backward", False, bool),
        colour=column("colour", -1, np.int64),
        layer=column("layer", -1, np.int64),
        artificial=np.zeros(len(ends), dtype=bool),
        accelerators=accelerators,
        cpus=cpus,
        memory=memory,
    )
