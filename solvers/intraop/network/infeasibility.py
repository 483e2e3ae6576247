"""Explain infeasibility: the time step that lacks memory, or the first edge that forbids every assignment."""

from __future__ import annotations

import dataclasses
import time

import numpy as np

from shardmark.instances.intraop import Instance
from shardmark.solvers.intraop.network.memory import Timeline
from shardmark.solvers.intraop.network.model import build
from shardmark.solvers.intraop.network.reduction import reduce


def lack_of_memory(instance: Instance) -> str | None:
    """Name the first time step whose least memory exceeds the limit, in exact integers; None if there is none."""
    limit = instance.usage_limit
    if not instance.nodes or limit is None:
        return None
    least = np.minimum.reduceat(instance.usage, instance.strategy_start[:-1]).tolist()
    live = np.flatnonzero(instance.end > instance.begin).tolist()
    changes = [(int(instance.begin[v]), 1, least[v]) for v in live] + [
        (int(instance.end[v]), 0, -least[v]) for v in live
    ]
    in_use, overfull = 0, None
    for step, _, change in sorted(changes):  # at a step, ends come before beginnings
        in_use += change
        if in_use > limit:
            overfull = step
            break
    if overfull is None:
        return None
    total = sum(least[v] for v in live if instance.begin[v] <= overfull < instance.end[v])
    return (
        f"time step {overfull}: expected a limit of {total} or more, the memory of the most frugal strategies, "
        f"found {limit}"
    )


def contradiction(instance: Instance, timeline: Timeline, until: float) -> str:
    """Name the first edge such that every fitting assignment has an entry of 10^17 or more in it or in an earlier edge.

    If propagation alone does not find that edge, or not by the time ``until``, the sentence is about all edges.
    """
    nothing_else = "every assignment that fits into memory has an entry of 10^17 or more"
    if _possible(instance, timeline):
        return f"{nothing_else}, as a complete search shows"
    few, many = -1, instance.edges  # numbers of edges known to leave an assignment, and none
    while many - few > 1 and time.monotonic() < until:
        middle = (few + many) // 2
        if _possible(_with_edges(instance, middle), timeline):
            few = middle
        else:
            many = middle
    if many - few > 1:
        return f"{nothing_else}, as propagation shows; time was too short to find the first edge that leaves nothing"
    if not many:
        return "nodes.costs: expected a strategy that fits into memory and costs less than 10^17 for every node"
    return (
        f"edges.costs[{many - 1}]: expected a combination of strategies that fits, with entries below 10^17 here and "
        "in all edges before this one"
    )


def _possible(instance: Instance, timeline: Timeline) -> bool:
    """True if propagation leaves every node a strategy."""
    return reduce(build(instance, timeline.never_fits())) is not None


def _with_edges(instance: Instance, count: int) -> Instance:
    """The instance with its first ``count`` edges only."""
    scope, table = instance.scope_start[: count + 1], instance.table_start[: count + 1]
    return dataclasses.replace(
        instance,
        scope_start=scope,
        scope=instance.scope[: scope[-1]],
        table_start=table,
        table=instance.table[: table[-1]],
    )
