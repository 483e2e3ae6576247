"""The order of units by the nodes of one pass, without nodes that say nothing more or belong to small side branches."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from shardmark.instances.files.columns import Ints
from shardmark.instances.graph import strong_components
from shardmark.instances.placement import Instance

#: Units that take this share of the cost at most are small.
SMALL = 1e-3

#: For each node, others: none if the node does not count.
Others = list[set[int]]


@dataclass(frozen=True, eq=False)
class PassOrder:
    """Units of an instance in the order of a pass.

    ``near``      for each node that counts, the last such nodes on the paths to it
    ``skipped``   nodes that do not count
    ``left_out``  shape (units,), bool: units without nodes that count
    ``item``      shape (units,), int64: 0, 1, ... along the order, equal for units on a cycle; -1 if left out
    """

    near: Others
    skipped: set[int]
    left_out: NDArray[np.bool_]
    item: Ints


def pass_order(instance: Instance, backward: bool, cost: float) -> PassOrder:
    """Skip nodes that order their own unit only, repeat other nodes, or are first or last ones of small units.

    A unit is small if it is so beside ``cost``. A first or last node repeats another one of its unit if that is before
    or after all that it is before or after.
    """
    unit, small = instance.unit.tolist(), (instance.unit_times()[0] <= SMALL * cost).tolist()
    skipped: set[int] = set()
    while True:
        near = _near(instance, backward, skipped)
        after = turned(near)
        ends = {v for v, (one, other) in enumerate(zip(near, after, strict=True)) if bool(one) != bool(other)}
        new = {v for v in ends if small[unit[v]]}
        new |= {
            v for v, one in enumerate(near) if (one or after[v]) and all(unit[u] == unit[v] for u in one | after[v])
        }
        new = new or _repeating(instance, ends, near, after)
        if not new:
            break
        skipped |= new
    pairs = [(unit[u], unit[v]) for v, nodes in enumerate(near) for u in nodes]
    tail, head = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    component = strong_components(len(small), tail, head).astype(np.int64)
    left_out = np.ones(len(small), dtype=np.bool_)
    left_out[tail] = left_out[head] = False
    item = np.full(len(small), -1)
    item[~left_out] = np.unique(-component[~left_out], return_inverse=True)[1]  # edges lead to lesser components
    return PassOrder(near, skipped, left_out, item)


def turned(near: Others) -> Others:
    """The nodes that each node is near to."""
    after: Others = [set() for _ in near]
    for v, nodes in enumerate(near):
        for u in nodes:
            after[u].add(v)
    return after


def reached(instance: Instance, near: Others) -> list[int]:
    """The nodes before each node, as the bits of an integer."""
    before = [0] * len(near)
    for v in instance.graph.topological_order.tolist():
        for u in near[v]:
            before[v] |= before[u] | 1 << u
    return before


def _near(instance: Instance, backward: bool, skipped: set[int]) -> Others:
    start, tail = (column.tolist() for column in instance.graph.in_csr)
    inside = (instance.backward == backward).tolist()
    near: Others = [set() for _ in inside]
    for v in instance.graph.topological_order.tolist():
        for u in tail[start[v] : start[v + 1]] if inside[v] else ():
            if inside[u]:
                near[v] |= near[u] if u in skipped else {u}
    return [set() if v in skipped else nodes for v, nodes in enumerate(near)]


def _repeating(instance: Instance, ends: set[int], near: Others, after: Others) -> set[int]:
    """Ends of the order that repeat nodes which are none of these."""
    unit, before = instance.unit.tolist(), reached(instance, near)
    own: dict[int, list[int]] = {}
    for v, nodes in enumerate(near):
        if nodes or after[v]:
            own.setdefault(unit[v], []).append(v)
    found: set[int] = set()
    for v in sorted(ends):
        others = [u for u in own[unit[v]] if u != v and u not in found]
        if near[v]:
            repeats = any(all(unit[w] == unit[v] or before[u] >> w & 1 for w in near[v]) for u in others)
        else:
            repeats = any(all(unit[w] == unit[v] or before[w] >> u & 1 for w in after[v]) for u in others)
        if repeats:
            found.add(v)
    return found
