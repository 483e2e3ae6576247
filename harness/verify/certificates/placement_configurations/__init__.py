"""Proofs for ``placement`` that devices with loads up to a target cannot hold the worth of all units.

``{"kind": "configurations", "scale": e, "target": t, "worth": [...], "accelerators": {...}, "cpus": {...}}``: loads are
whole multiples of 2^-e, rounded down, and no set of such a load of at most t is worth more than a number. If transfers
overlap with computation, ``computing`` is its weight in loads, from 0 to 1. For a kind of devices:

``most``     the greatest worth of a set, after the price of its memory
``price``    price of memory, per accelerator
``unit``     of memory: sets whose sizes, rounded down in this unit, exceed the memory, rounded down, are left out
``order``    the units, in the order in which the check decides on them
``part``     ``[net, first, last]``: positions of the order between which the units of a net count, others do not
``labels``   ``[node, last]``: a node whose label, before, in or after the set, the check decides on after its unit, in
             this order, and keeps until the label of that number; only for contiguous sets
``rates``    worth of a unit of load, in units of 2^-`RATE`: sets whose worth cannot exceed ``most`` by one of these
             rates are left out
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import numpy as np

from shardmark.harness.verify.certificates import Clock, Unproven, fraction, integer, integers
from shardmark.harness.verify.certificates.placement_configurations.sets import (
    IN,
    MOST_LOAD,
    MOST_WEIGHT,
    OUT,
    Diagram,
    Layer,
    Longs,
    Sets,
    passes,
)
from shardmark.harness.verify.certificates.placement_units import Units
from shardmark.instances.files.columns import describe
from shardmark.instances.placement import Instance

#: Limits such that no sum of 64 bits wraps: all worths together, rates; less than any worth at any rate.
MOST_WORTH, RATE, MOST_RATE, NEVER = 1 << 32, 16, 1 << 22, -(1 << 61)
#: Most labels, beyond which two neighbours become one.
LABELS = 1 << 19


def configurations(instance: Instance, proof: Mapping[str, Any], clock: Clock) -> Fraction:
    """Return the least load above the target if the devices cannot hold the worth of all units."""
    if instance.objective != "throughput" or instance.allreduce is not None:
        raise Unproven("proof.kind: expected another kind, as this one is for throughput without replicas")
    units, scale = Units(instance, clock), Fraction(2) ** integer(proof, "scale", -1100, 1100)
    target = integer(proof, "target", 0, MOST_LOAD)
    worth = integers(proof, "worth", MOST_WORTH, len(units.fast))
    if sum(map(abs, worth)) > MOST_WORTH:
        raise Unproven(f"proof.worth: expected at most {MOST_WORTH} in all")
    computing = moving = Fraction(1)
    if instance.overlap != "none":
        computing = fraction(proof, "computing", 1)
        if not 0 <= computing <= 1:
            raise Unproven("proof.computing: expected a weight from 0 to 1")
        moving = (1 - computing) / {"half": 1, "full": 2}[instance.overlap]
    held = 0
    kinds = (("accelerators", instance.accelerators, units.fast), ("cpus", instance.cpus, units.slow))
    for name, count, times in kinds:
        if not count:
            continue
        told = proof.get(name)
        if not isinstance(told, dict):
            raise Unproven(f"proof.{name}: expected an object, found {describe(told)}")
        on = name == "accelerators"
        price, most = fraction(told, "price") if on else Fraction(0), integer(told, "most", 0, MOST_WORTH)
        if price < 0:
            raise Unproven("proof.price: expected a price from 0 on")
        left = [w - int(price * size) for w, size in zip(worth, units.size, strict=True)]
        left = [0 if time is None else w for w, time in zip(left, times, strict=True)]
        if sum(map(abs, left)) > MOST_WORTH:
            raise Unproven(f"proof.price: expected at most {MOST_WORTH} in all, with the worths")
        work = [-1 if time is None else int(computing * time * scale) for time in times]
        nets = [(members, int(moving * cost * scale)) for members, cost in units.nets] if on else []
        sets = Sets(work, *_weights(told, units, on), nets, units.of, *passes(units))
        _Device(told, sets, left, target, clock).require(most)
        held += min(count, len(worth)) * (most + int(price * units.room))
    if sum(worth) <= held:
        raise Unproven(f"proof.worth: expected more than {held} in all, which devices can hold, found {sum(worth)}")
    return (target + 1) / scale


def _weights(told: Mapping[str, Any], units: Units, on: bool) -> tuple[list[int], int]:
    """Return the sizes of units in the unit of a proof, and that of an accelerator, rounded down; 0 without a unit."""
    unit = fraction(told, "unit") if on else Fraction(0)
    if unit < 0 or (unit and units.room >= (MOST_WEIGHT + 1) * unit):
        raise Unproven(f"proof.unit: expected a unit of which an accelerator has at most {MOST_WEIGHT}")
    if not unit:
        return [0] * len(units.size), 0
    most = int(units.room / unit)
    return [min(int(size / unit), most + 1) for size in units.size], most


class _Device:
    """Sets by their loads and worths, along the layers of a diagram."""

    def __init__(self, told: Mapping[str, Any], sets: Sets, worth: list[int], target: int, clock: Clock) -> None:
        self.worth, self.target, self.clock = worth, target, clock
        self.rates = [rate for rate in integers(told, "rates", MOST_RATE) if rate >= 0]
        self.sets, self.layers = sets, Diagram(told, sets, target, clock).layers

    def require(self, most: int) -> None:
        """Raise Unproven unless every set with a load of at most the target is worth at most a number."""
        rest = [self._rest(rate) for rate in self.rates]
        state, load, worth = (np.zeros(1, dtype=np.int64) for _ in range(3))
        for at, layer in enumerate(self.layers):
            self.clock.tick()
            parts = []
            for side, (work, gain) in enumerate(((0, 0), self._taken(layer))):
                possible = layer.next[side][state] >= 0
                old = state[possible]
                cost = load[possible] + layer.cost[side][old] + work
                parts.append((layer.next[side][old], cost, worth[possible] + gain))
            state, load, worth = (np.concatenate(column) for column in zip(*parts, strict=True))
            kept = load <= self.target
            for rate, ahead in zip(self.rates, rest, strict=True):
                kept &= (worth << RATE) + ahead[at + 1][state] + rate * (self.target - load) > most << RATE
            state, load, worth = _undominated(state[kept], load[kept], worth[kept])
        if len(worth) and int(worth.max()) > most:
            raise Unproven(f"proof.most: expected at least {int(worth.max())}, the worth of some set, found {most}")

    def _taken(self, layer: Layer) -> tuple[int, int]:
        """Return the load and the worth that the second choice adds, besides nets."""
        return (0, 0) if layer.unit is None else (self.sets.work[layer.unit], self.worth[layer.unit])

    def _rest(self, rate: int) -> list[Longs]:
        """Return the most that the units from each one on can add to the worth less the load at a rate, by state."""
        rest = [np.zeros(1, dtype=np.int64)]
        for layer in reversed(self.layers):
            self.clock.tick()
            ways = [(rest[-1][after], after >= 0) for after in layer.next]
            work, gain = self._taken(layer)
            values = [(0, layer.cost[OUT]), (gain << RATE, layer.cost[IN] + work)]
            best = [
                np.where(possible, ahead + more - rate * cost, NEVER)
                for (ahead, possible), (more, cost) in zip(ways, values, strict=True)
            ]
            rest.append(np.maximum(*best))
        return rest[::-1]


def _undominated(state: Longs, load: Longs, worth: Longs) -> tuple[Longs, Longs, Longs]:
    """Return the labels that no other one of their state is better than; if there are many, something better."""
    order = np.lexsort((-worth, load, state))
    state, load, worth = state[order], load[order], worth[order]
    best = np.maximum.accumulate(worth + state * (4 * MOST_WORTH))
    kept = np.append(True, best[1:] > best[:-1])[: len(best)]
    state, load, worth = state[kept], load[kept], worth[kept]
    while len(state) > LABELS:  # of two neighbours in a state, the lesser load and the greater worth
        begins = np.flatnonzero(np.append(True, np.diff(state) != 0))
        place = np.arange(len(state)) - np.repeat(begins, np.diff(np.append(begins, len(state))))
        first = np.flatnonzero(place % 2 == 0)
        last = np.minimum(first + 1, len(state) - 1)
        last = np.where(state[last] == state[first], last, first)
        state, load, worth = state[first], load[first], worth[last]
    return state, load, worth
