"""Depth-first search: vertices choose a device when they are visited."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from shardmark.instances.files.columns import Floats, Ints
from shardmark.instances.graph import Graph
from shardmark.instances.scheduling import Instance
from shardmark.solvers.scheduling.heuristics.local import partitioner
from shardmark.solvers.scheduling.heuristics.partition import Partition
from shardmark.solvers.scheduling.heuristics.ranks import total_rank
from shardmark.solvers.scheduling.heuristics.scores import Scores, any_magnitude


@partitioner("dfs", "Mayer et al. 2017, Section 3.3.2")
@any_magnitude
def dfs(instance: Instance, rng: np.random.Generator) -> Ints:
    """Visit vertices depth first; assign each to the device with the least traffic x execution time: Equation (11).

    Equation (11) ignores the load of a device. So without memory limits and restrictions everything goes to the fastest
    device, for which both factors are least. The paper does not say which source or successor comes next: here that of
    greatest total rank.
    """
    partition = Partition(instance)
    scores = Scores(instance, partition)
    for v in depth_first(instance.graph, total_rank(instance.graph, instance.complexity)):
        if partition.device[v] < 0:
            devices = partition.choices(v)
            best = int(devices[np.argmin(scores.traffic(v, devices) * scores.execution_time[devices])])
            partition.assign(v, best)
    return partition.device


def depth_first(graph: Graph, rank: Floats) -> Iterator[int]:
    """All vertices depth first from the sources; sources and successors by decreasing rank."""
    waiting = np.flatnonzero(np.diff(graph.in_csr[0]) == 0)
    stack = waiting[np.argsort(rank[waiting], kind="stable")].tolist()
    seen = [False] * graph.nodes
    while stack:
        v = stack.pop()
        if not seen[v]:
            seen[v] = True
            yield v
            then = graph.successors(v)
            stack += then[np.argsort(rank[then], kind="stable")].tolist()
