"""What people do today with a cluster, as solutions of the same problem: their cost, or the memory that they lack."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from shardmark.harness.verify import verify
from shardmark.instances.files.columns import Ints
from shardmark.instances.hybrid import Instance
from shardmark.plans.cluster.configurations import Costs
from shardmark.plans.cluster.memory import lacking_bytes


@dataclass(frozen=True)
class Practice:
    """A customary layout.

    ``name``      in words
    ``cost``      seconds, None if it does not fit
    ``lacking``   bytes per device that it needs beyond the memory, 0 if it fits
    ``layout``    stages, replicas and devices of a replica in words; ``solution`` the same for the instance
    """

    name: str
    cost: float | None
    lacking: float
    layout: str
    solution: Mapping[str, Any] = field(repr=False)


def practices(instance: Instance, costs: Sequence[Sequence[Costs]]) -> list[Practice]:
    """The best layout of each custom, or the one that lacks least memory, if the cluster has one."""
    machine = instance.machine or instance.devices
    degrees = sorted(set(instance.degree.tolist()))
    widest = max(degree for degree in degrees if degree <= machine)
    machines = instance.devices // machine
    customs: dict[str, Iterator[tuple[int, int, int]]] = {
        "equal layers, the best equal degrees": _grid(instance, degrees),
        "data parallelism alone": iter([(1, _divisor(instance.batch, instance.devices), 1)]),
        "tensor parallelism in a machine, a pipeline between": (
            (stages, _divisor(instance.batch, instance.devices // (widest * stages)), widest)
            for stages in range(1, machines + 1)
            if machines % stages == 0
        ),
    }
    found = (_best(instance, costs, name, choices) for name, choices in customs.items())
    return [practice for practice in found if practice is not None]


def _grid(instance: Instance, degrees: list[int]) -> Iterator[tuple[int, int, int]]:
    """Stages, replicas and degree, equal everywhere, that use as many devices as they can."""
    for degree in degrees:
        for stages in range(1, min(instance.nodes, instance.devices // degree) + 1):
            yield stages, _divisor(instance.batch, instance.devices // (degree * stages)), degree


def _divisor(batch: int, most: int) -> int:
    """The greatest divisor of a batch that is at most ``most``."""
    return next((d for d in range(min(batch, most), 0, -1) if batch % d == 0), 0)


def _best(
    instance: Instance, costs: Sequence[Sequence[Costs]], name: str, choices: Iterator[tuple[int, int, int]]
) -> Practice | None:
    best: Practice | None = None
    for stages, replicas, degree in choices:
        for kind in instance.kinds:
            solution = _solution(instance, stages, replicas, degree, kind)
            if solution is None or replicas * stages > instance.batch:
                continue
            one = _judged(instance, costs, name, solution)
            if best is None or _rank(one) < _rank(best):
                best = one
    return best


def _rank(practice: Practice) -> tuple[bool, float]:
    return practice.cost is None, practice.lacking if practice.cost is None else practice.cost


def _solution(instance: Instance, stages: int, replicas: int, degree: int, kind: str) -> dict[str, Any] | None:
    """Equal runs of blocks; None if a block has no such degree. Blocks at the ends join the runs of equal ones."""
    if stages > instance.nodes or replicas < 1:
        return None
    names = {}
    for v in range(instance.nodes):
        menu = range(instance.start[v], instance.start[v + 1])
        kinds = [instance.kinds[instance.kind[c]] for c in menu if instance.degree[c] == degree]
        if not kinds:
            return None
        names[v] = kind if kind in kinds else kinds[0]
    order = instance.graph.topological_order
    stage = np.empty(instance.nodes, dtype=np.int64)
    stage[order] = _dealt(instance.nodes, stages)
    return {
        "stage": stage.tolist(),
        "configuration": [names[v] for v in range(instance.nodes)],
        "data_parallel": [replicas] * stages,
        "tensor_parallel": [degree] * stages,
    }


def _dealt(nodes: int, stages: int) -> Ints:
    """The stage of every node in order: equally many, where the first and the last node join the stage beside them."""
    if nodes < stages + 2:
        return np.arange(nodes) * stages // nodes
    return np.concatenate([[0], np.arange(nodes - 2) * stages // (nodes - 2), [stages - 1]])


def _judged(instance: Instance, costs: Sequence[Sequence[Costs]], name: str, solution: Mapping[str, Any]) -> Practice:
    lacking = max(lacking_bytes(instance, solution, costs), 0.0)
    layout = f"{len(solution['data_parallel'])} x {solution['data_parallel'][0]} x {solution['tensor_parallel'][0]}"
    cost = verify(instance, solution).cost
    return Practice(name, None if lacking or cost is None else cost, lacking, layout, solution)
