"""The groups of a placement: devices, or stages of several devices, read from every form of a solution.

Definitions: "Efficient Algorithms for Device Placement of DNN Graph Operators", Section 3 (devices), Appendix H.2
(replicated stages) and H.3 (clusters).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shardmark.harness.verify import MOST_NAMED, misplaced
from shardmark.instances.files.columns import Floats, Ints, describe
from shardmark.instances.placement import Instance


@dataclass(frozen=True, eq=False)
class Groups:
    """Groups of nodes: devices, or stages with one device or more.

    ``of``            shape (n,), int64: the group of each node, 0, 1, ...; every group has nodes
    ``accelerator``   shape (g,), bool: whether it is on accelerators, else on CPUs
    ``replicas``      shape (g,), int64: number of its devices
    ``cluster``       shape (g,), int64: cluster of its accelerators; -1 for CPUs, which are near to all
    ``names``         name of each in sentences
    """

    of: Ints
    accelerator: NDArray[np.bool_]
    replicas: Ints
    cluster: Ints
    names: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.names)

    def sums(self, member: Ints, values: Floats) -> list[float]:
        """Correctly rounded sum of the values of each group's members; ``member`` holds the group of each value."""
        order = np.argsort(member, kind="stable")
        cuts = np.searchsorted(member[order], np.arange(len(self) + 1)).tolist()
        ordered = values[order].tolist()
        return [math.fsum(ordered[a:b]) for a, b in pairwise(cuts)]


def groups_of(instance: Instance, solution: Any) -> Groups | str:
    """Return the groups of a solution in any form, or why it has none."""
    latency = instance.objective == "latency"
    if isinstance(solution, dict) and "fpgas" in solution:
        solution = _from_published(instance, solution)
        if isinstance(solution, str):
            return solution
    if not isinstance(solution, dict):
        return _devices(instance, solution)
    if not latency and solution.keys() == {"stage", "replicas"}:
        return _stages(instance, solution["stage"], solution["replicas"])
    if {"device"} <= solution.keys() <= ({"device", "slot"} if latency else {"device"}):
        return _devices(instance, solution["device"])
    return _unknown_form(solution, latency=latency)


def _unknown_form(solution: dict[str, Any], *, latency: bool) -> str:
    """Return why an object with these keys is no solution."""
    if "slot" in solution and not latency:
        return "slot: expected this key only with the objective latency, found throughput"
    if solution and all(key.lstrip("-").isdigit() for key in solution):
        return "solution: expected a list whose i-th entry is the device of the file's i-th node, found ids"
    ours = "device and maybe slot" if latency else "device, with stage and replicas"
    expected = f"expected a list of devices in the order of the file's nodes, or an object with {ours},"
    found = ", ".join(map(repr, list(solution)[:MOST_NAMED])) + ", ..." * (len(solution) > MOST_NAMED)
    return f"solution: {expected} or with fpgas and cpus, found {found or 'no keys'}"


def _from_published(instance: Instance, solution: dict[str, Any]) -> list[int] | str:
    """Return the device of each node of a split as the paper's program writes it, or why it is malformed."""
    position = {int(identity): v for v, identity in enumerate(instance.ids.tolist())}
    device = [-1] * instance.nodes
    for key, first, most in (("fpgas", 0, instance.accelerators), ("cpus", instance.accelerators, instance.cpus)):
        entries = solution.get(key, [])
        if not isinstance(entries, list) or len(entries) > most:
            return f"{key}: expected a list of at most {most}, found {describe(entries)}"
        for i, entry in enumerate(entries):
            nodes = entry.get("nodes") if isinstance(entry, dict) else None
            if not isinstance(nodes, list):
                return f"{key}[{i}]: expected an object with a list of nodes, found {describe(entry)}"
            for j, identity in enumerate(nodes):
                v = position.get(identity, -1) if type(identity) is int else -1
                if v < 0 or device[v] >= 0:
                    expected = "the id of a node" if v < 0 else "every node once"
                    return f"{key}[{i}].nodes[{j}]: expected {expected}, found {describe(identity)}"
                device[v] = first + i
    of_unit = {int(instance.unit[v]): d for v, d in enumerate(device) if d >= 0}
    device = [of_unit.get(int(instance.unit[v]), -1) if d < 0 else d for v, d in enumerate(device)]
    lost = next((v for v, d in enumerate(device) if d < 0), None)
    return device if lost is None else f"fpgas: expected every node, but node {instance.ids[lost]} is missing"


def _devices(instance: Instance, device: Any) -> Groups | str:
    count = instance.accelerators + instance.cpus
    reason = misplaced(device, [count] * instance.nodes, "a device", "device")
    if reason:
        return reason
    numbers, of = np.unique(np.array(device, dtype=np.int64), return_inverse=True)
    kinds = np.where(numbers < instance.accelerators, "accelerator", "CPU").tolist()
    names = tuple(f"{kind} {number}" for kind, number in zip(kinds, numbers.tolist(), strict=True))
    ones = np.ones(len(numbers), dtype=np.int64)
    return Groups(of.reshape(-1), numbers < instance.accelerators, ones, _clusters(instance, numbers), names)


def _clusters(instance: Instance, devices: Ints) -> Ints:
    """Appendix H.3: the cluster of each device, -1 for CPUs."""
    number = np.zeros_like(devices) if instance.cluster is None else devices // instance.cluster
    return np.where(devices < instance.accelerators, number, -1)


def _stages(instance: Instance, stage: Any, replicas: Any) -> Groups | str:
    if not isinstance(replicas, list):
        return f"replicas: expected a list with the devices of each stage, found {describe(replicas)}"
    reason = misplaced(stage, [len(replicas)] * instance.nodes, "a stage", "stage")
    if reason:
        return reason
    count, taken = instance.accelerators + instance.cpus, set[int]()
    for i, devices in enumerate(replicas):
        if not isinstance(devices, list):
            return f"replicas[{i}]: expected a list of devices, found {describe(devices)}"
        reason = misplaced(devices, [count] * len(devices), "a device", f"replicas[{i}]")
        if reason:
            return reason
        if len({device < instance.accelerators for device in devices}) > 1:
            return f"replicas[{i}]: expected accelerators or CPUs, found both"
        if len(taken | set(devices)) < len(taken) + len(devices):
            return f"replicas[{i}]: expected every device once, found one twice"
        if len(devices) > 1 and instance.allreduce is None:
            return f"replicas[{i}]: expected one device, as there is no option allreduce, found {len(devices)}"
        taken |= set(devices)
    used, of = np.unique(np.array(stage, dtype=np.int64), return_inverse=True)
    idle = next((i for i in used.tolist() if not replicas[i]), None)
    if idle is not None:
        return f"replicas[{idle}]: expected at least one device, as the stage has nodes"
    first = np.array([replicas[i][0] for i in used.tolist()], dtype=np.int64)
    counts = np.array([len(replicas[i]) for i in used.tolist()], dtype=np.int64)
    names = tuple(f"stage {i}" for i in used.tolist())
    return Groups(of.reshape(-1), first < instance.accelerators, counts, _clusters(instance, first), names)
