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

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from instances import placement_file, track_module
from instances.errors import InputError
from instances.files.columns import Ints, require_number
from instances.files.jsonfile import read_json
from instances.graph import strong_components
from instances.importers import Option
from instances.importers._tensors import Operation, Tensor, one_tensor_each
from instances.placement_file import Workload

TRACK = "pipeline"
OPTIONS: Mapping[str, Option] = {
    "stages": Option(int, "blocks to partition into (default: as many as the file has accelerators)"),
    "bandwidth": Option(float, "bytes per unit of time between blocks, for the memory to count (default: it does not)"),
    "part": Option(str, "nodes to take of a graph for training (default: whole)", "whole", ("whole", "forward")),
}


def read(path: Path, *, stages: int | None, bandwidth: float | None, part: str) -> Any:
    """The pipeline of a file, plain or gzip; InputError for a graph that is no pipeline."""
    pipeline = track_module(TRACK)
    columns = as_pipeline(read_json(path), str(path), bandwidth, forward_only=part == "forward")
    return pipeline.parse({"format": pipeline.FORMAT, **columns}, str(path), stages)


def as_pipeline(
    document: Any, source: str, bandwidth: float | None = None, *, forward_only: bool = False
) -> dict[str, Any]:
    """Convert a placement document to a ``pipeline`` document, without the key ``format``.

    ``bandwidth`` is in bytes a unit of time; None leaves sizes of tensors in units of time, and memory unlimited.
    Raises InputError with the place of what is wrong, or cannot be said as a pipeline.
    """
    unit = 1.0 if bandwidth is None else require_number(bandwidth, source, "--bandwidth")
    workload = Workload(**placement_file.read(document, source))
    kept = ~workload.backward if forward_only else np.ones(workload.nodes, dtype=bool)
    _require_pipeline(workload, np.flatnonzero(kept))
    return {
        "name": workload.name,
        "stages": workload.accelerators,
        "bandwidth": unit,
        "memory": None if bandwidth is None else workload.memory,
        **one_tensor_each(_operations(workload, np.flatnonzero(kept), unit)),
    }


def _require_pipeline(workload: Workload, kept: Ints) -> None:
    """InputError if there are backward or unsupported nodes."""
    backward = kept[workload.backward[kept]]
    if len(backward):
        expected = "expected a graph for inference, or `shardmark import placement --part forward`"
        place = f"nodes[{backward[0]}].isBackwardNode"
        raise InputError(workload.source, place, f"{expected}, found {len(backward)} backward nodes")
    for v in kept[~workload.supported[kept]][:1]:
        expected = "expected a node that accelerators support, a pipeline has no CPUs"
        raise InputError(workload.source, f"nodes[{v}].supportedOnFpga", expected)


def _operations(workload: Workload, kept: Ints, bandwidth: float) -> list[Operation]:
    """One operation for all nodes that must be together, in the order of the first nodes of each."""
    group = _groups(workload, kept)
    made = [Operation("", 0.0, 0.0) for _ in range(len(set(group.values())))]
    tensors = {}
    for v in kept.tolist():
        name, operation = workload.node_names[v], made[group[v]]
        tensors[v] = Tensor(name, float(workload.transfer[v]) * bandwidth)
        operation.name += f"+{name}" if operation.name else name
        operation.work += float(workload.accelerator_time[v])
        operation.params += float(workload.size[v])
        operation.tensors.append(tensors[v])
    tails, heads = workload.graph.tail.tolist(), workload.graph.head.tolist()
    for tail, head, artificial in zip(tails, heads, workload.artificial.tolist(), strict=True):
        if tail in group and head in group and group[tail] != group[head]:
            (made[group[tail]].followers if artificial else tensors[tail].readers).append(group[head])
    return made


def _groups(workload: Workload, kept: Ints) -> dict[int, int]:
    """A number for each node, 0, 1, ...: the same for those of a colour, and for what is on a cycle of such groups."""
    inside = np.zeros(workload.nodes, dtype=bool)
    inside[kept] = True
    tail, head = workload.graph.tail, workload.graph.head
    both = inside[tail] & inside[head]
    component = strong_components(workload.nodes, workload.unit[tail[both]], workload.unit[head[both]])
    number: dict[int, int] = {}
    return {v: number.setdefault(component[workload.unit[v]], len(number)) for v in kept.tolist()}
