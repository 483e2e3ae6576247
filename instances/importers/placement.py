"""Graphs of "Efficient Algorithms for Device Placement of DNN Graph Operators" (NeurIPS 2020) read as pipelines.

Accelerators become stages, times on an accelerator work, and costs of communication tensors: there as here a device
pays for each tensor once, whether it comes in or goes out, and for its work, so that a partition costs what its
slowest accelerator takes. What the two problems do not share:

CPUs                there are none here; a node that no accelerator supports is refused
memory              there a hard limit on the sizes of an accelerator's nodes, here parameters beyond the memory are
                    streamed. The limit counts only if a bandwidth is given, which turns costs of communication into
                    bytes; else the bandwidth is 1, sizes of tensors are times, and the memory is unlimited
colour classes      nodes that must be together are contracted to one, and so is all that would be on a cycle then:
                    no partition with an acyclic quotient graph can part it. What the members send stays several
                    tensors, carried by helper nodes (see instances/importers/_tensors.py)
backward passes     a backward node has to be with its forward node although data flows back through the stages:
                    no acyclic quotient graph has that. Graphs with backward nodes are refused, or cut down to their
                    forward part
artificial edges    order their nodes, and send nothing
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from instances import track_module
from instances.columns import describe, require_int, require_list, require_number, require_text
from instances.errors import InputError
from instances.graph import Graph
from instances.importers import Option
from instances.importers._tensors import Operation, Tensor, one_tensor_each
from instances.jsonfile import read_json

TRACK = "pipeline"
OPTIONS: Mapping[str, Option] = {
    "stages": Option(int, "blocks to partition into (default: as many as the file has accelerators)"),
    "bandwidth": Option(float, "bytes per unit of time between blocks, for the memory to count (default: it does not)"),
    "part": Option(str, "nodes to take of a graph for training (default: whole)", "whole", ("whole", "forward")),
}
SAME = 1e-6  # costs of the edges of one node may differ by this much; the paper's program allows it too


def read(path: Path, *, stages: int | None, bandwidth: float | None, part: str) -> Any:
    """The pipeline of a file, plain or gzip; InputError for a graph that is no pipeline."""
    pipeline = track_module(TRACK)
    columns = as_pipeline(read_json(path), str(path), bandwidth, forward_only=part == "forward")
    return pipeline.parse({"format": pipeline.FORMAT, **columns}, str(path), stages)


def recognises(document: Any) -> bool:
    """Whether a JSON document looks like a file of the paper."""
    return isinstance(document, dict) and "maxFPGAs" in document


def as_pipeline(
    document: Mapping[str, Any], source: str, bandwidth: float | None = None, *, forward_only: bool = False
) -> dict[str, Any]:
    """What a document of ``pipeline`` has beside its format; keys that the paper's program ignores are ignored.

    ``bandwidth`` is in bytes a unit of time; None leaves sizes of tensors in units of time, and memory unlimited.
    Raises InputError with the place of what is wrong, or cannot be said as a pipeline.
    """
    unit = 1.0 if bandwidth is None else require_number(bandwidth, source, "--bandwidth")
    stages = require_int(_get(document, "maxFPGAs", source, ""), source, "maxFPGAs")
    memory = require_number(_get(document, "maxSizePerFPGA", source, ""), source, "maxSizePerFPGA")
    nodes = _nodes(_get(document, "nodes", source, ""), source)
    edges = _edges(_get(document, "edges", source, ""), nodes, source)
    if forward_only:
        nodes, edges = _forward(nodes, edges)
    _require_pipeline(nodes, edges, source)
    return {
        "name": Path(source).name.split(".")[0],
        "stages": stages,
        "bandwidth": unit,
        "memory": None if bandwidth is None else memory,
        **one_tensor_each(_operations(nodes, edges, unit)),
    }


@dataclass(slots=True)
class _Node:
    """``index`` in the file; ``time`` on an accelerator; ``cost`` of sending its tensor, None if it sends none."""

    index: int
    identity: int
    name: str
    time: float
    size: float
    supported: bool
    backward: bool
    colour: int | None
    cost: float | None = None


@dataclass(frozen=True, slots=True)
class _Edge:
    """``tail`` and ``head`` are positions in the list of nodes; an ``artificial`` one only orders them."""

    tail: int
    head: int
    artificial: bool


def _nodes(records: Any, source: str) -> list[_Node]:
    nodes: list[_Node] = []
    known: set[int] = set()
    for index, record in enumerate(require_list(records, source, "nodes")):
        place = f"nodes[{index}]"
        identity = require_int(_get(record, "id", source, place), source, f"{place}.id")
        if identity in known:
            raise InputError(source, f"{place}.id", f"expected every id once, found {identity} again")
        known.add(identity)
        colour = record.get("colorClass")
        node = _Node(
            index=index,
            identity=identity,
            name=require_text(record.get("name", str(identity)), source, f"{place}.name"),
            time=require_number(_get(record, "fpgaLatency", source, place), source, f"{place}.fpgaLatency"),
            size=require_number(record.get("size", 0), source, f"{place}.size"),
            supported=_flag(_get(record, "supportedOnFpga", source, place), source, f"{place}.supportedOnFpga"),
            backward=_flag(_get(record, "isBackwardNode", source, place), source, f"{place}.isBackwardNode"),
            colour=None if colour is None else require_int(colour, source, f"{place}.colorClass"),
        )
        nodes.append(node)
    if not nodes:
        raise InputError(source, "nodes", "expected at least one node")
    return nodes


def _edges(records: Any, nodes: Sequence[_Node], source: str) -> list[_Edge]:
    """The edges, each once; every node learns what it costs to send its tensor."""
    position = {node.identity: at for at, node in enumerate(nodes)}
    edges: dict[_Edge, None] = {}
    for index, record in enumerate(require_list(records, source, "edges")):
        place = f"edges[{index}]"
        ends = []
        for key in ("sourceId", "destId"):
            identity = require_int(_get(record, key, source, place), source, f"{place}.{key}")
            if identity not in position:
                raise InputError(source, f"{place}.{key}", f"expected the id of a node, found {identity}")
            ends.append(position[identity])
        cost = require_number(_get(record, "cost", source, place), source, f"{place}.cost")
        edge = _Edge(ends[0], ends[1], _flag(record.get("isArtificial", False), source, f"{place}.isArtificial"))
        tail = nodes[edge.tail]
        if not edge.artificial:
            tail.cost = cost if tail.cost is None else tail.cost
            if abs(tail.cost - cost) > SAME:
                expected = f"expected the cost {tail.cost:g} of the other edges from node {tail.identity}"
                raise InputError(source, f"{place}.cost", f"{expected}, found {cost:g}")
        edges[edge] = None
    return list(edges)


def _forward(nodes: Sequence[_Node], edges: Sequence[_Edge]) -> tuple[list[_Node], list[_Edge]]:
    """What is left without the backward nodes and what they read and send."""
    kept = [at for at, node in enumerate(nodes) if not node.backward]
    position = {at: new for new, at in enumerate(kept)}
    inside = [edge for edge in edges if edge.tail in position and edge.head in position]
    edges = [_Edge(position[edge.tail], position[edge.head], edge.artificial) for edge in inside]
    return [nodes[at] for at in kept], edges


def _require_pipeline(nodes: Sequence[_Node], edges: Sequence[_Edge], source: str) -> None:
    """InputError if there are backward or unsupported nodes, or a cycle."""
    backward = [node for node in nodes if node.backward]
    if backward:
        expected = "expected a graph for inference, or `shardmark import placement --part forward`"
        place = f"nodes[{backward[0].index}].isBackwardNode"
        raise InputError(source, place, f"{expected}, found {len(backward)} backward nodes")
    for node in nodes:
        if not node.supported:
            expected = "expected a node that accelerators support, a pipeline has no CPUs"
            raise InputError(source, f"nodes[{node.index}].supportedOnFpga", expected)
    ends = sorted({(edge.tail, edge.head) for edge in edges})
    tail, head = np.array(ends, dtype=np.int64).reshape(-1, 2).T
    Graph(len(nodes), tail, head, source, [node.name for node in nodes])


def _operations(nodes: Sequence[_Node], edges: Sequence[_Edge], bandwidth: float) -> list[Operation]:
    """One operation for all nodes that must be together, in the order of the first nodes of each."""
    group = _groups(nodes, edges)
    made = [Operation("", 0.0, 0.0) for _ in range(max(group, default=-1) + 1)]
    tensors = [Tensor(node.name, (node.cost or 0.0) * bandwidth) for node in nodes]
    for node, tensor, number in zip(nodes, tensors, group, strict=True):
        operation = made[number]
        operation.name += f"+{node.name}" if operation.name else node.name
        operation.work += node.time
        operation.params += node.size
        operation.tensors.append(tensor)
    for edge in edges:
        tail, head = group[edge.tail], group[edge.head]
        if tail != head:
            (made[tail].followers if edge.artificial else tensors[edge.tail].readers).append(head)
    return made


def _groups(nodes: Sequence[_Node], edges: Sequence[_Edge]) -> list[int]:
    """A number for each node, 0, 1, ...: the same for those of a colour, and for what is on a cycle of such groups."""
    first: dict[int, int] = {}
    alike = [at if node.colour is None else first.setdefault(node.colour, at) for at, node in enumerate(nodes)]
    component = _strong_components(len(nodes), [(alike[edge.tail], alike[edge.head]) for edge in edges])
    number: dict[int, int] = {}
    return [number.setdefault(component[at], len(number)) for at in alike]


def _strong_components(nodes: int, pairs: Iterable[tuple[int, int]]) -> list[int]:
    """The same number for nodes that are on a cycle together (Kosaraju's algorithm, two searches in depth)."""
    ahead: list[list[int]] = [[] for _ in range(nodes)]
    behind: list[list[int]] = [[] for _ in range(nodes)]
    for u, v in pairs:
        ahead[u].append(v)
        behind[v].append(u)
    seen = [False] * nodes
    finished: list[int] = []
    for root in range(nodes):
        path = [] if seen[root] else [(root, iter(ahead[root]))]
        seen[root] = True
        while path:
            node, rest = path[-1]
            following = next((v for v in rest if not seen[v]), None)
            if following is None:
                finished.append(path.pop()[0])
            else:
                seen[following] = True
                path.append((following, iter(ahead[following])))
    component = [-1] * nodes
    for root in reversed(finished):
        waiting = [root] if component[root] < 0 else []
        while waiting:
            node = waiting.pop()
            component[node] = root
            waiting += [u for u in behind[node] if component[u] < 0]
    return component


def _get(record: Any, key: str, source: str, place: str) -> Any:
    """The value of a key that has to be there."""
    if not isinstance(record, dict):
        raise InputError(source, place, f"expected an object, found {describe(record)}")
    if key not in record:
        raise InputError(source, place, f"expected a key {key!r}")
    return record[key]


def _flag(value: Any, source: str, place: str) -> bool:
    """The bool of true, false, 1 or 0."""
    if type(value) not in (bool, int) or value not in (0, 1):
        raise InputError(source, place, f"expected true or false, found {describe(value)}")
    return bool(value)
