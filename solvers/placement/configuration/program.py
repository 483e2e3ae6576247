"""A lower bound on throughput: no devices with loads below a target cover all items, even fractionally.

The *configuration linear program* of a target T has a variable for each set that a device can hold with a load of at
most T, transfers included. Its dual gives each item a worth y, of any sign. If no accelerator can hold more worth than
P and no CPU more than Q within T, and k P + l Q is below the total worth, then every placement has a device with a load
above T. Any worths give a valid proof; good ones come from column generation (Gilmore and Gomory 1961 for bin packing;
Bansal and Sviridenko 2006 name the program). Our contribution is the computation of P, exactly and with transfers, by
labels on a decision diagram of the sets. Its width is that of a path decomposition of the graph; those of neural
networks are narrow.

On wide graphs the bound is weak: beyond a number of states, the cheapest tensors become free. If sets may have any
shape, memory counts only by a price, a Lagrangian relaxation; states of contiguous sets count it, rounded down.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from shardmark.instances.files.columns import Floats
from shardmark.instances.graph import Index
from shardmark.instances.placement import Instance
from shardmark.instances.rounding import safely
from shardmark.solvers import registry
from shardmark.solvers.native import Longs
from shardmark.solvers.placement.configuration.alone import least_loads
from shardmark.solvers.placement.configuration.labels import Precedence, joined, precedence
from shardmark.solvers.placement.configuration.master import Kind, Master, Memory, Proof
from shardmark.solvers.placement.configuration.narrow_order import narrow_order
from shardmark.solvers.placement.configuration.proof import Evidence, written
from shardmark.solvers.placement.configuration.set_diagram import Sets, set_diagram
from shardmark.solvers.placement.configuration.weights import no_weights, weights
from shardmark.solvers.placement.kernels.loads import Nets
from shardmark.solvers.placement.throughput.anchored import WEIGHTS
from shardmark.solvers.placement.throughput.formulas import net_members
from shardmark.solvers.placement.throughput.moves import Space, spaces

#: A cost and placements of the units, each of shape (units,): accelerators of the instance first, then CPUs.
Known = tuple[float, list[Index]]

#: All work and transfers together become integers below 2 to this power, and all worth.
LOAD_BITS, WORTH_BITS = 36, 29
#: Most states of a layer, and of a diagram.
LAYER, STATES = 4096, 4_000_000
#: Factor on the states of a layer if labels tell which sets are contiguous.
CONTIGUOUS = 4
#: Labels of a layer: for proofs, and to find sets.
LABELS, FEW_LABELS = 300_000, 20_000
#: Bytes of a label, and the share of the memory for them.
LABEL_BYTES, MEMORY_SHARE = 8, 0.25
#: Share of the time for the order of the items.
ORDER_SHARE = 0.1
#: First reach of a step: the relative distance of worths from those of the best proof. After ``PATIENCE`` failed steps
#: it shrinks by ``SHRINK``, down to ``NEAREST``.
REACH, SHRINK, PATIENCE, NEAREST = 0.3, 0.6, 4, 1e-3
#: Relative differences of sums of worth that are ignored.
TOLERANCE = 1e-7
#: Steps for a target before a lesser one is tried.
STEPS = 40
#: Least relative distance of targets from each other, and from an undecided one.
RESOLUTION, NEAR = 5e-8, 1e-3
#: The proof ends after this many consecutive undecided targets near the bound.
VAIN = 4
#: Relative error of an operation on float64.
ROUNDING = 2.0**-52
#: Most items: the master program has a variable for each.
MOST_ITEMS = 5000


class _Stopped(Exception):
    """The search for a set was stopped."""


@dataclass(frozen=True, eq=False)
class Limits:
    """The end of the proof, on `time.monotonic`, its memory in MiB, and a flag that ends it at once."""

    until: float
    memory: float
    stop: Index


class Configurations:
    """The configuration program of an instance, for given weights of computation and of transfers.

    Sets with loads above ``high``, a known cost, are left out.
    """

    def __init__(
        self, space: Space, weights: tuple[float, float], instance: Instance, limits: Limits, high: float
    ) -> None:
        devices, (computing, moving) = space.devices, weights
        self.items, self._accelerators = len(devices.size), instance.accelerators
        self.computing = None if instance.overlap == "none" else computing
        self._until, self._stop = limits.until, limits.stop
        fast = computing * np.where(devices.size <= instance.room, devices.accelerator_time, np.inf)
        slow, cost = computing * devices.cpu_time, moving * devices.nets.cost
        total = max(float(fast[np.isfinite(fast)].sum() + cost.sum()), float(slow.sum()))
        self.scale = 2.0 ** min(LOAD_BITS - math.frexp(total)[1], 1000)
        self.terms, self._limit = instance.nodes + instance.edges, int(min(high * self.scale, 2.0**LOAD_BITS))
        self._labels = int(max(1, min(LABELS, MEMORY_SHARE * limits.memory * 2**20 / (LABEL_BYTES * self.items))))
        self.kinds: list[Kind] = []
        edges = precedence(instance, self.items)
        orders = [
            narrow_order(nets, self.items, time.monotonic() + ORDER_SHARE * self._left())
            for nets in (joined(devices.nets, instance, edges) if devices.accelerators or edges.any else [])
        ]
        if devices.accelerators:
            size = np.where(np.isfinite(fast), devices.size, 0.0)
            memory = Memory(size, instance.room)
            self._add(devices.accelerators, devices.nets, cost, fast, orders, edges, memory)
        if devices.cpus:
            empty = np.zeros(0, dtype=np.int32)
            nets = Nets(np.zeros(self.items + 1, dtype=np.int64), empty, np.zeros(0), empty)
            if not edges.any:
                ratio = np.log(slow + 1e-300) - np.log(fast + 1e-300)
                orders = [np.argsort(ratio, kind="stable").astype(np.int64)]
            self._add(devices.cpus, nets, nets.cost, slow, orders, edges, Memory(np.zeros(self.items), 0.0))
        self.evidence: Evidence | None = None
        base = np.where(np.isfinite(fast), fast, slow) if devices.accelerators else slow
        base = np.maximum(base / max(float(base.sum()), 1e-300), 1e-9 / self.items)
        self.best = Proof(base / base.sum(), np.zeros(len(self.kinds)), 0.0)

    def _add(
        self,
        count: int,
        nets: Nets,
        cost: Floats,
        time_of: Floats,
        orders: list[Longs],
        edges: Precedence,
        memory: Memory,
    ) -> None:
        """Add a kind of devices, with the diagram of fewest states of those along the orders."""
        scale = self.scale * (1 - self.terms * ROUNDING)  # no load is above that of exact sums, rounded down
        whole = (cost * scale).astype(np.int64)
        finite = np.isfinite(time_of)
        work = np.where(finite, np.where(finite, time_of, 0.0) * scale, -1).astype(np.int64)
        some = weights(memory.size, memory.room) if edges.any and memory.tight else no_weights(self.items)
        sets = Sets(work, some, self._limit, edges)
        layers = self.items + sum(map(len, edges.nodes))
        most = max(1, min(LAYER * (CONTIGUOUS if edges.any else 1), STATES // layers))
        found = [set_diagram(nets, whole, sets, order, most) for order in orders]
        diagram, told = min(found, key=lambda each: (-len(each[1].labels), len(each[1].parts), len(each[0].next)))
        self.kinds.append(Kind(count, nets, whole, work, diagram, told, some, memory))

    def _left(self) -> float:
        return max(0.0, self._until - time.monotonic())

    def heaviest(self) -> int:
        """The greatest least load of a set with an item; tries to prove it, and returns the target that is proved."""
        least = np.min([least_loads(kind.diagram, self.items) for kind in self.kinds], axis=0)
        target = min(int(least.max()) - 1, self._limit)
        alone = np.where(np.arange(self.items) == least.argmax(), 1.0, 0.0)
        value = self._evaluate(alone, self.best.price, target).value if target > 0 else 0
        return target if value > 1 else 0

    def proves(self, target: int) -> Iterator[bool | None]:
        """Try to prove that every placement has a load above ``target``; yields None after every undecided step.

        The last value is True if it is proved, False if no worths prove it, None if undecided after `STEPS`.
        """
        best, reach, failed = self._evaluate(self.best.worth, self.best.price, target), REACH, 0
        master = Master(self.items, self.kinds, target)
        for _ in range(STEPS):
            if best.value > 1:
                break
            yield None
            step = master.step(best, reach, self._left())
            if step is None:
                return
            worth, price, value, inside = step
            if (value <= 1 + TOLERANCE and inside) or (value <= best.value + TOLERANCE and reach >= REACH):
                yield False  # the program is linear: a local optimum is global
                return
            if value <= best.value + TOLERANCE:
                reach = REACH
                continue
            self.best = tried = self._evaluate(worth, price, target)
            gain = (tried.value - best.value) / (value - best.value)
            best = self.best = tried if gain > 0 else best
            if gain > 0.5:
                reach, failed = 1.5 * reach, 0
            elif gain < 0.05:
                failed += 1
                reach = max(SHRINK * reach, NEAREST) if failed % PATIENCE == 0 else reach
        yield True if best.value > 1 else None

    def _evaluate(self, worth: Floats, price: Floats, target: int) -> Proof:
        """Find the greatest worth that devices can hold within a target, in exact integers; scale the worths by it."""
        due = [float((cost * kind.memory.size).sum()) for kind, cost in zip(self.kinds, price.tolist(), strict=True)]
        scale = 2.0**WORTH_BITS / (float(np.abs(worth).sum()) + max(due))
        whole = np.floor(worth * scale).astype(np.int64)
        held, most = 0, list[int]()
        for kind, cost in zip(self.kinds, price.tolist(), strict=True):
            due = np.floor(cost * scale * kind.memory.size * (1 - 1e-12)).astype(np.int64)
            # The sizes of a set add up to at most the room, so their price is at most this.
            allowance = math.floor(cost * scale * kind.memory.room * (1 + 1e-9)) + 1 if cost else 0
            most.append(self._most(kind, whole - due, target))
            held += kind.count * (most[-1] + allowance)
        value = int(whole.sum()) / max(held, 1)
        if value > 1:
            self.evidence = Evidence(target, whole, most, (price * scale).tolist(), int(whole.sum()) - held - 1)
        return Proof(worth * scale / max(held, 1), price * scale / max(held, 1), value)

    def _most(self, kind: Kind, worth: Longs, target: int) -> int:
        """The greatest worth that a device can hold within a target; keeps sets of great worth."""
        left = worth
        for _ in range(kind.count):
            value, members = kind.diagram.best_set(left, target, 0, FEW_LABELS, self._stop, relaxed=False)
            if value <= 0:
                break
            kind.add(members)
            left = np.where(members, np.minimum(left, 0), left)
        known = max([0, *(int(worth[members].sum()) for members in kind.within(target))])
        value, members = kind.diagram.best_set(worth, target, known, self._labels, self._stop, relaxed=True)
        if value < 0:
            raise _Stopped
        if value > known:
            kind.add(members)
        return value

    def proof(self) -> Callable[[], dict[str, Any]] | None:
        """The proof of the greatest target proved so far."""
        evidence = self.evidence
        members = net_members(self.kinds[0].nets)
        if len(set(members)) < len(members):
            return None  # the checker does not tell makers and passes of tensors apart
        names = ["accelerators", "cpus"] if self._accelerators else ["cpus"]
        kinds = dict(zip(names, self.kinds, strict=False))
        return None if evidence is None else lambda: written(evidence, kinds, self.scale, self.computing)

    def offer(self, device: Index) -> None:
        """Add the sets of a placement of the items, shape (items,)."""
        for d in np.unique(device).tolist():
            self.kinds[0 if d < self._accelerators else -1].add(device == d)


def configuration_bounds(
    instance: Instance, low: float, high: Callable[[], Known], limits: Limits
) -> Iterator[tuple[float, registry.Proof | None]]:
    """Yield the greatest lower bound so far, at first ``low``, after every step; ends if none is greater, or on time.

    A bound above ``low`` comes with its proof.

    ``high`` returns a known cost and its placements. Valid for all options but replicas, as it is a relaxation of them:
    sets of any shape or contiguous ones, loads as weighted sums of computation and transfers, one pass, no clusters.
    """
    space, means = spaces(replace(instance, contiguity="free"))[0], WEIGHTS[instance.overlap]
    if not 0 < len(space.devices.size) <= MOST_ITEMS:
        return
    for number, each in enumerate(means):
        if time.monotonic() >= limits.until:
            return
        end = time.monotonic() + max(0.0, limits.until - time.monotonic()) / (len(means) - number)
        program = Configurations(space, each, instance, replace(limits, until=end), high()[0])
        with suppress(_Stopped):
            for bound in _rising(program, low, high):
                low = max(low, bound)
                yield low, program.proof()
                if time.monotonic() > end:
                    break


def _rising(program: Configurations, low: float, high: Callable[[], Known]) -> Iterator[float]:
    """Bisect between proved and unproved targets; after undecided ones, start again above them."""
    proved, refused, undecided = int(low * program.scale), 2**LOAD_BITS, 2**LOAD_BITS
    vain = 0
    if (alone := program.heaviest()) > proved:
        proved, low = alone, safely((alone + 1) / program.scale, program.terms)
        yield low
    while vain < VAIN:
        cost, found = high()
        for device in found:
            program.offer(device)
        refused = min(refused, int(min(cost * program.scale, 2.0**LOAD_BITS)))
        undecided = min(undecided, refused)
        if refused - proved <= max(1, RESOLUTION * refused):
            return
        target, result = (proved + undecided) // 2, None
        for result in program.proves(target):
            if result is None:
                yield low
        if result:
            proved, undecided, vain = target, refused, 0
            low = safely((target + 1) / program.scale, program.terms)
        elif result is None:
            near = target - proved <= NEAR * target
            undecided, vain = (refused, vain + 1) if near else (target, vain)
        else:
            refused = target
        yield low
