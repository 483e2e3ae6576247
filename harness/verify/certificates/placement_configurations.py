"""Proofs for ``placement`` that devices with loads up to a target cannot hold the worth of all units.

``{"kind": "configurations", "scale": e, "target": t, "worth": [...], "accelerators": {...}, "cpus": {...}}``: loads are
whole multiples of 2^-e, rounded down, and no set of such a load of at most t is worth more than a number. For a kind of
devices:

``most``     the greatest worth of a set, after the price of its memory
``price``    price of memory, per accelerator
``order``    the units, in the order in which the check decides on them
``part``     ``[net, first, last]``: positions of the order between which the units of a net count, others do not
``rates``    worth of a unit of load, in units of 2^-`RATE`: sets whose worth cannot exceed ``most`` by one of these
             rates are left out
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shardmark.harness.verify.certificates import Clock, Unproven, fraction, integer, integers
from shardmark.harness.verify.certificates.placement_units import Units
from shardmark.instances.files.columns import describe
from shardmark.instances.placement import Instance

Longs = NDArray[np.int64]

#: Limits such that no sum of 64 bits wraps: all loads together, all worths together, rates.
MOST_LOAD, MOST_WORTH, RATE, MOST_RATE = 1 << 38, 1 << 32, 16, 1 << 22
#: Most states of a layer; most nets that are open at a time; most labels, beyond which two neighbours become one.
STATES, OPEN, LABELS = 1 << 14, 31, 1 << 19
#: Codes of an open net: its units so far are all outside the set, all inside, or on both sides.
OUT, IN, BOTH = 0, 1, 2


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
        _Diagram(told, work, left, nets, clock).require(target, most)
        held += min(count, len(worth)) * (most + int(price * units.room))
    if sum(worth) <= held:
        raise Unproven(f"proof.worth: expected more than {held} in all, which devices can hold, found {sum(worth)}")
    return (target + 1) / scale


class _Diagram:
    """The sets of units, decided in an order; states are the codes of the open nets, two bits each.

    ``steps``  per unit in the order: its nets, each with its place in the code, its cost, and whether it opens or ends
    """

    def __init__(self, told: Mapping[str, Any], work: list[int], worth: list[int], nets: Any, clock: Clock) -> None:
        self.clock, units = clock, len(work)
        if sum(w for w in work if w > 0) + sum(cost for _, cost in nets) > MOST_LOAD:
            raise Unproven(f"proof.scale: expected loads of at most {MOST_LOAD} in all")
        order = integers(told, "order", units, units)
        if sorted(order) != list(range(units)):
            raise Unproven("proof.order: expected every unit once")
        self.work, self.worth = [work[v] for v in order], [worth[v] for v in order]
        self.rates = [rate for rate in integers(told, "rates", MOST_RATE) if rate >= 0]
        rank = [0] * units
        for at, v in enumerate(order):
            rank[v] = at
        span = dict.fromkeys(range(len(nets)), (0, units))
        parts = told.get("part", [])
        if not isinstance(parts, list):
            raise Unproven(f"proof.part: expected a list of triples, found {describe(parts)}")
        for part in parts:
            net, first, last = integers({"part": part}, "part", units + len(nets), 3)
            if net not in span:
                raise Unproven(f"proof.part: expected a net from 0 to {len(nets) - 1}, found {net}")
            span[net] = first, last
        self.steps: list[list[tuple[int, int, bool, bool]]] = [[] for _ in range(units)]
        self._open(
            [
                (sorted(at for v in members if first <= (at := rank[v]) <= last), cost)
                for (members, cost), (first, last) in zip(nets, span.values(), strict=True)
            ]
        )

    def _open(self, nets: list[tuple[list[int], int]]) -> None:
        """Give each net a place in the code while it is open."""
        free, ending = list(range(OPEN)), dict[int, list[int]]()
        for places, cost in sorted(pair for pair in nets if len(pair[0]) > 1):
            for end in sorted(end for end in ending if end < places[0]):
                free += ending.pop(end)
            if not free:
                raise Unproven(f"proof.order: expected at most {OPEN} open nets")
            slot = free.pop()
            ending.setdefault(places[-1], []).append(slot)
            for at in places:
                self.steps[at].append((2 * slot, cost, at == places[0], at == places[-1]))

    def _next(self, at: int, code: Longs, side: int) -> tuple[Longs, Longs]:
        """Return the states after a unit is left outside or taken inside, and what the nets cost that this splits."""
        code, cost = code.copy(), np.zeros(len(code), dtype=np.int64)
        for shift, price, opens, _ in self.steps[at]:
            if opens:
                code |= side << shift
            else:
                now = (code >> shift) & 3
                split = (now != side) & (now != BOTH)
                cost[split] += price
                code[split] += (BOTH - now[split]) << shift
        for shift, _, _, ends in self.steps[at]:
            if ends:
                code &= ~np.int64(3 << shift)
        return code, cost

    def _layers(self) -> list[tuple[Longs, list[tuple[Longs, Longs]]]]:
        """Return the states before each unit, and per side those after it, by number, and costs."""
        states, layers = np.zeros(1, dtype=np.int64), []
        for at in range(len(self.steps)):
            self.clock.tick()
            ways = [self._next(at, states, side) for side in (OUT, IN)]
            after, number = np.unique(np.concatenate([code for code, _ in ways]), return_inverse=True)
            if len(after) > STATES:
                raise Unproven(f"proof.order: expected at most {STATES} states")
            numbers = number.reshape(2, -1)
            layers.append((states, [(numbers[side], ways[side][1]) for side in (OUT, IN)]))
            states = after
        return layers

    def require(self, target: int, most: int) -> None:
        """Raise Unproven unless every set with a load of at most the target is worth at most a number."""
        layers = self._layers()
        rest = [self._rest(layers, rate) for rate in self.rates]
        state, load, worth = (np.zeros(1, dtype=np.int64) for _ in range(3))
        for at, (_, ways) in enumerate(layers):
            self.clock.tick()
            parts = [(ways[OUT][0][state], load + ways[OUT][1][state], worth)]
            if self.work[at] >= 0:
                cost = ways[IN][1][state] + self.work[at]
                parts.append((ways[IN][0][state], load + cost, worth + self.worth[at]))
            state, load, worth = (np.concatenate(column) for column in zip(*parts, strict=True))
            kept = load <= target
            for rate, ahead in zip(self.rates, rest, strict=True):
                kept &= (worth << RATE) + ahead[at + 1][state] + rate * (target - load) > most << RATE
            state, load, worth = _undominated(state[kept], load[kept], worth[kept])
        if len(worth) and int(worth.max()) > most:
            raise Unproven(f"proof.most: expected at least {int(worth.max())}, the worth of some set, found {most}")

    def _rest(self, layers: list[tuple[Longs, list[tuple[Longs, Longs]]]], rate: int) -> list[Longs]:
        """Return the most that the units from each one on can add to the worth less the load at a rate, by state."""
        rest = [np.zeros(1, dtype=np.int64)]
        for at in range(len(layers) - 1, -1, -1):
            self.clock.tick()
            (out, free), (into, cost) = layers[at][1]
            best = rest[-1][out] - rate * free
            if self.work[at] >= 0:
                best = np.maximum(best, rest[-1][into] + (self.worth[at] << RATE) - rate * (cost + self.work[at]))
            rest.append(best)
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
