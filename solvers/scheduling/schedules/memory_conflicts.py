"""Proofs that no schedule fits the memory: more units than devices, no two of which fit on one device (ours).

With ``reserved``, a device holds a tensor from its departure until its reader has finished. Suppose that a device runs
v and later w. When v starts, the device holds all inputs of v, and the inputs of w that ancestors of v make: these have
finished, while v and w have not. If that exceeds the memory for both orders of v and w, their units conflict: they must
be on different devices. A unit that conflicts with itself fits on no device.

Only vertices that last longer than the tolerance of times are compared, so that a tensor that is released early by the
tolerance is still held at the start of v; ancestors may be shorter. The sharing of links does not matter, as a tensor
departs as soon as its maker has finished.
"""

from __future__ import annotations

import time

import numpy as np
from numpy.typing import NDArray

from shardmark.instances.files.columns import Ints
from shardmark.instances.graph import members
from shardmark.instances.scheduling import Instance

#: Most vertices to compare with each other: those with the largest inputs.
MOST_COMPARED = 2000

#: Most vertices of a graph: the ancestors of all take n^2 bits.
MOST_NODES = 20_000


def too_many_conflicts(instance: Instance, devices: Ints, among: Ints, end: float) -> bool:
    """True if it is proved before the time ``end`` that the vertices ``among`` need more than the ``devices``.

    They may use no other devices, and must last longer than the tolerance of times.
    """
    if instance.holding != "reserved" or instance.nodes > MOST_NODES or time.monotonic() >= end:
        return False
    conflicts = _conflicts(instance, devices, among)
    return bool(conflicts.diagonal().any()) or _has_clique(conflicts, len(devices) + 1, end)


def _conflicts(instance: Instance, devices: Ints, among: Ints) -> NDArray[np.bool_]:
    """Mask of conflicts, shape (units, units), between the units of the compared vertices."""
    graph, size, n = instance.graph, instance.size, instance.nodes
    read = np.bincount(graph.head, size, n)
    compared = among[np.argsort(-read[among], kind="stable")[:MOST_COMPARED]]
    place = np.full(n, -1)
    place[compared] = np.arange(len(compared))
    before = _before(instance, compared)
    held = np.zeros((len(compared), len(compared)))  # row w, column v: size of the inputs of w from ancestors of v
    for e in np.flatnonzero(place[graph.head] >= 0).tolist():
        held[place[graph.head[e]]] += size[e] * before[graph.tail[e]]
    rounding = 1 - (instance.edges + 1) * float(np.finfo(np.float64).eps)  # so that no load exceeds the exact sum
    load = (held.T + read[compared, None]) * rounding  # row v, column w
    too_much = (load > 0) & (load >= instance.capacity[devices].max())
    np.fill_diagonal(too_much, False)  # not with itself
    units, unit = np.unique(instance.unit[compared], return_inverse=True)
    apart = np.zeros((len(units), len(units)), dtype=np.bool_)
    first, second = np.nonzero(too_much & too_much.T)
    apart[unit[first], unit[second]] = True
    return apart


def _before(instance: Instance, compared: Ints) -> NDArray[np.bool_]:
    """Mask, shape (n, compared), of the ancestors of the compared vertices."""
    n, ancestors = instance.nodes, instance.graph.ancestors()
    before = np.zeros((n, len(compared)), dtype=np.bool_)
    for column, v in enumerate(compared.tolist()):
        before[members(ancestors[v] & ~(1 << v), n), column] = True
    return before


def _has_clique(adjacent: NDArray[np.bool_], size: int, end: float) -> bool:
    """True if a greedy search from some unit finds a clique of this size; it adds units that keep most candidates."""
    degree = adjacent.sum(axis=1)
    for start in np.argsort(-degree, kind="stable").tolist():
        if degree[start] < size - 1 or time.monotonic() >= end:
            break
        left, count = adjacent[start], 1
        while left.any() and count < size:
            choice = np.flatnonzero(left)
            left = left & adjacent[choice[np.argmax(adjacent[np.ix_(choice, choice)].sum(axis=1))]]
            count += 1
        if count >= size:
            return True
    return False
