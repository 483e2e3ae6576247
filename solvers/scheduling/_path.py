"""The partition around the critical path."""

from __future__ import annotations

import numpy as np

from instances.columns import Ints
from instances.scheduling import Instance
from solvers.scheduling._partition import Partition
from solvers.scheduling._ranks import longest_before, total_rank


def around_the_path(instance: Instance) -> Ints:
    """Devices of vertices, shape (n,): the longest path on the fastest ones, others where Equation (7) is least.

    The paper does not say in which order these are assigned: here those of greatest total rank come first.
    """
    partition = Partition(instance)
    for v in longest_path(instance):
        if partition.device[v] < 0:
            choices = partition.choices(v)
            partition.assign(v, int(choices[np.argmax(instance.speed[choices])]))
    for v in np.argsort(-total_rank(instance.graph, instance.complexity), kind="stable").tolist():
        if partition.device[v] < 0:
            choices = partition.choices(v)
            work = partition.work[instance.unit[v]] / instance.speed[choices]
            partition.assign(v, int(choices[np.argmin(partition.load[choices] + work)]))
    return partition.device


def longest_path(instance: Instance) -> list[int]:
    """The vertices of a path of greatest complexity, from its sink back to its source."""
    rank = longest_before(instance.graph, instance.complexity)
    sinks = np.flatnonzero(np.diff(instance.graph.out_csr[0]) == 0)
    path = [int(sinks[np.argmax(rank[sinks])])] if len(sinks) else []
    while path and len(before := instance.graph.predecessors(path[-1])):
        path.append(int(before[np.argmax(rank[before])]))
    return path
