"""Proofs for ``hybrid``: a formula, and the states of a dynamic program over down-sets.

``{"kind": "formula", "name": "simple"}``  all device-seconds spread over all devices, or the slowest node
``{"kind": "states", "target": T}``        no plan costs less than T. A state is a set of nodes that the last stages
                                           hold, with their devices and data-parallel degrees; the check finds all
                                           states that stages reach without exceeding T

docs/certificates/hybrid.md has the argument.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache
from math import ceil
from operator import le
from typing import Any

from shardmark.harness.verify.certificates import Clock, Exact, Unproven, fraction
from shardmark.instances.files.columns import describe
from shardmark.instances.hybrid import Instance

#: The limit on the time of a stage, and the memory of a device, are so many units; numbers are rounded down to units.
LIMIT = 1 << 100
#: Most undominated choices of configurations; of two neighbours beyond these, the lesser time and memory count.
CHOICES = 1000

Pair = tuple[int, int]
Key = tuple[int, int, int]  # tensor- and data-parallel degree, microbatches in flight
#: What the last stages take: devices, data-parallel degrees; for a step also the sum of their times of a microbatch,
#: the longest time of all microbatches but one, the longest synchronisation; else 0.
Label = tuple[int, int, int, int, int]


def formula(instance: Instance, proof: Mapping[str, Any], clock: Clock) -> Exact:
    """Return the greatest of the even share of all work, the slowest node, and for a step one microbatch of all."""
    if proof.get("name") != "simple":
        raise Unproven(f"proof.name: expected simple, found {describe(proof.get('name'))}")
    microbatches = instance.batch if instance.objective == "step" else 1
    work, slowest, fastest = (Fraction(0) for _ in range(3))
    for menu in _menus(instance, clock):
        work += min((each.time * each.degree for each in menu), default=Fraction(0))
        slowest = max(slowest, min((each.time * microbatches / each.most for each in menu), default=Fraction(0)))
        fastest += min((each.time for each in menu), default=Fraction(0))
    best = max(work * microbatches / instance.devices, slowest)
    return max(best, fastest) if instance.objective == "step" else best


@dataclass(frozen=True)
class _Configuration:
    """A configuration that fits a device alone; ``most`` is its greatest data-parallel degree."""

    degree: int
    most: int
    time: Fraction
    parameters: Fraction
    stashed: Fraction
    fixed: Fraction
    shared: Fraction
    gathered: Fraction


def _menus(instance: Instance, clock: Clock) -> list[list[_Configuration]]:
    """Return the configurations of each node that fit a device alone, with one microbatch in flight."""
    columns = (instance.time, instance.parameters, instance.stashed, instance.fixed, instance.shared, instance.gathered)
    numbers = [[Fraction(x) for x in column.tolist()] for column in columns]
    menus: list[list[_Configuration]] = [[] for _ in range(instance.nodes)]
    ends = instance.node.tolist(), instance.degree.tolist(), instance.most_replicas.tolist()
    for node, degree, most, *rest in zip(*ends, *numbers, strict=True):
        clock.tick()
        each = _Configuration(degree, most, *rest)
        if most and each.stashed + each.fixed + each.shared / most <= Fraction(instance.capacity):
            menus[node].append(each)
    return menus


def states(instance: Instance, proof: Mapping[str, Any], clock: Clock) -> Exact:
    """Return the target if no plan costs less."""
    target = fraction(proof, "target")
    if target <= 0:
        return 0
    if _Search(instance, target, clock).reaches_all():
        raise Unproven("proof.target: expected a target that no plan keeps")
    return target


@dataclass
class _Extension:
    """Nodes of the stage before some last stages, and what they take.

    ``held``    the nodes of the stage and of those after it, as a bit mask
    ``free``    nodes that may join, as all later ones are held
    ``moved``   time of transfers, by degrees
    ``sums``    by key: least time, the memory of that choice, least memory, least synchronisation
    ``known``   by key: undominated times and memories of the stage
    """

    before: _Extension | None
    node: int
    held: int
    free: list[int]
    moved: dict[Pair, int]
    sums: dict[Key, tuple[int, int, int, int]]
    known: dict[Key, list[Pair]] = field(default_factory=dict)


class _Search:
    """States that are reached by stages that take less than a target.

    ``later``  nodes that have to be in the last stages before each node
    """

    def __init__(self, instance: Instance, target: Fraction, clock: Clock) -> None:
        self.instance, self.target, self.clock = instance, target, clock
        self.step = instance.objective == "step"
        self.menus = _menus(instance, clock)
        self.fastest = [self._units(min((each.time for each in menu), default=Fraction(0)), 1) for menu in self.menus]
        self.degrees = sorted({each.degree for menu in self.menus for each in menu})
        self.later = [0] * instance.nodes
        self.out: list[list[Pair]] = [[] for _ in range(instance.nodes)]
        self.into: list[list[Pair]] = [[] for _ in range(instance.nodes)]
        for e, (u, v) in enumerate(zip(instance.graph.tail.tolist(), instance.graph.head.tolist(), strict=True)):
            clock.tick()
            self.later[u] |= 1 << v
            self.out[u].append((e, v))
            self.into[v].append((e, u))
        self.options, self.transfers = cache(self._options), cache(self._transfers)

    def _units(self, time: Fraction, data: int) -> int:
        """Return a time in units: the target for a step, else the longest time of a microbatch on a replica."""
        return min(LIMIT, int(time * LIMIT / (self.target if self.step else self.target * data)))

    def _speed(self, data: int, tensor: int) -> Fraction:
        """Return the bytes per second between the replicas of a stage."""
        work = self.instance
        between = Fraction(work.bandwidth)
        if work.machine is None or work.inside is None:
            return between
        inside = Fraction(work.inside)
        return inside if data * tensor <= work.machine else min(max(work.machine // tensor, 1) * between, inside)

    def _options(self, node: int, degree: int, data: int, in_flight: int) -> tuple[list[Pair], int]:
        """Return the times and memories of a node that are within the limits, or some below, and its synchronisation.

        For a step, that is the least of any of these; else it is 0, as the times contain its share.
        """
        speed, room = self._speed(data, degree), Fraction(self.instance.capacity)
        found, least = list[Pair](), LIMIT
        for each in self.menus[node]:
            if each.degree == degree and each.most >= data:
                time = each.time + Fraction(data - 1, data) * each.gathered / speed
                synchronised = Fraction(4 * (data - 1), data) * each.parameters / speed
                if not self.step:
                    time, synchronised = time + synchronised * data / self.instance.batch, Fraction(0)
                memory = each.stashed * in_flight + each.fixed + each.shared / data
                if memory <= room:
                    found.append((self._units(time, data), int(memory * LIMIT / room) if room else 0))
                    least = min(least, self._units(synchronised, data))
        return _merged(_undominated(pair for pair in found if pair[0] < LIMIT)), least

    def _transfers(self, degree: int, data: int) -> tuple[dict[int, int], dict[int, int]]:
        """Return the least times of transfers at the tail and at the head of each edge."""
        work, bandwidth = self.instance, Fraction(self.instance.bandwidth)
        tails, heads = dict[int, int](), dict[int, int]()
        start, edges = work.incident[0].tolist(), work.incident[1].tolist()
        ends = work.node.tolist(), work.degree.tolist(), work.sync_start.tolist()
        for node, of, at in zip(*ends, strict=False):
            self.clock.tick()
            if of == degree:
                for i, e in enumerate(edges[start[node] : start[node + 1]]):
                    moved = Fraction(float(work.communicated[e])) + Fraction(float(work.sync[at + i]))
                    side = heads if int(work.graph.head[e]) == node else tails
                    side[e] = min(side.get(e, LIMIT), self._units(2 * moved / bandwidth, data))
        return tails, heads

    def reaches_all(self) -> bool:
        """Return True if some stages in a row hold all nodes."""
        count = self.instance.nodes
        reached: dict[int, list[Label]] = {0: [(0, 0, 0, 0, 0)]}
        waiting: list[set[int]] = [{0}, *(set[int]() for _ in range(count))]
        for held in waiting[:-1]:
            for last in held:
                for larger, label in self._stages(last, reached.pop(last), reached):
                    if larger == (1 << count) - 1:
                        return True
                    kept = [other for other in reached.get(larger, []) if not _dominated(other, [label])]
                    reached[larger] = [*kept, label]
                    waiting[larger.bit_count()].add(larger)
        return False

    def _stages(self, last: int, used: list[Label], reached: Mapping[int, list[Label]]) -> Iterator[tuple[int, Label]]:
        """Yield what is held and its label with one stage more, unless another label has less of everything."""
        instance, before = self.instance, dict[Key, list[Label]]()
        for label in used:
            for data in instance.replicas.tolist():
                self.clock.tick()
                for degree in self.degrees:
                    if label[0] + degree * data <= instance.devices and label[1] + data <= instance.batch:
                        before.setdefault((degree, data, ceil(Fraction(label[1] + data, data))), []).append(label)
        free = [v for v in range(instance.nodes) if not (last >> v & 1 or self.later[v] & ~last)]
        moved, sums = {key[:2]: 0 for key in before}, dict.fromkeys(before, (0, 0, 0, 0))
        left, known = [_Extension(None, -1, last, free, moved, sums)], {last}
        while left:
            stage = left.pop()
            for node in stage.free:
                if stage.held | 1 << node in known:
                    continue
                known.add(stage.held | 1 << node)
                self.clock.tick()
                new = self._extended(stage, node, last)
                rest = sum(time for v, time in enumerate(self.fastest) if not new.held >> v & 1) if self.step else 0
                for key in new.sums:
                    labels = [self._label(label, key, new, 0) for label in before[key]]
                    if all(_dominated(label, reached.get(new.held, ())) for label in labels):
                        continue
                    time = self._time(new, key)
                    for label in before[key] if time < LIMIT else ():
                        label = self._label(label, key, new, time)
                        if sum(label[2:]) + rest < LIMIT and not _dominated(label, reached.get(new.held, ())):
                            yield new.held, label
                if new.sums:
                    left.append(new)

    def _label(self, label: Label, key: Key, stage: _Extension, time: int) -> Label:
        """Return a label with a stage more that takes some time for a microbatch."""
        devices, later = label[0] + key[0] * key[1], label[1] + key[1]
        if not self.step:
            return devices, later, 0, 0, 0
        repeated = time * (self.instance.batch - key[1]) // key[1]
        return devices, later, label[2] + time, max(label[3], repeated), max(label[4], stage.sums[key][3])

    def _extended(self, stage: _Extension, node: int, last: int) -> _Extension:
        """Return a stage with one node more, for the keys of which it may be part of a stage within the limits."""
        sums = dict[Key, tuple[int, int, int, int]]()
        for key, (time, memory, least, synchronised) in stage.sums.items():
            options, more = self.options(node, *key)
            if options:
                new = time + options[0][0], memory + options[0][1], least + options[-1][1], synchronised + more
                if new[0] < LIMIT and new[2] <= LIMIT:
                    sums[key] = new
        moved = dict[Pair, int]()
        for pair in {key[:2] for key in sums}:
            tails, heads = self.transfers(*pair)
            moved[pair] = stage.moved[pair] + sum(heads.get(e, 0) for e, _ in self.into[node])
            moved[pair] += sum(tails.get(e, 0) if last >> v & 1 else -heads.get(e, 0) for e, v in self.out[node])
        held, others = stage.held | 1 << node, [v for v in stage.free if v != node]
        free = others + [u for _, u in self.into[node] if not self.later[u] & ~held]
        return _Extension(stage, node, held, free, moved, sums)

    def _time(self, stage: _Extension, key: Key) -> int:
        """Return the least time of a microbatch for configurations within the memory; from the limit on if none is."""
        time, memory, *_ = stage.sums[key]
        moved = stage.moved[key[:2]]
        if memory <= LIMIT or moved + time >= LIMIT:
            return moved + time
        return moved + self._choices(stage, key)[0][0]

    def _choices(self, stage: _Extension, key: Key) -> list[Pair]:
        """Return the undominated times and memories of a stage within the limits, or something below them."""
        path, at = list[_Extension](), stage
        while at.before is not None and key not in at.known:
            path.append(at)
            at = at.before
        found = at.known.get(key, [(0, 0)])
        for at in reversed(path):
            options, _ = self.options(at.node, *key)
            sums = ((t + time, m + memory) for t, m in found for time, memory in options)
            found = at.known[key] = _merged(_undominated(pair for pair in sums if max(pair[0] + 1, pair[1]) <= LIMIT))
            self.clock.tick()
        return found or [(LIMIT, 0)]


def _undominated(pairs: Iterable[Pair]) -> list[Pair]:
    """Return the pairs that no other is at most in both numbers, by ascending first ones."""
    kept: list[Pair] = []
    for pair in sorted(pairs):
        if not kept or pair[1] < kept[-1][1]:
            kept.append(pair)
    return kept


def _merged(pairs: list[Pair]) -> list[Pair]:
    """Return at most `CHOICES` pairs, below which all pairs are: neighbours become one with the lesser of both."""
    while len(pairs) > CHOICES:
        pairs = [(pairs[i][0], pairs[min(i + 1, len(pairs) - 1)][1]) for i in range(0, len(pairs), 2)]
    return pairs


def _dominated(label: Label, others: Iterable[Label]) -> bool:
    """Return True if one of the others is at most the label in all numbers."""
    return any(all(map(le, other, label)) for other in others)


PROOFS = {"formula": formula, "states": states}
