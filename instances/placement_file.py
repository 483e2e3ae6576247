"""Files of "Efficient Algorithms for Device Placement of DNN Graph Operators" (NeurIPS 2020), read and written.

One JSON object: ``maxSizePerFPGA maxFPGAs maxCPUs nodes edges``. A node has ``id supportedOnFpga cpuLatency fpgaLatency
isBackwardNode`` and may have ``size colorClass layerId name``; an edge has ``sourceId destId cost`` and may be
``isArtificial``: then it only orders its nodes. Other keys are ignored, as the program of the paper ignores them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from instances.errors import InputError
from instances.files.columns import (
    Floats,
    Ints,
    describe,
    frozen,
    plain_number,
    refuse_below_0,
    require_int,
    require_list,
    require_number,
    require_text,
)
from instances.graph import Graph, Index

Flags = NDArray[np.bool_]
SAME = 1e-6  # costs of the edges of one node may differ by this much; the paper's program allows it too
LARGEST = 2**31  # fewer accelerators than this, and fewer CPUs
REQUIRED = object()
TIMES = ("cpu_time", "accelerator_time", "size", "transfer")


@dataclass(frozen=True, eq=False, kw_only=True)
class Workload:
    """A computation graph with its times on accelerators and CPUs, and the devices that it is to be placed on.

    ``graph``             n nodes in the order of the file; m edges, each once, those that only order among them
    ``ids``               shape (n,), int64: what the file calls the nodes, all different
    ``cpu_time``          shape (n,), float64: processing time on a CPU, any one unit of time
    ``accelerator_time``  shape (n,), float64: the same on an accelerator
    ``size``              shape (n,), float64: memory that a node takes on an accelerator, any one unit of size
    ``transfer``          shape (n,), float64: time to move a node's output between an accelerator and RAM
    ``supported``         shape (n,), bool: whether accelerators can process it; CPUs can process every node
    ``backward``          shape (n,), bool: whether it belongs to the backward pass; no edge leads out of that
    ``colour``            shape (n,), int64: nodes of one number must be on one device, -1: with no other.
                          Numbered 0, 1, ... in the order of the first nodes
    ``layer``             shape (n,), int64: the layer that a node is part of, in the same way
    ``artificial``        shape (m,), bool: whether an edge only orders its nodes; nothing is sent then
    ``memory``            of each accelerator, same unit as ``size``
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
        for name in ("ids", "node_names", *TIMES, "supported", "backward", "colour", "layer"):
            self._require_length(name, self.graph.nodes)
        self._require_length("artificial", self.graph.edges)
        for name in TIMES:
            refuse_below_0(getattr(self, name), self.source, f"{name}[{{}}]")
        for name, count in (("maxFPGAs", self.accelerators), ("maxCPUs", self.cpus)):
            if not 0 <= count < LARGEST:
                raise InputError(self.source, name, f"expected 0 to {LARGEST - 1}, found {describe(count)}")
        if not 0 <= self.memory < np.inf:
            raise InputError(self.source, "maxSizePerFPGA", f"expected a number >= 0, found {self.memory}")
        refuse_repeated(self.ids, self.source)
        refuse_way_back(self.graph.tail, self.graph.head, self.backward, self.node_names, self.source)
        for name in ("colour", "layer"):
            object.__setattr__(self, name, numbered(getattr(self, name)))
        for name in ("ids", *TIMES, "supported", "backward", "colour", "layer", "artificial"):
            frozen(getattr(self, name))

    def _require_length(self, name: str, length: int) -> None:
        found = len(getattr(self, name))
        if found != length:
            raise InputError(self.source, name, f"expected {length} elements, found {found}")

    @property
    def nodes(self) -> int:
        """Number of nodes."""
        return self.graph.nodes

    @property
    def edges(self) -> int:
        """Number of edges, each counted once, artificial ones included."""
        return self.graph.edges

    @property
    def training(self) -> bool:
        """Whether there is a backward pass."""
        return bool(self.backward.any())

    @property
    def capacity(self) -> float:
        """Sizes with a greater sum do not fit an accelerator: the memory, and a billionth of it for rounding.

        The sum is meant as it is without rounding. Plain sums may be some bits off: a bound has to let them come up to
        the ``room``, and a solver that compares them with this is to be ready for a placement that just does not fit.
        """
        return self.memory * (1 + 1e-9)

    @property
    def room(self) -> float:
        """The capacity, and how far above it plain sums of sizes may come that fit: no bound may ask for less."""
        return self.capacity * (1 + (self.nodes + 2) * 2.0**-52)

    @cached_property
    def unit(self) -> Ints:
        """Shape (n,): the same number 0, 1, ... for nodes of a colour, one of its own for every other node."""
        alone = self.colour < 0
        label = np.where(alone, int(self.colour.max(initial=-1)) + 1 + np.arange(self.nodes), self.colour)
        return frozen(numbered(label))

    def of_units(self, column: NDArray[Any]) -> Floats:
        """Sum of a column, shape (n,), over the nodes of each unit."""
        sums = np.bincount(self.unit, weights=column, minlength=int(self.unit.max(initial=-1)) + 1)
        return sums.astype(np.float64)


def numbered(label: Ints) -> Ints:
    """Labels as 0, 1, ... in the order in which they first appear; negative ones become -1."""
    known, first, member = np.unique(label, return_index=True, return_inverse=True)
    order = np.argsort(np.where(known < 0, -1, first), kind="stable")
    number = np.empty(len(known), dtype=np.int64)
    number[order] = np.arange(len(known)) - np.count_nonzero(known < 0)
    number[known < 0] = -1
    return number[member.reshape(-1)]


def refuse_repeated(ids: Ints, source: str) -> None:
    """InputError if an id is there twice."""
    order = np.argsort(ids, kind="stable")
    again = order[1:][np.diff(ids[order]) == 0]
    if len(again):
        at = int(again.min())
        raise InputError(source, f"nodes[{at}].id", f"expected every id once, found {ids[at]} again")


def refuse_way_back(tail: Ints | Index, head: Ints | Index, backward: Flags, names: Sequence[str], source: str) -> None:
    """InputError if an edge leads from a backward node to a forward node."""
    wrong = backward[tail] & ~backward[head]
    if wrong.any():
        at = int(np.argmax(wrong))
        found = f"{names[tail[at]]} -> {names[head[at]]}"
        expected = f"expected no edge from a backward node to a forward node, found {found}"
        raise InputError(source, f"edges[{at}]", expected)


def recognises(document: Any) -> bool:
    """Whether a JSON document looks like such a file."""
    return isinstance(document, dict) and not {"maxFPGAs", "maxCPUs"}.isdisjoint(document)


def read(document: Any, source: str) -> dict[str, Any]:
    """The fields of a `Workload`; InputError with the place of what is wrong."""
    if not isinstance(document, dict):
        raise InputError(source, "", f"expected an object, found {describe(document)}")
    accelerators, cpus = (require_int(get(document, key, source, ""), source, key) for key in ("maxFPGAs", "maxCPUs"))
    memory = require_number(get(document, "maxSizePerFPGA", source, ""), source, "maxSizePerFPGA")
    nodes = _Columns(get(document, "nodes", source, ""), source, "nodes")
    if not nodes.records:
        raise InputError(source, "nodes", "expected at least one node")
    edges = _Columns(get(document, "edges", source, ""), source, "edges")
    ids = nodes.column("id", _integer)
    refuse_repeated(np.array(ids, dtype=np.int64), source)
    names = nodes.column("name", require_text, None)
    node_names = tuple(str(i) if name is None else name for i, name in zip(ids, names, strict=True))
    backward = np.array(nodes.column("isBackwardNode", require_flag))
    return {
        "name": require_text(document.get("name", Path(source).name.split(".")[0]), source, "name"),
        "ids": np.array(ids, dtype=np.int64),
        "node_names": node_names,
        "cpu_time": np.array(nodes.column("cpuLatency", require_number)),
        "accelerator_time": np.array(nodes.column("fpgaLatency", require_number)),
        "size": np.array(nodes.column("size", require_number, 0)),
        "supported": np.array(nodes.column("supportedOnFpga", require_flag)),
        "backward": backward,
        "colour": _labels(nodes.column("colorClass", _integer, None)),
        "layer": _labels(nodes.column("layerId", _integer, None)),
        "accelerators": accelerators,
        "cpus": cpus,
        "memory": memory,
        "source": source,
        **_edges(edges, ids, node_names, backward),
    }


@dataclass(frozen=True)
class _Columns:
    """A list of objects, read a key at a time."""

    records: Any
    source: str
    place: str

    def __post_init__(self) -> None:
        for i, record in enumerate(require_list(self.records, self.source, self.place)):
            if not isinstance(record, dict):
                raise InputError(self.source, f"{self.place}[{i}]", f"expected an object, found {describe(record)}")

    def column(self, key: str, convert: Callable[[Any, str, str], Any], default: Any = REQUIRED) -> list[Any]:
        """The value of a key in every object; where it is None, or absent, and that is the default, None."""
        values = []
        for i, record in enumerate(self.records):
            value = get(record, key, self.source, f"{self.place}[{i}]", default)
            absent = value is None and default is None
            values.append(None if absent else convert(value, self.source, f"{self.place}[{i}].{key}"))
        return values


def _edges(edges: _Columns, ids: Sequence[int], names: Sequence[str], backward: Flags) -> dict[str, Any]:
    """The graph, which edges only order their nodes, and what it costs to send each node's output."""
    position = {identity: at for at, identity in enumerate(ids)}

    def end(value: Any, source: str, place: str) -> int:
        identity = require_int(value, source, place)
        if identity not in position:
            raise InputError(source, place, f"expected the id of a node, found {describe(identity)}")
        return position[identity]

    tail, head = (np.array(edges.column(key, end), dtype=np.int64) for key in ("sourceId", "destId"))
    cost = np.array(edges.column("cost", require_number), dtype=np.float64)
    artificial = np.array(edges.column("isArtificial", require_flag, False), dtype=bool)
    transfer = np.zeros(len(ids))
    real = np.flatnonzero(~artificial)
    senders, first = np.unique(tail[real], return_index=True)
    transfer[senders] = cost[real[first]]
    wrong = ~artificial & (np.abs(cost - transfer[tail]) > SAME)
    if wrong.any():
        at = int(np.argmax(wrong))
        expected = f"expected the cost {transfer[tail[at]]:g} of the other edges from node {ids[tail[at]]}"
        raise InputError(edges.source, f"edges[{at}].cost", f"{expected}, found {cost[at]:g}")
    kept, only_orders = _distinct(tail * len(ids) + head, artificial)
    graph = Graph(len(ids), tail[kept], head[kept], edges.source, names, places=kept)
    refuse_way_back(tail, head, backward, names, edges.source)
    return {"graph": graph, "artificial": only_orders, "transfer": transfer}


def _distinct(key: Ints, artificial: Flags) -> tuple[Ints, Flags]:
    """Where each key stands first, in their order, and whether it is artificial wherever it stands."""
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


def get(record: Any, key: str, source: str, place: str, default: Any = REQUIRED) -> Any:
    """The value of a key that has to be there, unless there is a default."""
    if key in record:
        return record[key]
    if default is REQUIRED:
        raise InputError(source, place, f"expected a key {key!r}")
    return default


def require_flag(value: Any, source: str, place: str) -> bool:
    """The bool of true, false, 1 or 0."""
    if type(value) not in (bool, int) or value not in (0, 1):
        raise InputError(source, place, f"expected true or false, found {describe(value)}")
    return bool(value)


def _integer(value: Any, source: str, place: str) -> int:
    number = require_int(value, source, place)
    if not -(2**63) <= number < 2**63:
        raise InputError(source, place, f"expected an integer below 2^63, found {describe(number)}")
    return number


def _labels(values: Sequence[int | None]) -> Ints:
    """Numbers 0, 1, ... for labels of any value, in the order of the first ones; -1 for None."""
    known: dict[int, int] = {}
    return np.array([-1 if value is None else known.setdefault(value, len(known)) for value in values], dtype=np.int64)
