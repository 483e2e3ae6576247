"""The sets of units that one device can hold, as a diagram of choices in an order; see `placement_configurations`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shardmark.harness.verify.certificates import Clock, Unproven, integers
from shardmark.harness.verify.certificates.placement_units import Units
from shardmark.instances.files.columns import describe

Longs = NDArray[np.int64]
Flags = NDArray[np.bool_]

#: Limits such that no sum of 64 bits wraps: all loads together, and the weight of a set.
MOST_LOAD, MOST_WEIGHT = 1 << 38, 127
#: Most states of a layer; most nets and labels that a state knows, each by two bits.
STATES, PLACES = 1 << 14, 26
#: The bits of a state for the side of the last unit, and from which on it has the weight.
SIDE, WEIGHT = 2 * PLACES, 2 * PLACES + 2
#: Codes of an open net: its units so far are all outside the set, all inside, or on both sides.
OUT, IN, BOTH = 0, 1, 2
#: Labels of nodes.
BEFORE, WITHIN, AFTER = 0, 1, 2


@dataclass(frozen=True)
class Sets:
    """The conditions that a set of units meets.

    ``work``           load of each unit; -1 if no set has it
    ``weight``         of each unit, ``most`` in a set
    ``nets``           units of each net, and its cost
    ``unit``           the unit of each node
    ``before, after``  neighbours of each node in its pass, as sets are contiguous; none if they may have any shape
    """

    work: list[int]
    weight: list[int]
    most: int
    nets: list[tuple[tuple[int, ...], int]]
    unit: list[int]
    before: list[list[int]]
    after: list[list[int]]


def passes(units: Units) -> tuple[list[list[int]], list[list[int]]]:
    """Return the nodes before and after each node along edges within a pass; none if sets may have any shape."""
    instance = units.instance
    before: list[list[int]] = [[] for _ in units.of]
    after: list[list[int]] = [[] for _ in units.of]
    if instance.contiguity != "free":
        back = instance.backward.tolist()
        for v, some in enumerate(units.before):
            units.clock.tick()
            for u in some:
                if back[u] == back[v]:
                    before[v].append(u)
                    after[u].append(v)
    return before, after


@dataclass
class Layer:
    """A choice in each state: whether the set has a unit, or how a node outside is labelled.

    ``unit``   the unit that the second choice takes; None for labels
    ``next``   per choice, the number of the state that follows each state; -1 if the choice is impossible
    ``cost``   per choice, what the nets cost that it splits, for each state
    """

    unit: int | None
    next: Longs
    cost: Longs


class Diagram:
    """The layers of choices; states that no load up to a target reaches are left out."""

    def __init__(self, told: Mapping[str, Any], sets: Sets, target: int, clock: Clock) -> None:
        self.sets, self._clock, units = sets, clock, len(sets.work)
        if sum(w for w in sets.work if w > 0) + sum(cost for _, cost in sets.nets) > MOST_LOAD:
            raise Unproven(f"proof.scale: expected loads of at most {MOST_LOAD} in all")
        order = integers(told, "order", units, units)
        if sorted(order) != list(range(units)):
            raise Unproven("proof.order: expected every unit once")
        place = {v: at for at, v in enumerate(order)}
        span = dict.fromkeys(range(len(sets.nets)), (0, units))
        for net, first, last in _lists(told, "part", 3, units + len(sets.nets)):
            if net not in span:
                raise Unproven(f"proof.part: expected a net from 0 to {len(sets.nets) - 1}, found {net}")
            span[net] = first, last
        some = ([place[v] for v in members] for members, _ in sets.nets)
        self._pins = [[at for at in at_all if span[net][0] <= at <= span[net][1]] for net, at_all in enumerate(some)]
        labels: list[list[tuple[int, int, int]]] = [[] for _ in order]
        for number, (v, last) in enumerate(_lists(told, "labels", 2, len(sets.unit))):
            if not 0 <= v < len(sets.unit) or any(v == u for u, _, _ in labels[place[sets.unit[v]]]):
                raise Unproven(f"proof.labels: expected different nodes from 0 to {len(sets.unit) - 1}, found {v}")
            labels[place[sets.unit[v]]].append((v, number, last))
        self._target, self._free = target, list(range(PLACES))
        self._net: dict[int, int] = {}  # the places of open nets
        self._label: dict[int, tuple[int, int]] = {}  # the places of kept labels, and until when
        self._state, self._least = np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int64)
        self.layers: list[Layer] = []
        on: list[list[int]] = [[] for _ in order]
        for net, pins in enumerate(self._pins):
            for at in pins if len(pins) > 1 else ():
                on[at].append(net)
        for at, unit in enumerate(order):
            self._decide(at, unit, on[at])
            for label in labels[at]:
                self._choose(*label)
            self._state &= ~np.int64(3 << SIDE) if at + 1 < len(order) else 0
            self._merge()

    def _decide(self, at: int, unit: int, nets: list[int]) -> None:
        """Add the choice of whether the unit at a place of the order is in the set."""
        codes, costs = np.stack([self._state] * 2), np.zeros((2, len(self._state)), dtype=np.int64)
        for net in nets:
            pins, cost = self._pins[net], self.sets.nets[net][1]
            if at == min(pins):
                self._net[net] = self._place()
                codes[IN] |= IN << 2 * self._net[net]
                continue
            for side in (OUT, IN):
                now = (codes[side] >> 2 * self._net[net]) & 3
                split = (now != side) & (now != BOTH)
                costs[side][split] += cost
                codes[side][split] += (BOTH - now[split]) << 2 * self._net[net]
        for net in nets:
            if at == max(self._pins[net]):
                self._leave(codes, self._net.pop(net))
        weight, possible = self.sets.weight[unit], np.ones(codes.shape, dtype=np.bool_)
        possible[IN] = ((codes[IN] >> WEIGHT) + weight <= self.sets.most) & (self.sets.work[unit] >= 0)
        codes[IN] += (weight << WEIGHT) + (IN << SIDE)
        self._append(unit, codes, costs, possible)

    def _choose(self, v: int, number: int, last: int) -> None:
        """Add the choice of the label of a node, if its unit is outside: first `BEFORE`, second `AFTER`.

        If all nodes before it are `BEFORE`, the second is not needed; else, if all after it are `AFTER`, the first.
        """
        inside = ((self._state >> SIDE) & 3) == IN
        before, after = (self._labels(near[v]) for near in (self.sets.before, self.sets.after))
        low, high = (before == BEFORE).all(axis=0), (after == AFTER).all(axis=0)
        fits = (before <= WITHIN).all(axis=0) & (after >= WITHIN).all(axis=0)
        if len(before) == len(self.sets.before[v]):
            high &= ~low
        elif len(after) == len(self.sets.after[v]):
            low &= ~high
        place = self._place()
        codes = np.stack(
            [self._state | np.where(inside, WITHIN, BEFORE) << 2 * place, self._state | AFTER << 2 * place]
        )
        possible = np.stack([np.where(inside, fits, low), high & ~inside])
        self._append(None, codes, np.zeros(codes.shape, dtype=np.int64), possible)
        self._label[v] = place, last
        for u in [u for u, (_, until) in self._label.items() if until <= number]:
            self._leave(self._state, self._label.pop(u)[0])
        self._merge()

    def _labels(self, nodes: list[int]) -> Longs:
        """Return the labels of those nodes that have one, shape (nodes, states)."""
        places = [self._label[u][0] for u in nodes if u in self._label]
        codes = [(self._state >> 2 * place) & 3 for place in places]
        return np.array(codes, dtype=np.int64).reshape(-1, len(self._state))

    def _place(self) -> int:
        if not self._free:
            raise Unproven(f"proof.order: expected at most {PLACES} open nets and labels")
        return self._free.pop()

    def _leave(self, codes: Longs, place: int) -> None:
        codes &= ~np.int64(3 << 2 * place)
        self._free.append(place)

    def _append(self, unit: int | None, codes: Longs, costs: Longs, possible: Flags) -> None:
        self._clock.tick()
        load = self._least + costs
        load[IN] += 0 if unit is None else self.sets.work[unit]
        possible &= load <= self._target
        self._state, number = np.unique(codes[possible], return_inverse=True)
        self._least = _least(load[possible], number, len(self._state))
        if len(self._state) > STATES:
            raise Unproven(f"proof.order: expected at most {STATES} states")
        after = np.full(codes.shape, -1, dtype=np.int64)
        after[possible] = number
        self.layers.append(Layer(unit, after, costs))

    def _merge(self) -> None:
        """Make one of states that have become the same."""
        self._state, number = np.unique(self._state, return_inverse=True)
        self._least = _least(self._least, number, len(self._state))
        after = self.layers[-1].next
        after[after >= 0] = number[after[after >= 0]]


def _least(load: Longs, group: Longs, groups: int) -> Longs:
    least = np.full(groups, 2 * MOST_LOAD)
    np.minimum.at(least, group, load)
    return least


def _lists(told: Mapping[str, Any], key: str, length: int, most: int) -> list[list[int]]:
    """Return a list of lists of so many integers, empty if there is none of that name."""
    some = told.get(key, [])
    if not isinstance(some, list):
        raise Unproven(f"proof.{key}: expected a list, found {describe(some)}")
    return [integers({key: each}, key, most, length) for each in some]
