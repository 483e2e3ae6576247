"""Documents of the placement track as pipeline documents; `shardmark import placement --help` lists the differences."""

from __future__ import annotations

from typing import Any

import numpy as np

from shardmark.instances.errors import InputError
from shardmark.instances.files import placement as placement_file
from shardmark.instances.files.columns import Ints, require_number
from shardmark.instances.files.placement import Workload
from shardmark.instances.graph import strong_components
from shardmark.instances.split_multi_output import Operation, Tensor, one_tensor_each


def as_pipeline(
    document: Any, source: str, bandwidth: float | None = None, *, forward_only: bool = False
) -> dict[str, Any]:
    """Convert a placement document to a ``pipeline`` document, without the key ``format``.

    ``bandwidth``, in bytes per unit of time; None leaves tensor sizes in units of time and memory unlimited. Raises
    InputError for a defect, or for a graph that has no pipeline.
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
        expected = "expected a node that accelerators support, as a pipeline has no CPUs"
        raise InputError(workload.source, f"nodes[{v}].supportedOnFpga", expected)


def _operations(workload: Workload, kept: Ints, bandwidth: float) -> list[Operation]:
    """Return one operation per group of nodes that must stay together, in order of their first nodes."""
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
    """Number the groups of nodes of one colour, joined if they lie on a cycle, in order of their first nodes."""
    inside = np.zeros(workload.nodes, dtype=bool)
    inside[kept] = True
    tail, head = workload.graph.tail, workload.graph.head
    both = inside[tail] & inside[head]
    component = strong_components(workload.nodes, workload.unit[tail[both]], workload.unit[head[both]])
    number: dict[int, int] = {}
    return {v: number.setdefault(component[workload.unit[v]], len(number)) for v in kept.tolist()}
