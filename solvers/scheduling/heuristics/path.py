"""The partition around the critical path."""

from __future__ import annotations

import numpy as np

from shardmark.instances.files.columns import Ints
from shardmark.instances.scheduling import Instance
from shardmark.solvers.scheduling.heuristics.partition import Partition
from shardmark.solvers.scheduling.heuristics.ranks import longest_before, total_rank


def around_the_path(instance: Instance) -> Ints:
    """Devices of vertices, shape (n,): the longest path on the fastest device, others by the least Equation (7).

    "The fastest feasible device" is the fastest one that the whole path may use, with room for all that it reads, even
    if parts of the path could use faster devices: then no tensor of the path moves. If there is none, each vertex of
    the path, from the sink back, goes to the fastest device that it may use and that still has room.

    Equation (7) is the computing time assigned to a device so far, including the path, plus c_k / s_i; c_k is for the
    vertex's whole colocation group, which moves together. The paper does not give the order of these vertices: here
    those of greatest total rank come first, as Section 3.3 prefers "vertices on critical paths to be assigned first".
    """
    partition = Partition(instance)
    path = longest_path(instance)
    whole = partition.choices_of_all(path)
    for v in path:
        if partition.device[v] < 0:
            choices = whole if len(whole) else partition.choices(v)
            partition.assign(v, int(choices[np.argmax(instance.speed[choices])]))
    for v in np.argsort(-total_rank(instance.graph, instance.complexity), kind="stable").tolist():
        if partition.device[v] < 0:
            choices = partition.choices(v)
            work = partition.work[instance.unit[v]] / instance.speed[choices]
            partition.assign(v, int(choices[np.argmin(partition.load[choices] + work)]))
    return partition.device


def longest_path(instance: Instance) -> list[int]:
    """The vertices of a path of greatest complexity, from its sink back to its source: Section 3.2.2, steps 1 to 4.

    The paper follows all predecessors and chooses the longest path; that is the same as following the predecessor of
    greatest downward rank, Equation (6), plus own complexity, the first one if equal. The sink is chosen in the same
    way, as the path has "the longest computation time from source to sink".
    """
    rank = longest_before(instance.graph, instance.complexity)
    sinks = np.flatnonzero(np.diff(instance.graph.out_csr[0]) == 0)
    path = [int(sinks[np.argmax(rank[sinks])])] if len(sinks) else []
    while path and len(before := instance.graph.predecessors(path[-1])):
        path.append(int(before[np.argmax(rank[before])]))
    return path
