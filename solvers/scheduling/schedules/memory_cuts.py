"""Proofs that no schedule fits the memory: what is made and not yet read when some vertex finishes.

When a vertex v finishes, all before it have finished and none behind it has. Of the sets of vertices that may have
finished then, closed under predecessors, a minimum cut finds one that least is read from outside. All of that is held
(``reserved``), or is held, on its way, or read by a vertex that runs (``waiting``). What all devices hold together is
below the sum of their capacities. Vertices that may finish within the tolerance of a time are left out with what they
make and read, so each device finishes one of the others at such a moment, and some moment close behind the end of v
has no other.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from fractions import Fraction

import numpy as np

from instances.files.columns import Floats, Ints
from instances.scheduling import TOLERANCE, Instance

#: Sizes are rounded down to the parts of the largest sum of sizes that are so many.
PARTS = 2**40

#: Vertices at whose end is cut in the first pass.
FIRST = 24


def none_fits(instance: Instance, seconds: float) -> bool:
    """Say if it is proven, within so many seconds, that no schedule fits the memory."""
    end = time.monotonic() + seconds
    for devices in _confined(instance):
        cuts = _Cuts(instance, devices)
        if not cuts.possible():
            continue
        for v in _spread(instance):
            if cuts.overfull(v):
                return True
            if time.monotonic() >= end:
                return False
    return False


def _confined(instance: Instance) -> Iterator[Ints]:
    """Sets of devices with limits that some vertices may not leave: all devices, and what choices allow."""
    for devices in (np.arange(instance.devices), *instance.unit_choices):
        if np.isfinite(instance.memory[devices]).all():
            yield devices


def _spread(instance: Instance) -> list[int]:
    """All vertices, in an order in which the first few are spread over the whole of a topological order."""
    order, n = instance.graph.topological_order, instance.nodes
    first = np.unique(np.linspace(0, n - 1, min(n, FIRST)).astype(np.int64))
    spread: list[int] = [*order[first].tolist(), *np.delete(order, first).tolist()]
    return spread


class _Cuts:
    """Minimum cuts between what has finished and what has not, of tensors that are read on some devices only."""

    def __init__(self, instance: Instance, devices: Ints) -> None:
        self.instance, self.graph = instance, instance.graph
        number = instance.unit_choice[instance.unit]
        sets = [set(choice.tolist()) <= set(devices.tolist()) for choice in instance.unit_choices]
        confined = np.array([*sets, len(devices) == instance.devices])[number]
        least = 2 * (instance.devices + 2) * TOLERANCE * instance.horizon()
        self.lasts = instance.complexity / instance.fastest() > least
        counted = self.lasts[self.graph.tail] & self.lasts[self.graph.head] & confined[self.graph.head]
        self.size = np.where(counted, instance.size, 0.0)
        self.part = Fraction(float(self.size.sum()) or 1.0) / PARTS
        self.scaled = np.array([int(Fraction(x) / self.part) for x in self.size.tolist()], dtype=np.int64)
        room = sum(map(Fraction, instance.capacity[devices].tolist()), Fraction(0))
        elsewhere = self._elsewhere()
        self.limit: int | None = None  # the least whole cut, in parts, that is too much to hold; something must be held
        if math.isfinite(elsewhere):
            parts = Fraction(elsewhere) / self.part
            self.limit = max(math.ceil(parts + room / self.part), math.floor(parts) + 1)

    def _elsewhere(self) -> float:
        """The most of the tensors of a cut that no device holds at a moment, rounded up; infinite if unknown."""
        instance, graph = self.instance, self.graph
        if instance.holding == "reserved":
            return 0.0
        read, made = (np.bincount(end, self.size, graph.nodes).astype(np.float64) for end in (graph.head, graph.tail))
        running = np.sort(read)[::-1][: instance.devices].sum()
        return float(running + self._on_the_way(made)) * (1 + 1e-9)

    def _on_the_way(self, made: Floats) -> float:
        """The most that is in transit: made by vertices that finish within the longest transfer, but one a device."""
        instance = self.instance
        if instance.devices == 1:
            return 0.0
        if instance.links != "independent":
            return math.inf
        links = instance.bandwidth[~np.eye(instance.devices, dtype=bool)]
        slowest = links[links > 0].min(initial=np.inf)
        with np.errstate(all="ignore"):  # what is not a number, or too great for one, counts
            work = self.size.max(initial=0.0) / slowest * instance.speed.sum() * (1 + 1e-9)
            order = np.argsort(-np.where(made > 0, made / instance.complexity, 0.0), kind="stable")
            before = instance.complexity[order].cumsum() - instance.complexity[order]
            within = made[order][~(before > work * (1 + 1e-9))].sum()
        return float(within + np.sort(made)[::-1][: instance.devices].sum())

    def possible(self) -> bool:
        """Say if a cut of all tensors would be a proof."""
        return self.limit is not None and int(self.scaled.sum()) >= self.limit

    def overfull(self, v: int) -> bool:
        """Say if what is made and not yet read, when a vertex that lasts finishes, surely exceeds all memory."""
        from ortools.graph.python import max_flow

        if not self.lasts[v] or self.limit is None:
            return False
        n, flow, whole = self.graph.nodes, max_flow.SimpleMaxFlow(), 2 * PARTS
        tail, head = self.graph.tail.astype(np.int64), self.graph.head.astype(np.int64)
        flow.add_arcs_with_capacity(tail, head, self.scaled)
        flow.add_arcs_with_capacity(head, tail, np.full(len(tail), whole))
        flow.add_arc_with_capacity(n, v, whole)
        for w in self._next_that_last(v):
            flow.add_arc_with_capacity(w, n + 1, whole)
        flow.solve(n, n + 1)
        return bool(flow.optimal_flow() >= self.limit)

    def _next_that_last(self, v: int) -> list[int]:
        """The first vertices that last on each path behind a vertex."""
        seen, found, left = {v}, list[int](), [v]
        while left:
            for w in self.graph.successors(left.pop()).tolist():
                if w not in seen:
                    seen.add(w)
                    (found if self.lasts[w] else left).append(w)
        return found
