"""NAME: say in one line what the method is."""

from __future__ import annotations

from typing import Any

import numpy as np

from shardmark import Declined, Run, solver
from shardmark.instances.hybrid import Instance


@solver(track="hybrid", source="where the method is described")
def name(instance: Instance, run: Run) -> None:
    """Say in one line what it does; tables show it."""
    best = np.inf
    for replicas in instance.replicas.tolist():  # the data-parallel degrees that exist, ascending
        for degree in np.unique(instance.degree).tolist():
            plan = one_stage(instance, replicas, degree)
            if plan is not None and (cost := instance.cost(plan)) < best:  # exact, but slow: compute costs yourself
                best = cost
                run.report(plan, cost)  # report every better solution, as it is found, until run.remaining() is 0
    if best == np.inf:
        raise Declined("the nodes do not fit into one stage")


def one_stage(instance: Instance, replicas: int, degree: int) -> dict[str, Any] | None:
    """Put all nodes into one stage, each with the configuration that needs least memory; None if it is not allowed."""
    machine = instance.machine or instance.devices
    if replicas * degree > instance.devices or degree > machine:
        return None
    need = instance.stashed + instance.fixed + instance.shared / replicas  # one microbatch is in flight
    chosen = []
    for v in range(instance.nodes):
        menu = [c for c in range(instance.start[v], instance.start[v + 1]) if instance.degree[c] == degree]
        if not menu:
            return None
        chosen.append(min(menu, key=lambda c: need[c]))
    if need[chosen].sum() > instance.memory:
        return None
    return {
        "stage": [0] * instance.nodes,
        "configuration": [instance.kinds[instance.kind[c]] for c in chosen],
        "data_parallel": [replicas],
        "tensor_parallel": [degree],
    }
