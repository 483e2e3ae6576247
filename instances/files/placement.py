"""Files of "Efficient Algorithms for Device Placement of DNN Graph Operators" (NeurIPS 2020), read and written.

One JSON object: ``maxSizePerFPGA maxFPGAs maxCPUs nodes edges``. A node has ``id supportedOnFpga cpuLatency fpgaLatency
isBackwardNode`` and may have ``size colorClass layerId name``; an edge has ``sourceId destId cost`` and may be
``isArtificial``: then it only orders its nodes. Other keys are ignored, as the program of the paper ignores them.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shardmark.instances.errors import InputError
from shardmark.instances.files.columns import (
    Floats,
    Ints,
    describe,
    freeze_columns,
    frozen,
    plain_number,
    refuse_below_0,
    require_columns,
    require_int,
    require_number,
    require_text,
)
from shardmark.instances.files.records import Records, get, refuse_repeated, require_index
from shardmark.instances.graph import Graph, Index, OnGraph

Flags = NDArray[np.bool_]
SAME = 1e-6  # largest difference between costs of one node's edges, in units of time; as in the paper's program
LARGEST = 2**31  # upper bound on the numbers of accelerators and of CPUs
TIMES = ("cpu_time", "accelerator_time", "size", "transfer")


@dataclass(frozen=True, eq=False, kw_only=True)
class Workload(OnGraph):
    """A computation graph with its times on accelerators and CPUs, and the devices to place it on.

    ``graph``             n nodes in the order of the file; m distinct edges, including artificial ones
    ``ids``               shape (n,), int64: the file's ids of the nodes, all different
    ``cpu_time``          shape (n,), float64: processing time on a CPU, in any unit of time
    ``accelerator_time``  shape (n,), float64: the same on an accelerator
    ``size``              shape (n,), float64: memory of a node on an accelerator, in any unit of size
    ``transfer``          shape (n,), float64: time to move a node's output between an accelerator and RAM
    ``supported``         shape (n,), bool: accelerators can process the node; CPUs can process every node
    ``backward``          shape (n,), bool: the node is in the backward pass, which no edge leaves
    ``colour``            shape (n,), int64: nodes of one colour must share a device; -1: no colour. Numbered
                          0, 1, ... in order of their first nodes
    ``layer``             shape (n,), int64: layer of the node, numbered likewise
    ``artificial``        shape (m,), bool: the edge only orders its nodes and sends nothing
    ``memory``            memory of each accelerator, in the unit of ``size``
    """

    name: str
    graph: Graph
    ids: Ints
    node_names: tuple[str, ...]
    cpu_time: Floats
    accelerator_time: Floats
    size: Floats
    transfer: Floats
    supported: Flags
    backward: Flags
    colour: Ints
    layer: Ints
    artificial: Flags
    accelerators: int
    cpus: int
    memory: float
    source: str = field(default="instance", repr=False)

    def __post_init__(self) -> None:
        columns = ("ids", "node_names", *TIMES, "supported", "backward", "colour", "layer")
        require_columns(self, columns, self.nodes, "nodes")
        require_columns(self, ["artificial"], self.edges, "edges")
        for name in TIMES:
            refuse_below_0(getattr(self, name), self.source, f"{name}[{{}}]")
        for name, count in (("maxFPGAs", self.accelerators), ("maxCPUs", self.cpus)):
            if not 0 <= count < LARGEST:
                raise InputError(self.source, name, f"expected 0 to {LARGEST - 1}, found {describe(count)}")
        if not 0 <= self.memory < np.inf:
            raise InputError(self.source, "maxSizePerFPGA", f"expected a number >= 0, found {self.memory}")
        refuse_repeated(self.ids, self.source)
        refuse_edges_from_backward_to_forward(
            self.graph.tail, self.graph.head, self.backward, self.node_names, self.source
        )
        for name in ("colour", "layer"):
            object.__setattr__(self, name, numbered(getattr(self, name)))
        freeze_columns(self)

    @property
    def training(self) -> bool:
        """True if there is a backward pass."""
        return bool(self.backward.any())

    @property
    def capacity(self) -> float:
        """Largest exact sum of sizes that fits an accelerator: the memory plus a billionth of it.

        Floating-point sums may be some bits off. A bound must therefore allow sums up to ``room``; a solver that
        compares sums with this must expect that a placement barely does not fit.
        """
        return min(self.memory * (1 + 1e-9), sys.float_info.max)

    @property
    def room(self) -> float:
        """Largest floating-point sum of sizes that may fit: the capacity plus rounding errors."""
        return min(self.capacity * (1 + (self.nodes + 2) * 2.0**-52), sys.float_info.max)

    @cached_property
    def unit(self) -> Ints:
        """Shape (n,): unit of each node, numbered 0, 1, ...: one per colour and one per node without a colour."""
        alone = self.colour < 0
        label = np.where(alone, int(self.colour.max(initial=-1)) + 1 + np.arange(self.nodes), self.colour)
        return frozen(numbered(label))

    def of_units(self, column: NDArray[Any]) -> Floats:
        """Sum of a column, shape (n,), over the nodes of each unit."""
        sums = np.bincount(self.unit, weights=column, minlength=int(self.unit.max(initial=-1)) + 1)
        return sums.astype(np.float64)


def numbered(label: Ints) -> Ints:
    """Renumber labels 0, 1, ... in order of first appearance; negative ones become -1."""
    known, first, member = np.unique(label, return_index=True, return_inverse=True)
    order = np.argsort(np.where(known < 0, -1, first), kind="stable")
    number = np.empty(len(known), dtype=np.int64)
    number[order] = np.arange(len(known)) - np.count_nonzero(known < 0)
    number[known < 0] = -1
    return number[member.reshape(-1)]


def refuse_edges_from_backward_to_forward(
    tail: Ints | Index, head: Ints | Index, backward: Flags, names: Sequence[str], source: str
) -> None:
    """Raise InputError if an edge leads from a backward node to a forward node."""
    wrong = backward[tail] & ~backward[head]
    for at in np.flatnonzero(wrong)[:1]:
        found = f"{names[tail[at]]} -> {names[head[at]]}"
        expected = f"expected no edge from a backward node to a forward node, found {found}"
        raise InputError(source, f"edges[{at}]", expected)


def recognises(document: Any) -> bool:
    """True if a JSON document looks like such a file."""
    return isinstance(document, dict) and not {"maxFPGAs", "maxCPUs"}.isdisjoint(document)


def read(document: Any, source: str) -> dict[str, Any]:
    """Return the fields of a `Workload`; InputError names the place of a defect."""
    if not isinstance(document, dict):
        raise InputError(source, "", f"expected an object, found {describe(document)}")
    accelerators, cpus = (require_int(get(document, key, source, ""), source, key) for key in ("maxFPGAs", "maxCPUs"))
    memory = require_number(get(document, "maxSizePerFPGA", source, ""), source, "maxSizePerFPGA")
    nodes = Records(get(document, "nodes", source, ""), source, "nodes")
    edges = Records(get(document, "edges", source, ""), source, "edges")
    ids, node_names = nodes.named()
    backward = np.array(nodes.column("isBackwardNode", require_flag))
    return {
        "name": require_text(document.get("name", Path(source).name.split(".")[0]), source, "name"),
        "ids": ids,
        "node_names": node_names,
        "cpu_time": np.array(nodes.column("cpuLatency", require_number)),
        "accelerator_time": np.array(nodes.column("fpgaLatency", require_number)),
        "size": np.array(nodes.column("size", require_number, 0)),
        "supported": np.array(nodes.column("supportedOnFpga", require_flag)),
        "backward": backward,
        "colour": _labels(nodes.column("colorClass", require_index, None)),
        "layer": _labels(nodes.column("layerId", require_index, None)),
        "accelerators": accelerators,
        "cpus": cpus,
        "memory": memory,
        "source": source,
        **_edges(edges, ids, node_names, backward),
    }


def _edges(edges: Records, ids: Ints, names: Sequence[str], backward: Flags) -> dict[str, Any]:
    """Return the fields ``graph``, ``artificial`` and ``transfer``."""
    position = {identity: at for at, identity in enumerate(ids.tolist())}
    tail, head = (edges.ends(key, position) for key in ("sourceId", "destId"))
    cost = np.array(edges.column("cost", require_number), dtype=np.float64)
    artificial = np.array(edges.column("isArtificial", require_flag, False), dtype=bool)
    transfer = np.zeros(len(ids))
    real = np.flatnonzero(~artificial)
    senders, first = np.unique(tail[real], return_index=True)
    transfer[senders] = cost[real[first]]
    wrong = ~artificial & (np.abs(cost - transfer[tail]) > SAME)
    for at in np.flatnonzero(wrong)[:1]:
        expected = f"expected the cost {transfer[tail[at]]:g} of the other edges from node {ids[tail[at]]}"
        raise InputError(edges.source, f"edges[{at}].cost", f"{expected}, found {cost[at]:g}")
    kept, only_orders = _distinct(tail * len(ids) + head, artificial)
    graph = Graph(len(ids), tail[kept], head[kept], edges.source, names, places=kept)
    refuse_edges_from_backward_to_forward(tail, head, backward, names, edges.source)
    return {"graph": graph, "artificial": only_orders, "transfer": transfer}


def _distinct(key: Ints, artificial: Flags) -> tuple[Ints, Flags]:
    """Return the first index of each key, in order, and a mask of keys that are artificial at every occurrence."""
    known, first, which = np.unique(key, return_index=True, return_inverse=True)
    everywhere = np.ones(len(known), dtype=bool)
    np.logical_and.at(everywhere, which.reshape(-1), artificial)
    order = np.argsort(first)
    return first[order], everywhere[order]


def document(workload: Workload) -> dict[str, Any]:
    """The JSON of a workload; `read` reads it back unchanged."""
    return {
        "name": workload.name,
        "maxSizePerFPGA": plain_number(float(workload.memory)),
        "maxFPGAs": workload.accelerators,
        "maxCPUs": workload.cpus,
        "nodes": [_node(workload, v) for v in range(workload.nodes)],
        "edges": [_edge(workload, e) for e in range(workload.edges)],
    }


def _node(workload: Workload, v: int) -> dict[str, Any]:
    classes = (("colorClass", workload.colour), ("layerId", workload.layer))
    return {
        "id": int(workload.ids[v]),
        "name": workload.node_names[v],
        "supportedOnFpga": bool(workload.supported[v]),
        "cpuLatency": plain_number(float(workload.cpu_time[v])),
        "fpgaLatency": plain_number(float(workload.accelerator_time[v])),
        "isBackwardNode": bool(workload.backward[v]),
        "size": plain_number(float(workload.size[v])),
        **{key: int(column[v]) for key, column in classes if column[v] >= 0},
    }


def _edge(workload: Workload, e: int) -> dict[str, Any]:
    tail, head = int(workload.graph.tail[e]), int(workload.graph.head[e])
    return {
        "sourceId": int(workload.ids[tail]),
        "destId": int(workload.ids[head]),
        "cost": plain_number(float(workload.transfer[tail])),
        **({"isArtificial": True} if workload.artificial[e] else {}),
    }


def require_flag(value: Any, source: str, place: str) -> bool:
    """Convert true, false, 1 or 0 to a bool."""
    if type(value) not in (bool, int) or value not in (0, 1):
        raise InputError(source, place, f"expected true or false, found {describe(value)}")
    return bool(value)


def _labels(values: Sequence[int | None]) -> Ints:
    """Number labels 0, 1, ... in order of first appearance; -1 for None."""
    known: dict[int, int] = {}
    return np.array([-1 if value is None else known.setdefault(value, len(known)) for value in values], dtype=np.int64)
