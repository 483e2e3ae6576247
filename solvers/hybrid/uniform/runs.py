"""Costs of plans whose stages are runs of one topological order and all have the same degrees."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from shardmark.instances.files.columns import Floats, Ints
from shardmark.instances.hybrid import Instance
from shardmark.solvers.registry import Run


@dataclass(frozen=True, eq=False)
class Degree:
    """The configurations of one tensor-parallel degree that every node has.

    ``chosen``   shape (kinds, n): the configuration of each node in the order, by kind
    ``into``, ``out``   shape (kinds, m): seconds that an edge takes at its head and at its tail if it leaves the stage
    """

    t: int
    kinds: list[str]
    chosen: Ints
    into: Floats
    out: Floats


class Runs:
    """An instance in a topological order."""

    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        self.order = instance.graph.topological_order.astype(np.int64)
        self.position = np.empty(instance.nodes, dtype=np.int64)
        self.position[self.order] = np.arange(instance.nodes)

    @cached_property
    def degrees(self) -> list[Degree]:
        """The degrees that every node has, ascending, as far as devices and machines allow."""
        most = min(self.instance.devices, self.instance.machine or self.instance.devices)
        found = (self._degree(t) for t in np.unique(self.instance.degree).tolist() if t <= most)
        return [degree for degree in found if degree.kinds]

    def _degree(self, t: int) -> Degree:
        work = self.instance
        chosen, kinds = [], []
        for kind, name in enumerate(work.kinds):
            at = np.flatnonzero((work.degree == t) & (work.kind == kind))
            if len(at) == work.nodes:
                chosen.append(at)
                kinds.append(name)
        ends = [self._ends(row) for row in chosen]
        into, out = (np.array([pair[side] for pair in ends]) for side in (0, 1))
        return Degree(t, kinds, np.array([row[self.order] for row in chosen], dtype=np.int64), into, out)

    def _ends(self, chosen: Ints) -> tuple[Floats, Floats]:
        """Seconds that each edge takes at its head and at its tail."""
        work = self.instance
        first, edge = work.incident
        node = np.repeat(np.arange(work.nodes), np.diff(first))
        sync = work.sync[work.sync_start[chosen][node] + np.arange(len(edge)) - first[:-1][node]]
        enters = work.graph.head[edge] == node
        found = np.zeros((2, work.edges))
        found[0][edge[enters]], found[1][edge[~enters]] = sync[enters], sync[~enters]
        into, out = 2 * (work.communicated + found) / work.bandwidth
        return into, out

    def replicas(self, t: int, stages: int) -> Iterable[int]:
        """Data-parallel degrees that so many stages of degree t can all have, descending."""
        most = min(self.instance.devices // (t * stages), self.instance.batch // stages)
        return (d for d in reversed(self.instance.replicas.tolist()) if d <= most)

    def costs(self, degree: Degree, cut: Sequence[int], kind: Ints) -> Costs:
        """The costs of stages ``cut[i]:cut[i + 1]`` of the order; their nodes have the configuration ``kind[i]``."""
        work, starts = self.instance, np.array(cut[:-1])
        stage = np.repeat(np.arange(len(starts)), np.diff(cut))
        chosen = degree.chosen[kind[stage], np.arange(work.nodes)]
        tail, head = (stage[self.position[ends]] for ends in (work.graph.tail, work.graph.head))
        moved = np.zeros(len(starts))
        crossing = tail != head
        np.add.at(moved, head[crossing], degree.into[kind[head], np.arange(work.edges)][crossing])
        np.add.at(moved, tail[crossing], degree.out[kind[tail], np.arange(work.edges)][crossing])
        columns = (work.time, work.gathered, work.parameters, work.stashed, work.fixed, work.shared)
        sums = [np.add.reduceat(column[chosen], starts) for column in columns]
        return Costs(work, degree.t, sums[0] + moved, *sums[1:])

    def plan(self, degree: Degree, d: int, cut: Sequence[int], kind: Ints) -> dict[str, Any]:
        """The solution with these stages."""
        stages = len(cut) - 1
        stage = np.empty(self.instance.nodes, dtype=np.int64)
        stage[self.order] = np.repeat(np.arange(stages), np.diff(cut))
        names = [degree.kinds[kind[i]] for i in stage.tolist()]
        same = {"data_parallel": [d] * stages, "tensor_parallel": [degree.t] * stages}
        return {"stage": stage.tolist(), "configuration": names, **same}


@dataclass(frozen=True, eq=False)
class Costs:
    """Stages of the degree ``t``: sums over their nodes, see `files.hybrid.Workload`; ``time`` includes transfers."""

    instance: Instance
    t: int
    time: Floats
    gathered: Floats
    parameters: Floats
    stashed: Floats
    fixed: Floats
    shared: Floats

    def of(self, d: int) -> float:
        """The objective if all stages have d replicas; infinite if one exceeds the memory."""
        work = self.instance
        in_flight = np.arange(len(self.time), 0, -1)
        if (self.stashed * in_flight + self.fixed + self.shared / d > work.memory).any():
            return np.inf
        speed, share = work.speed(d, self.t), (d - 1) / d
        time, sync = self.time + self.gathered / speed * share, 4 * (self.parameters / speed) * share
        if work.objective == "throughput":
            return float((time / d + sync / work.batch).max())
        return float(time.sum() + (work.batch / d - 1) * time.max() + sync.max())


class Best:
    """Reports plans, each better than the last."""

    def __init__(self, runs: Runs, run: Run) -> None:
        self.runs, self.run = runs, run
        self.cost = np.inf

    def offer(self, degree: Degree, cut: Sequence[int], kind: Ints) -> None:
        """Report the best plan with these stages if it is better than all before."""
        costs = self.runs.costs(degree, cut, kind)
        for d in self.runs.replicas(degree.t, len(cut) - 1):
            if (cost := costs.of(d)) < self.cost:
                self.cost = cost
                self.run.report(self.runs.plan(degree, d, cut, kind), cost)
