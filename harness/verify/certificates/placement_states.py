"""Proofs for ``placement`` by the states of a dynamic program over ideals.

``{"kind": "states", "target": T, ...}``: no placement has loads below T on all devices. A state is an ideal and the
accelerators and CPUs that hold it; the check finds all states that are reached with loads below T. For throughput:

``without``  units that are left out
``skipped``  nodes whose edges do not count for the order
``pass``     "forward" or "backward": the pass whose edges order units; else both do if sets are acyclic
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shardmark.harness.verify.certificates import Clock, Unproven, fraction, integers
from shardmark.harness.verify.certificates.placement_items import MOST_IDEALS, Chosen, Items
from shardmark.harness.verify.certificates.placement_schedules import Schedules
from shardmark.harness.verify.certificates.placement_units import Units
from shardmark.instances.files.columns import describe
from shardmark.instances.placement import Instance

Longs = NDArray[np.int64]
Flags = NDArray[np.bool_]

NEVER = 1 << 40  # accelerators, if no number of them suffices
BLOCK = 1 << 11  # ideals of which groups are computed at once
PASSES = {"forward": False, "backward": True}


def states(instance: Instance, proof: Mapping[str, Any], clock: Clock) -> Fraction:
    """Return the target if no state holds all units with loads below it, or for latency ends before it."""
    target, units = fraction(proof, "target"), Units(instance, clock)
    if target <= 0:
        return Fraction(0)
    if instance.objective == "latency":
        if not Schedules(units, target).refuted():
            raise Unproven("proof.target: expected a target before which no schedule ends")
        return target
    if instance.contiguity == "free" or instance.allreduce is not None:
        raise Unproven("proof.kind: expected another kind, as only contiguous sets without replicas are chains")
    left_out, skipped = _numbers(proof, "without", len(units.fast)), _numbers(proof, "skipped", instance.nodes)
    for passes, turned in _orders(instance, proof.get("pass")):
        if not _Chains(Items(units, Chosen(left_out, skipped, passes, turned), target)).refuted():
            raise Unproven("proof.target: expected a target that no placement keeps")
    return target


def _numbers(proof: Mapping[str, Any], key: str, count: int) -> set[int]:
    """Return a list of units or nodes as a set, empty if the proof has none of that name."""
    numbers = integers({key: [], **proof}, key, count)
    if any(not 0 <= v < count for v in numbers):
        raise Unproven(f"proof.{key}: expected numbers from 0 to {count - 1}")
    return set(numbers)


def _orders(instance: Instance, name: Any) -> Iterator[tuple[tuple[bool, ...], bool]]:
    """Yield the orders of devices to refute: passes, and whether backward edges are reversed."""
    if name is None and instance.contiguity == "acyclic":
        yield from [((False, True), True), ((False, True), False)] if instance.training else [((False,), False)]
    elif name is None or (isinstance(name, str) and name in PASSES):
        yield (PASSES[name or "forward"],), False
    else:
        raise Unproven(f"proof.pass: expected forward or backward, found {describe(name)}")


class _Chains:
    """Chains of ideals of items. Ideals are numbered by their sizes, then as they are found.

    ``parent, added``  for each ideal but the first, the number of one with an item less, and that item
    ``levels``         the first number of the ideals of each size
    ``has``            shape (items, ideals), bool: whether an ideal has an item
    """

    def __init__(self, items: Items) -> None:
        self.items, self.clock = items, items.units.clock
        self._list_ideals()
        self.has = np.zeros((items.count, len(self.parent)), dtype=bool)
        for ideal, (parent, item) in enumerate(zip(self.parent, self.added, strict=True)):
            if ideal:
                self.has[:, ideal] = self.has[:, parent]
                self.has[item, ideal] = True

    def _list_ideals(self) -> None:
        preceding = self.items.preceding
        after: list[list[int]] = [[] for _ in preceding]
        for v, mask in enumerate(preceding):
            for u in _members(mask):
                after[u].append(v)
        self.parent, self.added, self.levels = [0], [0], [0]
        level = {0: sum(1 << v for v, mask in enumerate(preceding) if not mask)}  # the items that each can grow by
        while level:
            first, larger = len(self.parent) - len(level), dict[int, int]()
            for number, (ideal, ready) in enumerate(level.items(), first):
                self.clock.tick()
                if len(self.parent) > MOST_IDEALS:
                    raise Unproven(f"proof.without: expected at most {MOST_IDEALS} ideals")
                for v in _members(ready):
                    new = ideal | 1 << v
                    if new not in larger:
                        larger[new] = ready ^ 1 << v | sum(1 << w for w in after[v] if not preceding[w] & ~new)
                        self.parent.append(number)
                        self.added.append(v)
            self.levels.append(len(self.parent) - len(larger))
            level = larger

    def refuted(self) -> bool:
        """Return True if no chain of ideals reaches all items with loads below the target."""
        items, instance = self.items, self.items.instance
        if not items.count:
            return False
        fast, slow, size = (column @ self.has.astype(np.int64) for column in (items.fast, items.slow, items.size))
        groups = _Groups(items, self.has) if instance.contiguity == "contiguous" else None
        most = np.minimum(items.units_in, 2 if groups else 1)  # more CPUs than that are of no use, two for a group
        cpus = min(instance.cpus, int(most.sum()))
        used = np.full((len(self.parent), cpus + 1), NEVER)  # the least accelerators, by ideal and CPUs
        used[0, 0] = 0
        for ideal, (larger, moved, out) in enumerate(self._differences()):
            reached = used[ideal]
            if reached.min() > instance.accelerators:
                continue
            work = fast - fast[ideal]
            load = {"none": work + moved, "half": np.maximum(work, moved), "full": np.maximum(work, out)}
            on = larger & (load[instance.overlap] < items.target) & (size - size[ideal] <= items.room)
            if instance.overlap == "full":
                on &= moved - out < items.target
            off = larger & (slow - slow[ideal] < items.target)
            used[on] = np.minimum(used[on], reached + 1)
            used[off, 1:] = np.minimum(used[off, 1:], reached[:-1])
            if groups:
                several = _by_two(reached)
                better = (several < used).any(axis=1) & (several.min() <= instance.accelerators)
                ends = np.flatnonzero(larger & better & ~(on & (off | (cpus < 2))))
                ends = ends[groups.possible(ideal, ends)]
                used[ends] = np.minimum(used[ends], several)
        return bool(used[-1].min() > instance.accelerators)

    def _differences(self) -> Iterator[tuple[Flags, Longs, Longs]]:
        """Yield for each ideal which others contain it, and what the difference moves in and out, and out alone.

        A net moves if some of its items are in the difference but not all of them are. Each ideal has one item more
        than its parent, and only the nets of this item change. All three have the shape (ideals,).
        """
        nets = self.items.nets
        held = np.zeros((len(nets), len(self.parent)), dtype=np.int16)
        full = np.zeros_like(held, dtype=bool)
        for net, (members, _, _) in enumerate(nets):
            self.clock.tick()
            held[net] = self.has[list(members)].sum(axis=0)
            full[net] = held[net] == len(members)
        of: list[list[int]] = [[] for _ in range(self.items.count)]
        for net, (members, _, _) in enumerate(nets):
            for v in members:
                of[v].append(net)
        moved, out = (np.zeros(len(self.parent), dtype=np.int64) for _ in range(2))
        for net, (_, maker, cost) in enumerate(nets):
            self.clock.tick()
            moved += cost * ((held[net] > 0) & ~full[net])
            if maker >= 0:
                out += cost * (self.has[maker] & ~full[net])
        rows = {0: (np.ones(len(self.parent), dtype=bool), moved, out)}
        yield rows[0]
        for begin, end in zip(self.levels[1:], [*self.levels[2:], len(self.parent)], strict=True):
            before, rows = rows, {}
            for ideal in range(begin, end):
                self.clock.tick()
                v, parent = self.added[ideal], self.parent[ideal]
                larger, moved, out = (column.copy() for column in before[parent])
                larger &= self.has[v]
                for net in of[v]:
                    maker, cost, now = *nets[net][1:], held[net, parent]
                    moved[held[net] == now + 1] -= cost
                    if not now:
                        moved[full[net]] += cost
                    if v == maker:
                        out[self.has[v] & ~full[net] if not now else self.has[v]] -= cost
                    elif maker >= 0 and not now and not self.has[maker, parent]:
                        out[self.has[maker] & full[net]] += cost
                rows[ideal] = larger, moved, out
                yield rows[ideal]


class _Groups:
    """Sets that several devices may hold together, each with a path to each other one: see the page of proofs.

    ``item, every, related``  as `Items.comparable` has them, the latter two summed up over the items of each ideal
    """

    def __init__(self, items: Items, has: Flags) -> None:
        self.has, self.clock = has.T.copy(), items.units.clock
        self.item, every, related = items.comparable()
        self.every, self.related = self._counts(every.T), self._counts(related)

    def _counts(self, flags: Flags) -> NDArray[np.int16]:
        """Return how many items of each ideal each column has; float32 holds such numbers exactly."""
        counts, weights = np.empty((len(self.has), flags.shape[1]), dtype=np.int16), flags.astype(np.float32)
        for some in _blocks(np.arange(len(self.has))):
            self.clock.tick()
            counts[some] = self.has[some].astype(np.float32) @ weights
        return counts

    def possible(self, ideal: int, ends: Longs) -> Flags:
        """Return for each of some larger ideals whether the difference may be such a set."""
        return np.concatenate([np.zeros(0, dtype=bool), *(self._possible(ideal, some) for some in _blocks(ends))])

    def _possible(self, ideal: int, ends: Longs) -> Flags:
        self.clock.tick()
        joined = (self.has[ends] > self.has[ideal]) & (self.related[ends] > self.related[ideal])
        count = joined.sum(axis=1, dtype=np.int16)
        waist = joined[:, self.item] & (self.every[ends] - self.every[ideal] == count[:, None])
        return (count > 0) & ~waist.any(axis=1)


def _by_two(reached: Longs) -> Longs:
    """Return the least accelerators, by CPUs, if two more devices are used, which may be CPUs."""
    best = reached + 2
    best[1:] = np.minimum(best[1:], reached[:-1] + 1)
    best[2:] = np.minimum(best[2:], reached[:-2])
    return best


def _blocks(ideals: Longs) -> Iterator[Longs]:
    """Yield so few ideals at a time that little memory is needed for each."""
    for first in range(0, len(ideals), BLOCK):
        yield ideals[first : first + BLOCK]


def _members(mask: int) -> Iterator[int]:
    """Yield the numbers of the bits that are set."""
    while mask:
        yield (mask & -mask).bit_length() - 1
        mask &= mask - 1
