"""Least latency by dynamic programming over ideals, each with its non-dominated end times."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from shardmark.instances.files.columns import Floats, Ints
from shardmark.instances.graph import Graph, Index
from shardmark.instances.placement import Instance
from shardmark.instances.rounding import safely
from shardmark.solvers._ideals import IdealEnumerator, Ideals, MemoryBudget, listed
from shardmark.solvers.placement.ideals.blocks import edges_between
from shardmark.solvers.placement.kernels.ideals import ScheduleProblem, schedule_dp

#: Fraction by which the first limit on the latency exceeds the bound; it doubles for each further limit.
FIRST = 0.002
#: The greatest limit is tried next if it is within this many times the fraction: that takes little longer.
NEAR = 4
#: Share of the memory for ideals.
IDEALS_SHARE = 0.2
#: Share of the memory for end times while their tables grow.
TIMES_SHARE = 0.2
#: Bytes of an ideal, and of a link.
IDEAL_BYTES, LINK_BYTES = 40, 24


@dataclass(frozen=True, eq=False)
class Schedules:
    """Schedules as chains of ideals; ``stop``, shape (1,), ends a search once it is 1.

    If ``one``: exactly the schedules of an inference graph with one subgraph per accelerator. Else a superset of all
    schedules of any instance: each subgraph has its own accelerator, which only has to hold its units.
    """

    instance: Instance
    stop: Index
    one: bool

    @cached_property
    def item(self) -> Ints:
        """Shape (n,): item of each node; some best schedule has each item in one task. Edges lead to no lesser item."""
        number = np.unique(_roots(self.instance, self.one), return_inverse=True)[1].reshape(-1)
        return np.argsort(self._graph_of(number).topological_order)[number]

    @cached_property
    def graph(self) -> Graph:
        """The items."""
        return self._graph_of(self.item)

    def _graph_of(self, item: Ints) -> Graph:
        ends = edges_between(item, self.instance.graph.tail, self.instance.graph.head)
        return Graph(int(item.max(initial=-1)) + 1, *ends)

    @cached_property
    def tasks(self) -> ScheduleProblem:
        """The scheduling problem of the items."""
        instance, count = self.instance, self.graph.nodes
        fast, slow = (np.isfinite(times)[instance.unit] for times in instance.unit_times())
        accelerator, cpu = (
            np.bincount(self.item, weights=time, minlength=count).astype(np.float64)
            for time in (instance.accelerator_time, instance.cpu_time)
        )
        unit = np.zeros(count, dtype=np.int32)
        unit[self.item] = instance.unit
        accelerator[self.item[~fast]], cpu[self.item[~slow]] = np.inf, np.inf
        return ScheduleProblem(
            accelerators=min(instance.accelerators, count) if self.one else -1,
            memory=instance.room,
            accelerator_time=accelerator,
            cpu_time=cpu,
            tail=self._tail(np.minimum(accelerator, cpu)),
            unit=unit,
            size=instance.of_units(instance.size),
            transfer=instance.transfer[self._tensors[:, 1][self._first]],
            made=np.searchsorted(self._tensors[:, 0][self._first], np.arange(count + 1)).astype(np.int64),
            reader_start=np.append(self._first, len(self._tensors)).astype(np.int64),
            reader=self._tensors[:, 2].astype(np.int32),
        )

    def _tail(self, least: Floats) -> Floats:
        tail = least.copy()
        for v in self.graph.topological_order[::-1].tolist():
            tail[v] += tail[self.graph.successors(v)].max(initial=0.0)
        return tail

    @cached_property
    def _tensors(self) -> Ints:
        """Shape (reads, 3): items that make tensors, ascending, nodes that make them, and items that read them."""
        instance = self.instance
        real = ~instance.artificial & (instance.transfer[instance.graph.tail] > 0)
        tail, head = instance.graph.tail[real].astype(np.int64), self.item[instance.graph.head[real]]
        reads: Ints = np.unique(np.column_stack([self.item[tail], tail, head])[self.item[tail] != head], axis=0)
        return reads

    @cached_property
    def _first(self) -> Ints:
        """Index of the first read of each tensor."""
        return np.flatnonzero(np.diff(self._tensors[:, 1], prepend=-1)).astype(np.int64)

    def ideals(self, memory: float) -> Ideals:
        """The ideals of the items; Declined if they exceed ``memory`` MiB."""
        room = MemoryBudget(memory, IDEALS_SHARE, IDEAL_BYTES + LINK_BYTES, LINK_BYTES)
        return listed(IdealEnumerator(self.graph, self.stop), self.stop, room, "search")

    def bounds(self, memory: float, lowest: float, upper: float) -> Iterator[tuple[float, Ints | None]]:
        """Yield rising bounds on the latency until time is up or the bound is the least latency.

        The last bound comes with a schedule if one ends before ``upper``: the set of each node, shape (n,), -1 on CPUs.
        Declined if there are too many ideals.
        """
        ideals, share = self.ideals(memory), FIRST
        most = int(TIMES_SHARE * memory * 2**20)
        while not self.stop[0]:
            limit = lowest * (1 + share) if upper > lowest * (1 + NEAR * share) > 0 else upper
            try:
                end, chosen = schedule_dp(self.graph, self.tasks, ideals, limit, most, self.stop)
            except MemoryError:
                return
            found = math.isfinite(end)
            if not found and (math.isnan(end) or math.isinf(limit)):
                return
            least = safely(min(end, limit), self.instance.nodes + self.instance.edges)
            yield least, chosen[self.item].astype(np.int64) if found else None
            if found or limit == upper:
                return
            share *= 2


def _roots(instance: Instance, one: bool) -> list[int]:
    """For each node, a representative of its item.

    A node without CPU time joins the task of a neighbour in its unit: its only reader if it reads nothing, or the only
    node that it reads. On CPUs it then starts or ends together with that neighbour. Unless accelerators have ``one``
    subgraph, it also must take no time there, and make no tensor that others pay for.
    """
    graph, unit, of = instance.graph, instance.unit.tolist(), list(range(instance.nodes))

    def root(v: int) -> int:
        while of[v] != v:
            v = of[v]
        return v

    for v in np.flatnonzero((instance.cpu_time == 0) & (one | (instance.accelerator_time == 0))).tolist():
        before, after = graph.predecessors(v).tolist(), graph.successors(v).tolist()
        if not before and len(after) == 1 and unit[after[0]] == unit[v]:
            of[root(v)] = root(after[0])
        elif len(before) == 1 and unit[before[0]] == unit[v] and (one or not instance.transfer[v]):
            of[root(v)] = root(before[0])
    return [root(v) for v in of]
