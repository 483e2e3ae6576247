"""Proofs by the configuration program: what a checker needs to find the greatest worth of a device's set again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from shardmark.solvers.native import Longs
from shardmark.solvers.placement.configuration.master import Kind
from shardmark.solvers.placement.throughput.formulas import net_members

#: Rates are in units of 2 to the power of minus this.
RATE = 16
#: Greatest rate, in bits, and the difference in bits up to which the best one is searched for.
MOST_RATE, NEAR = 22, 0.2
#: Factors of the best rate that are rates too: they leave out labels with more or less load to come.
FACTORS = (0.7, 1.0, 1.4)


@dataclass(frozen=True, eq=False)
class Evidence:
    """Worths of which devices with loads of at most a target cannot hold all.

    ``most``   the greatest worth of a set, per kind of devices
    ``price``  price of memory, per kind
    ``slack``  by how much the sum of all worths exceeds the least that proves the target
    """

    target: int
    worth: Longs
    most: Sequence[int]
    price: Sequence[float]
    slack: int


def written(evidence: Evidence, kinds: Mapping[str, Kind], scale: float, computing: float | None) -> dict[str, Any]:
    """The proof, for kinds of devices by name; ``computing`` is the weight of computation if transfers overlap."""
    proof: dict[str, Any] = {
        "kind": "configurations",
        "scale": int(np.log2(scale)),
        "target": evidence.target,
        "worth": evidence.worth.tolist(),
        **({} if computing is None else {"computing": computing}),
    }
    spare = evidence.slack // next(iter(kinds.values())).count
    for (name, kind), most, price in zip(kinds.items(), evidence.most, evidence.price, strict=True):
        worth = evidence.worth - np.floor(price * kind.memory.size).astype(np.int64)
        best = _best_rate(kind, worth, evidence.target)
        rates = sorted({min(int(best * factor), 2**MOST_RATE) for factor in FACTORS})
        order = kind.diagram.order[kind.diagram.order < len(worth)].tolist()
        told = {"most": most + spare, "order": order, "rates": rates}
        spare = 0
        members = net_members(kind.nets)
        number = {net: at for at, net in enumerate(sorted(range(len(members)), key=members.__getitem__))}
        parts = [[number[net], first, last] for net, first, last in kind.told.parts]
        labels = [list(label) for label in kind.told.labels]
        more = {"price": price, "unit": kind.weights.unit, "part": parts, "labels": labels}
        proof[name] = {**told, **{key: value for key, value in more.items() if value}}
    return proof


def _best_rate(kind: Kind, worth: Longs, target: int) -> int:
    """The rate that bounds the worth of a set best, near enough: golden section search over its logarithm.

    The bound is convex in the rate.
    """
    low, high, ratio = 0.0, float(MOST_RATE), (5**0.5 - 1) / 2

    def bound(power: float) -> int:
        return _bound(kind, worth, target, int(2.0**power))

    left, right = high - ratio * high, ratio * high
    at_left, at_right = bound(left), bound(right)
    while high - low > NEAR:
        if at_left <= at_right:
            high, right, at_right = right, left, at_left
            left = high - ratio * (high - low)
            at_left = bound(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + ratio * (high - low)
            at_right = bound(right)
    return int(2.0 ** ((low + high) / 2))


def _bound(kind: Kind, worth: Longs, target: int, rate: int) -> int:
    """Bound on the worth of a set by a rate, in units of 2^-`RATE`."""
    diagram, rest, worth = kind.diagram, np.zeros(1, dtype=np.int64), np.append(worth, 0)
    for at in range(len(diagram.order) - 1, -1, -1):
        first, last = diagram.layer[at : at + 2].tolist()
        after, pay = diagram.next[first:last] - last, diagram.pay[first:last]
        best = rest[after[:, 0]] - rate * pay[:, 0]
        if diagram.work[at] >= 0:
            gain = (int(worth[diagram.order[at]]) << RATE) - rate * (pay[:, 1] + diagram.work[at])
            best = np.maximum(best, rest[after[:, 1]] + gain)
        rest = best
    return int(rest[0]) + rate * target
