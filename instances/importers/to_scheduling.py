"""Instances of other tracks as instances of scheduling.

Node i of the file is vertex i, and each edge has its own tensor: a tensor with several readers is sent to each. The
cost is the time of one sample instead of the load of the slowest device, so that processing several samples at once
gains nothing. FILE may be an id from ``shardmark list instances``.

Pipeline: complexities are work, and the size of an edge is that of the tail's output. There are as many devices of
speed 1 as stages, with the file's bandwidth between any two. Parameters and memory are dropped, as the memory of a
pipeline is for parameters, and that of a schedule for waiting tensors.

Placement: accelerators have speed 1, and complexities are times on an accelerator. The CPUs get the speed at which all
supported nodes together take the file's total time on CPUs; a single node may take more or less. Nodes that
accelerators do not support are restricted to CPUs and take exactly as long as the file says. Sizes are times of
transfers: a tensor takes its size between an accelerator and a CPU, twice that between accelerators (through a CPU's
memory), and almost nothing between CPUs. Colour classes are colocated; artificial edges have size 0. Sizes of nodes,
memory and all options are dropped.

Intraop: a device stands for a whole mesh of chips, as all chips work on each node together. A node takes its cheapest
strategy, the first one among ties; the strategy's cost is the complexity, and its memory is the size of the node's
output. The node of an edge whose interval begins first sends to all others; ties go to the smallest number. Costs of
edges, all other strategies, intervals and the memory limit are dropped.

With ``--devices``, devices are random, as in Section 5.1 of Mayer et al. (DIDL 2017); with ``--machine`` they come from
a file. An instance of intraop needs one of these options; a pipeline then keeps only its weights; a placement is
refused, as it has two kinds of devices.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from itertools import pairwise
from math import fsum, inf
from pathlib import Path
from typing import Any

import numpy as np

from shardmark.instances import catalog, load, pipeline, scheduling
from shardmark.instances.errors import InputError
from shardmark.instances.files.columns import plain
from shardmark.instances.files.jsonfile import collector_paused, read_json
from shardmark.instances.importers import Option
from shardmark.instances.importers._machines import MACHINE, MAX_DEVICES, SEED, Machine, machine_of, seeded

TRACK = "scheduling"
OPTIONS: Mapping[str, Option] = {
    "devices": Option(int, "number of random devices (default: the file's own devices)"),
    "machine": MACHINE,
    "seed": SEED,
}
#: Bandwidth between CPUs, relative to that between a CPU and an accelerator: transfers must take some time.
FAST = 1e9


def read(path: Path, *, devices: int | None, machine: Path | None, seed: int) -> scheduling.Instance:
    """Read a file, plain or gzip, or an id of the catalog, as a dataflow; InputError if the instance has none."""
    draws = seeded(seed)
    other = None if devices is None and machine is None else machine_of(machine, devices, draws)
    count = None if other is None else len(other["devices"]["speed"])
    return converted(_load(*catalog.resolve(os.fspath(path)), count), other)


def converted(found: Any, other: Machine | None = None) -> scheduling.Instance:
    """Return the dataflow of an instance of another track, on ``other`` devices if given, else on its own."""
    with collector_paused():
        if found.track == "pipeline":
            document = _of_pipeline(found, other)
        elif found.track == "placement" and other is None:
            document = _of_placement(found)
        elif found.track == "intraop" and other is not None:
            document = {**_of_intraop(found), **other}
        else:
            raise InputError(found.source, "", _expected(found.track))
        return scheduling.parse({"format": scheduling.FORMAT, "name": found.name, **document}, found.source)


def _load(path: Path, entry: catalog.Entry | None, stages: int | None) -> Any:
    """The instance of a file; a pipeline without a number of stages gets one per device."""
    if entry is not None:
        return load(path, entry.track, **entry.options)
    document = read_json(path)
    if not pipeline.recognises(document):
        return load(path)
    return pipeline.parse(document, str(path), stages if document.get("stages") is None else None)


def _expected(track: str) -> str:
    if track == "placement":
        return "expected no other devices: the times of a placement are for its own accelerators and CPUs"
    if track == "intraop":
        return "expected `--devices N` or `--machine FILE` for an instance of intraop, which names no devices"
    return f"expected an instance of another track, found {track}"


def _of_pipeline(found: Any, other: Machine | None) -> dict[str, Any]:
    size = found.output_size[found.graph.tail]
    nodes = {"name": list(found.node_names), "complexity": plain(found.work)}
    return {"nodes": nodes, "edges": _edges(found.graph, size), **(other or _stages(found))}


def _stages(found: Any) -> Machine:
    """One device per stage, all equal."""
    if found.stages > MAX_DEVICES:
        raise InputError(
            found.source, "stages", f"expected at most {MAX_DEVICES}, one per device, found {found.stages}"
        )
    devices = {"name": [f"stage-{stage}" for stage in range(found.stages)], "speed": [1] * found.stages}
    return {"devices": devices, "bandwidth": found.bandwidth}


def _of_placement(found: Any) -> dict[str, Any]:
    k, cpus = found.accelerators, found.cpus
    if k + cpus > MAX_DEVICES:
        raise InputError(
            found.source, "maxFPGAs", f"expected at most {MAX_DEVICES} devices with maxCPUs, found {k + cpus}"
        )
    speed = _cpu_speed(found)
    complexity = np.where(found.supported, found.accelerator_time, found.cpu_time * speed)
    size = np.where(found.artificial, 0.0, found.transfer[found.graph.tail])
    accelerator = np.arange(k + cpus) < k
    links = np.where(accelerator[:, None] & accelerator, 0.5, np.where(accelerator[:, None] | accelerator, 1.0, FAST))
    rows: list[list[Any]] = [plain(row) for row in links]
    for device, row in enumerate(rows):
        row[device] = None
    on_cpu, members = list(range(k, k + cpus)), np.bincount(found.unit)
    nodes = {
        "name": list(found.node_names),
        "complexity": plain(complexity),
        "colocation": [unit if members[unit] > 1 else None for unit in found.unit.tolist()],
        "devices": [None if supported or not k else on_cpu for supported in found.supported.tolist()],
    }
    names = [f"accelerator-{d}" for d in range(k)] + [f"cpu-{d}" for d in range(cpus)]
    devices = {"name": names, "speed": [1] * k + [speed] * cpus}
    return {"nodes": nodes, "edges": _edges(found.graph, size), "devices": devices, "bandwidth": rows}


def _cpu_speed(found: Any) -> float:
    """Speed of a CPU relative to an accelerator; 1 if the times of supported nodes do not determine it."""
    both = found.accelerator_time, found.cpu_time
    on_accelerator, on_cpu = (fsum(column[found.supported].tolist()) for column in both)
    speed = on_accelerator / on_cpu if on_accelerator and on_cpu else 1.0
    if not 0 < speed < inf:
        expected = "expected total times on CPUs and on accelerators within a factor of 10^300"
        raise InputError(found.source, "nodes", f"{expected}, found sums of {on_cpu:g} and {on_accelerator:g}")
    return speed


def _of_intraop(found: Any) -> dict[str, Any]:
    start = found.strategy_start.tolist()
    cost, usage, begin = found.node_cost.tolist(), found.usage.tolist(), found.begin.tolist()
    chosen = [min(range(a, b), key=cost.__getitem__) for a, b in pairwise(start)]
    sent: dict[tuple[int, int], None] = {}
    scope = found.scope.tolist()
    for a, b in pairwise(found.scope_start.tolist()):
        first, *others = sorted(set(scope[a:b]), key=lambda v: (begin[v], v))
        sent.update(dict.fromkeys((first, other) for other in others))
    edges = [[u, v, usage[chosen[u]]] for u, v in sent]
    return {"nodes": {"complexity": [cost[strategy] for strategy in chosen]}, "edges": edges}


def _edges(graph: Any, size: Any) -> list[list[Any]]:
    return [list(edge) for edge in zip(graph.tail.tolist(), graph.head.tolist(), plain(size), strict=True)]
