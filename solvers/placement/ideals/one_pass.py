"""Bounds on the loads of contiguous sets by the ideals of one pass.

Devices with contiguous sets may be on a cycle. They are chains of ideals nevertheless if each group of devices that
reach each other is one step, of two devices at least. docs/certificates/placement.md has the argument; its checker
finds the same states.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shardmark.instances.graph import Graph, Index
from shardmark.instances.placement import Instance
from shardmark.solvers._ideals import IdealEnumerator
from shardmark.solvers.native import Longs
from shardmark.solvers.placement.ideals.blocks import edges_between
from shardmark.solvers.placement.ideals.pass_order import PassOrder, pass_order, reached, turned
from shardmark.solvers.registry import Proof

#: Most ideals; tables have an entry for each pair.
MOST = 3000
#: Bits of the sum of all times, which are rounded down to integers.
BITS = 60
#: Relative error of sums, by which a target is raised before it is refuted.
ROUNDING = 2.0**-46
#: More accelerators than there are.
NEVER = 1 << 40
#: Relative difference between targets at which the search ends.
CLOSE = 1e-7

Flags = NDArray[np.bool_]


def one_pass(instance: Instance, cost: float, stop: Index) -> list[OnePass]:
    """The relaxations to each pass, for targets up to a cost; ``stop``, shape (1,), int32, is 1 once time is up.

    None if transfers overlap, stages have replicas or there are more than `MOST` ideals.
    """
    if instance.overlap != "none" or instance.allreduce is not None or not 0 < cost < math.inf:
        return []
    found = [OnePass(instance, back, cost, stop) for back in ((False, True) if instance.training else (False,))]
    return [one for one in found if one.ideals]


def contiguous_bounds(
    instance: Instance, cost: float, low: float, high: float, stop: Index
) -> Iterator[tuple[float, Proof]]:
    """Yield growing bounds above ``low``, with their proofs, first ``high`` if possible; a placement has the cost."""
    passes, target = one_pass(instance, cost, stop), high
    while passes and target > low and not stop[0]:
        found = next((one for one in passes if one.refutes(target)), None)
        if found is None:
            high = target
        else:
            yield target, found.proof(target)
            low = target
        if high - low <= CLOSE * cost:
            return
        target = (low + high) / 2


class OnePass:
    """The states of an instance with the order of a pass; times are multiples of a power of two.

    ``ideals``  their number, 0 if there are more than `MOST`; subsets come first
    ``has``     shape (ideals, items), bool
    ``chosen``  what a proof has to say of the order
    """

    def __init__(self, instance: Instance, backward: bool, cost: float, stop: Index) -> None:
        self.instance, self.stop, self.cost = instance, stop, cost
        order = pass_order(instance, backward, cost)
        self.chosen: Mapping[str, Any] = {
            "pass": "backward" if backward else "forward",
            "without": np.flatnonzero(order.left_out).tolist(),
            "skipped": sorted(order.skipped),
        }
        self.items, item = int(order.item.max(initial=-1)) + 1, order.item[instance.unit]
        pairs = [(u, v) for v, nodes in enumerate(order.near) for u in nodes]
        tail, head = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
        self._list(Graph(self.items, *edges_between(item, tail, head)))
        if self.ideals:
            self._sum_up(order)
            self._compare(order, item)

    def proof(self, target: float) -> Proof:
        """The proof of a target that is refuted."""
        return lambda: {"kind": "states", "target": target, **self.chosen}

    def _list(self, order: Graph) -> None:
        core = IdealEnumerator(order, self.stop)
        count, links = core.count(MOST, MOST * (order.nodes + 1))
        self.ideals = count if order.nodes and count <= MOST and not self.stop[0] else 0
        if not self.ideals:
            return
        listed = core.list(count, links)
        self.ideals = count = len(listed)
        first = listed.start[1:-1]
        self.parent, self.added = np.append(0, listed.less[first]), np.append(0, listed.node[first])
        self.has = np.zeros((count, order.nodes), dtype=np.bool_)
        for ideal in range(1, count):
            self.has[ideal] = self.has[self.parent[ideal]]
            self.has[ideal, self.added[ideal]] = True

    def _sum_up(self, order: PassOrder) -> None:
        """Sum times and sizes over the items of each ideal, and tabulate what differences of ideals move."""
        instance, kept = self.instance, ~order.left_out
        accelerator, cpu = instance.unit_times()
        shared, nets = _nets(instance, order)
        columns = [accelerator + shared, cpu, instance.of_units(instance.size)]
        fast, slow, self.size = (np.bincount(order.item[kept], each[kept], self.items) for each in columns)
        most = 2 * self.cost  # above all targets, also raised ones
        fast, slow = (np.minimum(each, most) for each in (fast, slow))
        nets = {net: min(time, most) for net, time in nets.items()}
        total = fast.sum() + slow.sum() + sum(nets.values()) + most
        self.exponent = BITS - math.frexp(total)[1]
        held = self.has.astype(np.int64)
        self.fast, self.slow = held @ self._whole(fast), held @ self._whole(slow)
        self.held = self.has @ self.size
        self.moved, self.larger = self._differences({net: int(self._whole(time)) for net, time in nets.items()})
        self.units = np.bincount(order.item[kept])

    def _whole(self, times: Any) -> Any:
        return np.floor(np.ldexp(times, self.exponent)).astype(np.int64)

    def _differences(self, nets: Mapping[tuple[int, ...], int]) -> tuple[Longs, Flags]:
        """Shape (ideals, ideals): what the second ideal without the first one moves, and whether it contains it."""
        moved = np.zeros((self.ideals, self.ideals), dtype=np.int64)
        larger = np.zeros((self.ideals, self.ideals), dtype=np.bool_)
        larger[0] = True
        of: list[list[tuple[Longs, int, int]]] = [[] for _ in range(self.items)]
        for net, time in nets.items():
            held = self.has[:, net].sum(axis=1)
            moved[0] += time * ((held > 0) & (held < len(net)))
            for v in net:
                of[v].append((held, len(net), time))
        for ideal in range(1, self.ideals):
            parent, v = self.parent[ideal], self.added[ideal]
            larger[ideal] = larger[parent] & self.has[:, v]
            moved[ideal] = moved[parent]
            for held, size, time in of[v]:
                moved[ideal, held == held[parent] + 1] -= time
                if not held[parent]:
                    moved[ideal, held == size] += time
            if self.stop[0]:
                break
        return moved, larger

    def _compare(self, order: PassOrder, item: Longs) -> None:
        """Sum over the items of each ideal what is comparable: nodes to all of an item, and items to each other."""
        after = turned(order.near)
        nodes = [v for v, near in enumerate(order.near) if near or after[v]]
        before = reached(self.instance, order.near)
        of = item[nodes]
        comparable = np.array([[before[v] >> u & 1 for u in nodes] for v in nodes], dtype=np.bool_)
        comparable |= comparable.T
        member = (of[:, None] == np.arange(self.items)).astype(np.float32)
        related = member.T @ comparable @ member > 0
        np.fill_diagonal(related, self.units > 1)
        every = (comparable | np.eye(len(nodes), dtype=np.bool_)) @ member == member.sum(axis=0)
        whole = np.unique(np.column_stack([of, every])[every[np.arange(len(nodes)), of]], axis=0)
        held = self.has.astype(np.float32)
        self.waist, self.every, self.related = whole[:, 0], held @ whole[:, 1:].T, held @ related

    def refutes(self, target: float) -> bool:
        """True if no chain of ideals, whose steps are devices with loads below the target or groups, has all items."""
        limit = math.ceil(math.ldexp(target, self.exponent) * (1 + ROUNDING))
        accelerators, cpus = self.instance.accelerators, min(self.instance.cpus, int(self.units.sum()))
        used = np.full((self.ideals, cpus + 1), NEVER)  # the least accelerators, by the number of CPUs
        used[0, 0] = 0
        for ideal in range(self.ideals):
            fewest = used[ideal]
            if fewest.min() > accelerators:
                continue
            if self.stop[0]:
                return False
            larger = self.larger[ideal]
            on = larger & (self.fast - self.fast[ideal] + self.moved[ideal] < limit)
            on &= self.held - self.held[ideal] <= self.instance.room
            off = larger & (self.slow - self.slow[ideal] < limit)
            used[on] = np.minimum(used[on], fewest + 1)
            used[off, 1:] = np.minimum(used[off, 1:], fewest[:-1])
            two = fewest + 2
            two[1:] = np.minimum(two[1:], fewest[:-1] + 1)
            two[2:] = np.minimum(two[2:], fewest[:-2])
            if two.min() <= accelerators:
                ends = np.flatnonzero(larger & (two < used).any(axis=1) & ~(on & (off | (cpus < 2))))
                ends = ends[self._groups(ideal, ends)]
                used[ends] = np.minimum(used[ends], two)
        return bool(used[-1].min() > accelerators)

    def _groups(self, ideal: int, ends: Longs) -> Flags:
        """True for ideals whose difference to a smaller one may belong to several devices that reach each other."""
        joined = (self.has[ends] > self.has[ideal]) & (self.related[ends] > self.related[ideal])
        count = joined.sum(axis=1)
        waist = joined[:, self.waist] & (self.every[ends] - self.every[ideal] == count[:, None])
        possible: Flags = (count > 0) & ~waist.any(axis=1)
        return possible


def _nets(instance: Instance, order: PassOrder) -> tuple[Any, dict[tuple[int, ...], float]]:
    """What units share of the time of those left out, shape (units,), and the time of each net of several items.

    An accelerator with a unit moves a net of this unit and one that is left out, or has that one too.
    """
    members = [{unit} for unit in instance.unit.tolist()]
    real = ~instance.artificial
    for u, v in zip(instance.graph.tail[real].tolist(), instance.graph.head[real].tolist(), strict=True):
        members[u].add(int(instance.unit[v]))
    times: dict[tuple[int, ...], float] = {}
    for units, time in zip(members, instance.transfer.tolist(), strict=True):
        if len(units) > 1 and time:
            key = tuple(sorted(units))
            times[key] = times.get(key, 0.0) + time
    left, shared = instance.unit_times()[0].tolist(), np.zeros(len(order.item))
    nets: dict[tuple[int, ...], float] = {}
    for key, time in sorted(times.items()):
        kept = [unit for unit in key if not order.left_out[unit]]
        if len(key) == 2 and len(kept) == 1:
            other = sum(key) - kept[0]
            part = min(time, left[other])
            left[other] -= part
            shared[kept[0]] += part
        items = tuple(sorted({int(order.item[unit]) for unit in kept}))
        if len(items) > 1:
            nets[items] = nets.get(items, 0.0) + time
    return shared, nets
