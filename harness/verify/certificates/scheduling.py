"""Proofs for ``scheduling``: closed formulas, ``{"kind": "formula", "name": NAME}`` with parameters, or all schedules.

``path``   the longest path, every vertex on its fastest device
``work``   work confined to ``devices``, a list, or null for all; with ``scale`` only of vertices whose head is at
           least ``head`` and whose tail is at least ``tail``
``heads``  the greatest sum of a vertex's head, time and tail, and of vertices that one device runs in sequence

Heads and tails are integers in units of 2^-``scale``, rounded down, from at most ``ancestors`` earlier vertices at a
time. The devices of the vertices in each list of ``cases`` are distinguished together, for the next ``reach`` vertices
after the first of the list. With ``elsewhere`` 1, vertices in sequence on other devices than a vertex's own count too.

``{"kind": "solutions"}`` is in `solutions`. docs/certificates/scheduling.md has the argument.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from itertools import accumulate, islice, permutations, product
from typing import Any

import numpy as np

from shardmark.harness.verify.certificates import Clock, Exact, Unproven, integer, integers
from shardmark.harness.verify.certificates.heads_tails import (
    LARGEST,
    allowed,
    heads_and_tails,
    running_times,
    scale_of,
)
from shardmark.harness.verify.certificates.solutions import MOST, least_cost
from shardmark.harness.verify.scheduling import verify
from shardmark.instances.files.columns import Ints, describe
from shardmark.instances.scheduling import Instance


def formula(instance: Instance, proof: Mapping[str, Any], clock: Clock) -> Exact:
    """Return the bound of a formula with its parameters."""
    name = proof.get("name")
    if not isinstance(name, str) or name not in FORMULAS:
        raise Unproven(f"proof.name: expected one of {', '.join(sorted(FORMULAS))}, found {describe(name)}")
    found: Exact = FORMULAS[name](instance, proof, clock)
    return found


def longest_path(instance: Instance, proof: Mapping[str, Any], clock: Clock) -> Exact:
    """Return the length of the longest path, every vertex on its fastest device."""
    work, speed = ([Fraction(each) for each in column.tolist()] for column in (instance.complexity, instance.fastest()))
    (start, tail), ends = (column.tolist() for column in instance.graph.in_csr), [Fraction(0)] * instance.nodes
    for v in instance.graph.topological_order.tolist():
        clock.tick()
        ends[v] = work[v] / speed[v] + max((ends[u] for u in tail[start[v] : start[v + 1]]), default=0)
    return max(ends, default=Fraction(0))


def confined_work(instance: Instance, proof: Mapping[str, Any], clock: Clock) -> Exact:
    """Return the time that a set of devices needs for work that only they may do, between a head and a tail."""
    devices = list(range(instance.devices))
    if proof.get("devices") is not None:
        devices = sorted(set(integers(proof, "devices", instance.devices - 1)) & set(devices))  # no negative numbers
    head, tail = (integer(proof, key, 0, LARGEST) for key in ("head", "tail"))
    confined = [set(choice.tolist()) <= set(devices) for choice in instance.unit_choices]
    confined.append(len(devices) == instance.devices)  # units that may use any
    counts, rest = np.array(confined)[instance.unit_choice][instance.unit], Fraction(0)
    if head or tail:
        scale = scale_of(proof)
        start, behind = heads_and_tails(instance, proof, clock)
        counts = counts & (start.min(axis=1) >= head) & (behind.min(axis=1) >= tail)
        rest = Fraction(head + tail) / Fraction(2) ** scale
    work: dict[int, Fraction] = {}
    for v in np.flatnonzero(counts & (instance.complexity > 0)).tolist():
        unit = int(instance.unit[v])
        work[unit] = work.get(unit, Fraction(0)) + Fraction(float(instance.complexity[v]))
    if not work:
        return 0
    speeds = list(accumulate(sorted((Fraction(float(instance.speed[d])) for d in devices), reverse=True)))
    sums = accumulate(sorted(work.values(), reverse=True))
    return rest + max(total / speeds[min(i, len(speeds) - 1)] for i, total in enumerate(sums))


def longest_through(instance: Instance, proof: Mapping[str, Any], clock: Clock) -> Exact:
    """Return the greatest sum of head, time and tail: of a vertex, and of the vertices of a unit in sequence."""
    scale = scale_of(proof)
    start, behind = heads_and_tails(instance, proof, clock)
    time = running_times(instance, scale)
    most = int((start + time + behind).min(axis=1).max(initial=0))
    order = np.argsort(instance.unit, kind="stable")
    for unit in np.split(order, np.flatnonzero(np.diff(instance.unit[order])) + 1):
        clock.tick()
        if len(unit) > 1:
            ends = _sequence_ends(*(each[unit] for each in (start, time, behind)))
            most = max(most, int(ends.min()))
    return Fraction(most) / Fraction(2) ** scale


def _sequence_ends(start: Ints, time: Ints, behind: Ints) -> Ints:
    """Return the least makespan if a device runs vertices in sequence, shape (k,), given (vertices, k) of each."""
    order = np.argsort(-start, axis=0, kind="stable")
    start, time, behind = (np.take_along_axis(each, order, axis=0) for each in (start, time, behind))
    found = np.zeros(start.shape[1], dtype=np.int64)
    total, least = found.copy(), np.full_like(found, LARGEST)
    for first, takes, after in zip(start, time, behind, strict=True):
        total = np.minimum(total + takes, LARGEST)
        least = np.minimum(least, after)
        found = np.maximum(found, first + total + least)
    return found


FORMULAS = {"path": longest_path, "work": confined_work, "heads": longest_through}


def solutions(instance: Instance, proof: Mapping[str, Any], clock: Clock) -> Exact:
    """Return the least makespan of all devices and orders, less what the referee's roundings add up to."""
    roundings = 8 * (instance.nodes + instance.edges + 1) * (instance.edges + 1)
    return least_cost(instance, verify, _solutions(instance), roundings, clock)


def _solutions(instance: Instance) -> Iterator[dict[str, Any]]:
    """Yield all schedules on devices that vertices may use; those by priorities have an order too."""
    choices = [np.flatnonzero(row).tolist() for row in allowed(instance)]
    for device in product(*choices):
        parts = ([v for v, place in enumerate(device) if place == d] for d in range(instance.devices))
        for order in product(*(islice(permutations(part), MOST + 1) for part in parts)):  # product lists its factors
            yield {"device": list(device), "order": [list(part) for part in order]}


PROOFS = {"formula": formula, "solutions": solutions}
