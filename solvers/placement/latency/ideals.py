"""Least latency by dynamic programming over ideals, each with all sets of times that none is better than."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from instances.files.columns import Floats, Ints
from instances.graph import Graph, Index
from instances.placement import Instance
from instances.rounding import safely
from solvers.placement.ideals.dynamic_program import MemoryBudget, listed
from solvers.placement.kernels.ideals import IdealEnumerator, Ideals, ScheduleProblem, schedule_dp

#: Limits on the latency are above a bound by this fraction, at first; for each one after it that doubles.
FIRST = 0.002
#: So many times that fraction is near enough for the last limit, which takes not much longer.
NEAR = 4
#: Shares of the memory for ideals, for times while they grow, and bytes of an ideal and of a link.
IDEALS_SHARE, TIMES_SHARE, IDEAL_BYTES, LINK_BYTES = 0.2, 0.2, 40, 24


@dataclass(frozen=True, eq=False)
class Schedules:
    """Schedules as chains of ideals; ``stop``, shape (1,), ends a search once it is 1.

    If ``one``, they are all schedules of an inference graph with a subgraph an accelerator. Else there are more than
    all schedules of any instance: each subgraph has an accelerator of its own that only has to hold its units.
    """

    instance: Instance
    stop: Index
    one: bool

    @cached_property
    def item(self) -> Ints:
        """Shape (n,): number of each node's item, which some best schedule has in one task; edges lead upwards."""
        instance = self.instance
        root = _Roots(instance, self.one).of
        number = np.unique(root, return_inverse=True)[1].reshape(-1)
        pairs = _distinct(number, instance.graph.tail, instance.graph.head)
        order = Graph(int(number.max(initial=-1)) + 1, pairs[:, 0], pairs[:, 1]).topological_order
        rank = np.empty(len(order), dtype=np.int64)
        rank[order] = np.arange(len(order))
        return rank[number]

    @cached_property
    def graph(self) -> Graph:
        """The items."""
        pairs = _distinct(self.item, self.instance.graph.tail, self.instance.graph.head)
        return Graph(int(self.item.max(initial=-1)) + 1, pairs[:, 0], pairs[:, 1])

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
        """Shape (reads, 3): the items that make tensors, ascending, the nodes that do, and each item that reads one."""
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
        """The ideals of the items, within so many MiB; else Declined."""
        room = MemoryBudget(memory, IDEALS_SHARE, IDEAL_BYTES + LINK_BYTES, LINK_BYTES)
        return listed(IdealEnumerator(self.graph, self.stop), self.stop, room, "search")

    def bounds(self, memory: float, lowest: float, upper: float) -> Iterator[tuple[float, Ints | None]]:
        """Bounds on the latency, each greater than the one before, until the time ends or one is the least latency.

        With the last one goes a schedule, the set of each node, shape (n,), or -1 on CPUs, if it ends before ``upper``.
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


class _Roots:
    """Nodes put together, ``of`` has one of them for each: `Schedules.item` of two is the same.

    A node that takes no CPU time is in the task of its neighbour of the same unit if that is its only reader, and it
    reads nothing itself, or the only node that it reads. On CPUs it then ends when the neighbour does, or begins.
    Unless accelerators have ``one`` subgraph, it also must not take time there, nor make a tensor that others pay for.
    """

    def __init__(self, instance: Instance, one: bool) -> None:
        graph, unit = instance.graph, instance.unit.tolist()
        free = instance.cpu_time == 0
        self.of = list(range(instance.nodes))
        if not one:
            free &= instance.accelerator_time == 0
        for v in np.flatnonzero(free).tolist():
            before, after = graph.predecessors(v).tolist(), graph.successors(v).tolist()
            if not before and len(after) == 1 and unit[after[0]] == unit[v]:
                self._join(v, after[0])
            elif len(before) == 1 and unit[before[0]] == unit[v] and (one or not instance.transfer[v]):
                self._join(v, before[0])
        self.of = [self._root(v) for v in range(instance.nodes)]

    def _root(self, v: int) -> int:
        while self.of[v] != v:
            v = self.of[v]
        return v

    def _join(self, u: int, v: int) -> None:
        self.of[self._root(u)] = self._root(v)


def _distinct(number: Ints, tail: Ints | Index, head: Ints | Index) -> Ints:
    """Pairs of numbers at both ends of edges, each once, shape (pairs, 2), but for equal ones."""
    pairs = np.unique(np.column_stack([number[tail], number[head]]), axis=0)
    return pairs[pairs[:, 0] != pairs[:, 1]]
