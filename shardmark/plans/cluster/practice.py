"""What people do today with a cluster, as solutions of the same problem: their cost, or the memory that they lack."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from shardmark.harness.verify import verify
from shardmark.instances.files.columns import Floats, Ints
from shardmark.instances.hybrid import Instance
from shardmark.plans.cluster.configurations import Costs
from shardmark.plans.cluster.machines.memory import lacking_bytes
from shardmark.plans.cluster.problem import LEAN

#: Relative error of sums of floating-point numbers, generously.
ROUNDING = 1e-9


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
        "data parallelism alone": iter([(1, _replicas(instance, 1, 1), 1)]),
        "tensor parallelism in a machine, a pipeline between": (
            (stages, _replicas(instance, stages, widest), widest)
            for stages in range(1, machines + 1)
            if machines % stages == 0
        ),
    }
    found = (best_of(instance, costs, name, choices) for name, choices in customs.items())
    return [practice for practice in found if practice is not None]


def _grid(instance: Instance, degrees: list[int]) -> Iterator[tuple[int, int, int]]:
    """Stages, replicas and degree, equal everywhere, that use as many devices as they can."""
    for degree in degrees:
        for stages in range(1, min(instance.nodes, instance.devices // degree) + 1):
            yield stages, _replicas(instance, stages, degree), degree


def _replicas(instance: Instance, stages: int, degree: int) -> int:
    """The most replicas that equal stages can have: of those together, a batch has a microbatch for each."""
    most = min(instance.devices // (degree * stages), instance.batch // stages)
    return next((d for d in range(most, 0, -1) if instance.batch % d == 0), 0)


def _cost(instance: Instance, solution: Mapping[str, Any]) -> float | None:
    return verify(instance, solution).cost


def best_of(
    instance: Instance,
    costs: Sequence[Sequence[Costs]],
    name: str,
    choices: Iterator[tuple[int, int, int]],
    price: Callable[[Instance, Mapping[str, Any]], float | None] = _cost,
) -> Practice | None:
    """The best of these stages, replicas and degrees by ``price``, or the one that lacks least memory; None of none.

    The price of a layout is at least the instance's objective.
    """
    best: Practice | None = None
    menus: dict[tuple[int, str], Ints | None] = {}
    for stages, replicas, degree in choices:
        if not 1 <= replicas * stages <= instance.batch or stages > instance.nodes:
            continue
        stage = np.empty(instance.nodes, dtype=np.int64)
        stage[instance.graph.topological_order] = _dealt(instance.nodes, stages)
        for kind in instance.kinds:
            if (degree, kind) not in menus:
                menus[degree, kind] = _chosen(instance, degree, kind)
            chosen = menus[degree, kind]
            if chosen is None or (best is not None and _rank(best) <= _at_best(instance, stage, chosen, replicas)):
                continue
            one = judged(instance, costs, name, _solution(instance, stage, chosen, replicas, degree), price)
            if best is None or _rank(one) < _rank(best):
                best = one
    return best


def _rank(practice: Practice) -> tuple[bool, float]:
    return practice.cost is None, practice.lacking if practice.cost is None else practice.cost


def _chosen(instance: Instance, degree: int, kind: str) -> Ints | None:
    """The configuration of each node in a degree: of a kind, or else of the same with the other sharding, shape (n,).

    None if a node has no such degree.
    """
    found = []
    for v in range(instance.nodes):
        menu = [c for c in range(instance.start[v], instance.start[v + 1]) if instance.degree[c] == degree]
        names = [instance.kinds[instance.kind[c]] for c in menu]
        if not names:
            return None
        found.append(menu[names.index(kind if kind in names else kind.removesuffix(LEAN))])
    return np.array(found, dtype=np.int64)


def _at_best(instance: Instance, stage: Ints, chosen: Ints, replicas: int) -> tuple[bool, float]:
    """A rank that equal stages cannot beat: without transfers, and without memory for blocks while they run."""

    def sums(column: Floats) -> Floats:
        return np.bincount(stage, weights=column[chosen]).astype(np.float64)

    time, count = sums(instance.time), int(stage.max()) + 1
    in_flight = np.arange(count, 0, -1)
    held = sums(instance.fixed) + sums(instance.shared) / replicas + sums(instance.stashed) * in_flight
    lacking = float(held.max()) - instance.room
    if lacking > 0:
        return True, lacking * (1 - ROUNDING)
    step = float(time.sum() + (instance.batch / replicas - 1) * time.max())
    return False, (step if instance.objective == "step" else float(time.max()) / replicas) * (1 - ROUNDING)


def _solution(instance: Instance, stage: Ints, chosen: Ints, replicas: int, degree: int) -> dict[str, Any]:
    stages = int(stage.max()) + 1
    return {
        "stage": stage.tolist(),
        "configuration": [instance.kinds[kind] for kind in instance.kind[chosen].tolist()],
        "data_parallel": [replicas] * stages,
        "tensor_parallel": [degree] * stages,
    }


def _dealt(nodes: int, stages: int) -> Ints:
    """The stage of every node in order: equally many, where the first and the last node join the stage beside them."""
    if nodes < stages + 2:
        return np.arange(nodes) * stages // nodes
    return np.concatenate([[0], np.arange(nodes - 2) * stages // (nodes - 2), [stages - 1]])


def judged(
    instance: Instance,
    costs: Sequence[Sequence[Costs]],
    name: str,
    solution: Mapping[str, Any],
    price: Callable[[Instance, Mapping[str, Any]], float | None] = _cost,
) -> Practice:
    """A layout with its cost by ``price``, or with the memory that it lacks."""
    lacking = max(lacking_bytes(instance, solution, costs), 0.0)
    layout = f"{len(solution['data_parallel'])} x {solution['data_parallel'][0]} x {solution['tensor_parallel'][0]}"
    cost = price(instance, solution)
    return Practice(name, None if lacking or cost is None else cost, lacking, layout, solution)
