"""Proofs for ``placement`` by the states of a dynamic program over ideals.

``{"kind": "states", "target": T}``: no acyclic placement has loads below T on all devices. A state is an ideal and the
accelerators and CPUs that hold it; the check finds all states that are reached with loads below T.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from math import lcm
from typing import Any

import numpy as np

from shardmark.harness.verify.certificates import Clock, Unproven, fraction
from shardmark.harness.verify.certificates.placement_schedules import Schedules
from shardmark.harness.verify.certificates.placement_units import Units
from shardmark.instances.graph import strong_components
from shardmark.instances.placement import Instance


def states(instance: Instance, proof: Mapping[str, Any], clock: Clock) -> Fraction:
    """Return the target if no state holds all units with loads below it, or for latency ends before it."""
    if instance.objective == "latency":
        target = fraction(proof, "target")
        if target > 0 and not Schedules(Units(instance, clock), target).refuted():
            raise Unproven("proof.target: expected a target before which no schedule ends")
        return target
    if (instance.objective, instance.contiguity, instance.allreduce) != ("throughput", "acyclic", None):
        raise Unproven("proof.kind: expected another kind, as only acyclic splits without replicas are chains")
    target, units = fraction(proof, "target"), Units(instance, clock)
    for reverse in (True, False) if instance.training else (False,):
        if not _Items(units, reverse, target).refuted():
            raise Unproven("proof.target: expected a target that no placement keeps")
    return target


class _Items:
    """Units that share a device, as they are on a cycle, and the loads of sets of items, which are bit masks.

    Numbers are whole multiples of a common unit.

    ``preceding``  items that an ideal with each item contains
    ``tensors``    for each item, those that it makes or reads: the maker, all its readers, the time
    """

    def __init__(self, units: Units, reverse: bool, target: Fraction) -> None:
        self.units, instance = units, units.instance
        tail, head = instance.graph.tail, instance.graph.head
        same = instance.backward[tail] == instance.backward[head]
        tail, head = tail[same], head[same]
        turned = instance.backward[tail] & reverse
        of, count = np.array(units.of), len(units.fast)
        ends = of[np.where(turned, head, tail)], of[np.where(turned, tail, head)]
        item = strong_components(count, *ends).tolist()
        self.count = max(item, default=-1) + 1
        self.full = (1 << self.count) - 1
        self.preceding = [0] * self.count
        for u, v in zip(*(column.tolist() for column in ends), strict=True):
            units.clock.tick()
            self.preceding[item[v]] |= (1 << item[u]) & ~(1 << item[v])
        self._sum_up(item, target)

    def _sum_up(self, item: list[int], target: Fraction) -> None:
        units = self.units
        times = [time for time in (*units.fast, *units.slow, *units.transfer) if time is not None]
        whole = lcm(*(number.denominator for number in (target, units.room, *times, *units.size)))
        self.target, self.room = int(target * whole), int(units.room * whole)
        self.fast, self.slow, self.size = ([0] * self.count for _ in range(3))
        for v, fast, slow, size in zip(item, units.fast, units.slow, units.size, strict=True):
            self.fast[v] += self.target if fast is None else int(fast * whole)
            self.slow[v] += self.target if slow is None else int(slow * whole)
            self.size[v] += int(size * whole)
        self.tensors: list[list[tuple[int, int, int]]] = [[] for _ in range(self.count)]
        readers = [0] * len(units.of)
        for v, tensors in enumerate(units.read):
            units.clock.tick()
            for u in tensors:
                readers[u] |= 1 << item[units.of[v]]
        for u, (mask, cost) in enumerate(zip(readers, units.transfer, strict=True)):
            maker = 1 << item[units.of[u]]
            if cost and mask & ~maker:
                units.clock.tick()
                for v in range(self.count):
                    if (mask | maker) >> v & 1:
                        self.tensors[v].append((maker, mask & ~maker, int(cost * whole)))

    def refuted(self) -> bool:
        """Return True if no chain of ideals reaches all items with loads below the target."""
        reached: dict[int, set[tuple[int, int]]] = {0: {(0, 0)}}
        waiting: list[set[int]] = [{0}, *(set[int]() for _ in range(self.count))]
        most = self.units.instance.accelerators, self.units.instance.cpus
        for ideals in waiting:
            for ideal in ideals:
                used = _least(reached.pop(ideal))
                for larger, fast, slow in self._extensions(ideal):
                    new = {(k + 1, c) for k, c in used if fast and k < most[0]}
                    new |= {(k, c + 1) for k, c in used if slow and c < most[1]}
                    if new and larger == self.full:
                        return False
                    if new:
                        reached.setdefault(larger, set()).update(new)
                        waiting[larger.bit_count()].add(larger)
        return self.count > 0

    def _extensions(self, ideal: int) -> Iterator[tuple[int, bool, bool]]:
        """Yield larger ideals, and whether an accelerator and a CPU can hold the difference below the target.

        A set whose computation alone reaches the target on both is not extended.
        """
        known, left = {ideal}, [(ideal, 0, 0, 0, 0, 0)]
        while left:
            self.units.clock.tick()
            larger, fast, slow, size, moved_in, moved_out = left.pop()
            for v in range(self.count):
                bit = 1 << v
                new = larger | bit
                if larger & bit or self.preceding[v] & ~larger or new in known:
                    continue
                known.add(new)
                work = fast + self.fast[v], slow + self.slow[v], size + self.size[v]
                on, off = work[0] < self.target and work[2] <= self.room, work[1] < self.target
                if not (on or off):
                    continue
                held = new & ~ideal
                into, out = moved_in, moved_out
                for maker, readers, cost in self.tensors[v]:
                    before, after = held & ~bit, held
                    into += cost * (_reads(after, maker, readers) - _reads(before, maker, readers))
                    out += cost * (_sends(after, maker, readers) - _sends(before, maker, readers))
                left.append((new, *work, into, out))
                yield new, on and self._load(work[0], into, out) < self.target, off

    def _load(self, work: int, into: int, out: int) -> int:
        overlap = self.units.instance.overlap
        return {"none": work + into + out, "half": max(work, into + out), "full": max(work, into, out)}[overlap]


def _reads(held: int, maker: int, readers: int) -> bool:
    return bool(readers & held) and not maker & held


def _sends(held: int, maker: int, readers: int) -> bool:
    return bool(maker & held) and bool(readers & ~held)


def _least(used: set[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the pairs that no other one is at most in both numbers."""
    kept: list[tuple[int, int]] = []
    for pair in sorted(used):
        if not kept or pair[1] < kept[-1][1]:
            kept.append(pair)
    return kept
