"""Proofs for ``placement`` and latency by the states of a dynamic program over ideals.

``{"kind": "states", "target": T}``: no schedule ends before T. A state is an ideal, the nodes of the tasks so far in
the order of their beginnings, the accelerators in use, and the end times of the nodes that others still wait for. The
check finds all states from which a schedule could end before T; of two for the same ideal, the one that is later in
nothing is enough.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from math import lcm
from operator import le

from shardmark.harness.verify.certificates.placement_units import Units

#: Accelerators in use, and the end times of the nodes that others wait for, in the order of their numbers.
State = tuple[int, ...]


@dataclass(frozen=True)
class _Task:
    """A node on a CPU, or a set of nodes on an accelerator.

    ``ended``  the ideal with its nodes; ``waits``: nodes of the ideal before that it reads
    ``tail``   least time from its end to the end of all
    """

    ended: int
    waits: int
    duration: int
    tail: int
    accelerator: bool


class Schedules:
    """Schedules as chains of ideals; times are whole multiples of a common unit.

    ``one``   accelerators have one set each, of whole units; else there is one for every set, of any nodes
    ``rest``  least time from the start of each node to the end of all
    """

    def __init__(self, units: Units, target: Fraction) -> None:
        self.units, instance = units, units.instance
        self.one, self.count = instance.contiguity == "contiguous" and not instance.training, instance.nodes
        fast = [units.fast_of_node(v) for v in range(self.count)]
        slow = [units.slow_of_node(v) for v in range(self.count)]
        finite = [time for time in (*fast, *slow, *units.transfer) if time is not None]
        whole = lcm(*(number.denominator for number in (target, units.room, *finite, *units.size)))
        self.target, self.room = int(target * whole), int(units.room * whole)
        self.fast, self.slow = (
            [self.target if time is None else int(time * whole) for time in times] for times in (fast, slow)
        )
        self.cost, self.size = ([int(x * whole) for x in column] for column in (units.transfer, units.size))
        self.before, self.after, self.readers = ([0] * self.count for _ in range(3))
        self.members = [0] * len(units.size)
        for v in range(self.count):
            units.clock.tick()
            self.members[units.of[v]] |= 1 << v
            for u in units.before[v]:
                self.before[v] |= 1 << u
                self.after[u] |= 1 << v
            for u in units.read[v]:
                self.readers[u] |= 1 << v
        self.rest = list(map(min, self.fast, self.slow))
        for v in reversed(instance.graph.topological_order.tolist()):
            self.rest[v] += self._tail(self.after[v])

    def _tail(self, nodes: int) -> int:
        """Return the least time from the start of some nodes to the end of all."""
        self.units.clock.tick()
        return max((rest for v, rest in enumerate(self.rest) if nodes >> v & 1), default=0)

    def refuted(self) -> bool:
        """Return True if no schedule ends before the target."""
        reached: dict[int, list[State]] = {0: [(0,)]}
        waiting: list[set[int]] = [{0}, *(set[int]() for _ in range(self.count))]
        for ideals in waiting[:-1]:
            for ideal in ideals:
                states = reached.pop(ideal)
                for task in (*self._on_cpus(ideal), *self._sets(ideal)):
                    for state in self._after(ideal, states, task):
                        if task.ended == (1 << self.count) - 1:
                            return False
                        self._keep(reached.setdefault(task.ended, []), state)
                        waiting[task.ended.bit_count()].add(task.ended)
        return self.count > 0

    def _keep(self, states: list[State], new: State) -> None:
        self.units.clock.tick()
        if not any(all(map(le, state, new)) for state in states):
            states[:] = [*(state for state in states if not all(map(le, new, state))), new]

    def _open(self, ideal: int) -> list[int]:
        """Return the nodes of an ideal that others wait for."""
        return [v for v in range(self.count) if ideal >> v & 1 and self.after[v] & ~ideal]

    def _after(self, ideal: int, states: list[State], task: _Task) -> Iterator[State]:
        """Yield the states after a task, if a schedule could still end before the target."""
        known, left = self._open(ideal), self._open(task.ended)
        for used, *ends in states:
            self.units.clock.tick()
            end_of = dict(zip(known, ends, strict=True))
            end = max((end_of[v] for v in known if task.waits >> v & 1), default=0) + task.duration
            used += task.accelerator and self.one
            if end + task.tail < self.target and used <= self.units.instance.accelerators:
                yield used, *(end_of.get(v, end) for v in left)

    def _on_cpus(self, ideal: int) -> Iterator[_Task]:
        for v in range(self.count):
            if not ideal >> v & 1 and not self.before[v] & ~ideal and self.slow[v] < self.target:
                yield _Task(ideal | 1 << v, self.before[v], self.slow[v], self._tail(self.after[v]), False)

    def _sets(self, ideal: int) -> Iterator[_Task]:
        """Yield the sets that an accelerator can run before the target, once the nodes of an ideal have ended."""
        known, left = {ideal}, [(ideal, 0, 0, 0, 0)]  # with work, nodes waited for and left for, nodes of units
        while left:
            ended, work, waits, after, held = left.pop()
            for v in range(self.count):
                new = ended | 1 << v
                if new == ended or self.before[v] & ~ended or new in known:
                    continue
                self.units.clock.tick()
                known.add(new)
                more = held | self.members[self.units.of[v]]
                size = sum(size for size, nodes in zip(self.size, self.members, strict=True) if nodes & more)
                if size > self.room or work + self.fast[v] >= self.target or (self.one and more & ideal):
                    continue
                inside = new & ~ideal
                needed, later = waits | (self.before[v] & ideal), after | self.after[v]
                left.append((new, work + self.fast[v], needed, later, more))
                if not (self.one and more & ~inside):
                    moved = sum(self.cost[u] for u in range(self.count) if self._crosses(u, inside))
                    yield _Task(new, needed, work + self.fast[v] + moved, self._tail(later & ~new), True)

    def _crosses(self, u: int, inside: int) -> bool:
        """Return True if a set pays for the tensor of a node: it makes it for others, or reads it from there."""
        return bool(self.readers[u] & ~inside) if inside >> u & 1 else bool(self.readers[u] & inside)
