"""The best placements of a search for throughput: the first ones, the lower bound, and its proof."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from threading import Lock

import numpy as np

from shardmark.instances.files.columns import Floats
from shardmark.instances.graph import Index
from shardmark.instances.placement import OPTIONS, Instance
from shardmark.solvers import registry
from shardmark.solvers._ideals import deadline
from shardmark.solvers.placement.configuration.program import Limits, configuration_bounds
from shardmark.solvers.placement.ideals.dynamic_program import IdealProgram
from shardmark.solvers.placement.ideals.splits import ideal_programs
from shardmark.solvers.placement.kernels.loads import LoadAnnealer
from shardmark.solvers.placement.throughput.anchored import anchored_bound
from shardmark.solvers.placement.throughput.filling import fill, fill_by_shares, first_below, least_work, random_order
from shardmark.solvers.placement.throughput.formulas import anchored_proof, best_formula
from shardmark.solvers.placement.throughput.moves import spaces
from shardmark.solvers.placement.throughput.pooled import pooled_bound
from shardmark.solvers.placement.throughput.proof import Proof
from shardmark.solvers.placement.throughput.simple_bounds import load_bound
from shardmark.solvers.registry import Declined, Run

#: Relative difference up to which loads are equal: the referee's rounding may differ.
TOLERANCE = 1e-9
#: Relative difference up to which a bound proves a cost optimal: the proof counts in integers.
PROVEN = 1e-7
#: Steps of balancing the cuts of an order.
EVENINGS = 6
#: Random orders in which devices are filled if nothing else has been found.
PACKINGS = 1000
#: Share of the time reserved for the last slices to end.
RESERVE = 0.03
#: Share of the time for the split of a linear extension.
LINEAR_SHARE = 0.25
#: Share of the time for the minimum cuts of a bound.
PROOF_SHARE = 0.05


def require_single(instance: Instance, name: str) -> None:
    """Decline latency, and replicas."""
    if instance.objective != "throughput":
        raise Declined(f"{name} is for throughput")
    if instance.allreduce is not None:
        raise Declined(f"{name} is for one device a stage, found allreduce {instance.allreduce}")


def require_free(instance: Instance, name: str) -> None:
    """Decline options that the paper's local search does not cover: other loads, and sets of a given shape."""
    require_single(instance, name)
    if instance.contiguity != "free":
        raise Declined(f"{name} places sets of any shape, expected contiguity free, found {instance.contiguity}")
    for option in sorted(OPTIONS.keys() - {"objective", "contiguity"}):
        usual, found = OPTIONS[option].default, getattr(instance, option)
        if found != usual:
            raise Declined(f"{name} is for {option} {usual or 'none'}, found {found}")


class Search:
    """The best placement so far, each of which is reported.

    ``spaces``  the spaces to search
    ``costs``   cost of the best placement in each space, infinite before the first
    ``items``   that placement: the device of each item of the space, shape (items,), int32
    ``bound``   lower bound on the cost of any placement
    """

    def __init__(self, instance: Instance, run: Run) -> None:
        self.instance, self.spaces = instance, spaces(instance)
        self.costs, self.items = [math.inf] * len(self.spaces), [np.zeros(0, dtype=np.int32)] * len(self.spaces)
        self._run, self._lock = run, Lock()
        self._reserve = RESERVE * run.remaining()
        self._spread = load_bound(instance)
        nets = self.spaces[0].devices.nets if instance.contiguity == "free" else None
        self._pooled = pooled_bound(instance, nets, time.monotonic() + PROOF_SHARE * run.remaining())
        self.bound, self._certificate = best_formula(instance, self._pooled)

    @property
    def cost(self) -> float:
        """Cost of the best placement, infinite before the first."""
        return min(self.costs)

    def over(self) -> bool:
        """True if time is up or the best placement is proved optimal."""
        return self.is_optimal(self.cost) or not self.left()

    def left(self) -> float:
        """Seconds left, without the time for ending and reporting."""
        return max(0.0, self._run.remaining() - self._reserve)

    def is_optimal(self, cost: float) -> bool:
        """True if no placement can cost less."""
        return cost <= self.bound * (1 + PROVEN)

    def offer(self, number: int, item: Index, cost: float) -> None:
        """Keep a placement of the items of a space if it is the best there, and report it if it is the best of all."""
        best, space = self.cost, self.spaces[number]
        if not cost < self.costs[number] * (1 - TOLERANCE):
            return
        self.costs[number], self.items[number] = cost, item
        if cost < best * (1 - TOLERANCE):
            cpu = item >= space.devices.accelerators
            device = item + np.where(cpu, self.instance.accelerators - space.devices.accelerators, 0)
            with self._lock:
                self._run.report(device[space.item])

    def offer_start(self, number: int, item: Index | None) -> Floats:
        """Offer a placement, if there is one; return the loads of its devices, shape (devices, passes)."""
        if item is None:
            return np.zeros((0, 0))
        annealer = LoadAnnealer(self.spaces[number].devices, self.spaces[number].rules, item, 0)
        annealer.weigh()
        self.offer(number, annealer.best, annealer.cost)
        return annealer.load

    def begin(self) -> None:
        """Offer placements of balanced work, and balanced and optimal cuts of linear extensions (few transfers)."""
        free = self.instance.contiguity == "free"
        for number, space in enumerate(self.spaces):
            if free:
                largest_first = np.argsort(-space.devices.size, kind="stable").tolist()
                self.offer_start(number, fill(space.devices, largest_first, least_work))
            else:
                self._offer_simple(number)
        chained = dataclasses.replace(self.instance, contiguity="acyclic", schedule="pipedream", allreduce=None)
        with deadline(self._run, LINEAR_SHARE) as stop:
            for way, program in enumerate(ideal_programs(chained, stop)):
                if free:
                    order = np.argsort(program.contracted.item[self.spaces[0].first], kind="stable").tolist()
                    self.offer_start(0, fill(self.spaces[0].devices, order, partial(first_below, self.bound)))
                    self._offer_pooled(order)
                with suppress(Declined):  # the search does not depend on the size of the table
                    self._offer_chains(0 if free else way, program)
        self._pack()
        self.require_any()

    def prove(self) -> None:
        """Report the bound, then a better one from minimum cuts in a share of the time."""
        self._run.bound(self.bound, self._certificate)
        end = time.monotonic() + 2 * PROOF_SHARE * self._run.remaining()
        with deadline(self._run, PROOF_SHARE) as stop:
            found = anchored_bound(self.instance, self._spread, end, stop)
        self._take_bound(found, anchored_proof(self.instance, found))

    def proof(self, *, aside: bool) -> Proof:
        """The proof of `configuration_bounds`, to run during the search."""
        stop = np.zeros(1, dtype=np.int32)
        limits = Limits(self._run.deadline - self._reserve, self._run.memory, stop)
        bounds = configuration_bounds(self.instance, self.bound, self._known, limits)
        return Proof(bounds, self._take_bound, stop, aside=aside)

    def _known(self) -> tuple[float, list[Index]]:
        """The least cost, and the best placements of the spaces, by colocation unit."""
        first = np.unique(self.instance.unit, return_index=True)[1]
        most, found = self.instance.accelerators, list[Index]()
        for space, item, cost in zip(self.spaces, list(self.items), list(self.costs), strict=True):
            if cost < math.inf:
                device = item[space.item[first]]
                found.append(np.where(device < space.devices.accelerators, device, most + device))
        return self.cost, found

    def _take_bound(self, bound: float, certificate: registry.Proof | None = None) -> None:
        if bound > self.bound:
            self.bound = bound
            with self._lock:
                self._run.bound(bound, certificate)

    def require_any(self) -> None:
        """Raise Declined if there is no placement."""
        if math.isinf(self.cost):
            raise Declined("found no placement that the memories hold, and there are no CPUs")

    def _offer_simple(self, number: int) -> None:
        """Offer everything on a CPU, and a chain of accelerators, balanced by work, then by load."""
        devices, rules = self.spaces[number].devices, self.spaces[number].rules
        if devices.cpus:
            self.offer_start(number, np.full(len(devices.size), devices.accelerators, dtype=np.int32))
        assert rules.order is not None
        order, weight = rules.order.topological_order.tolist(), devices.accelerator_time
        for _ in range(EVENINGS):
            item = fill_by_shares(devices, order, weight)
            if item is None:
                break
            load = self.offer_start(number, item)
            work = np.bincount(item, weight, len(load))
            with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
                weight = weight * np.nan_to_num(load.sum(axis=1) / work, posinf=0.0)[item]

    def _offer_pooled(self, order: Sequence[int]) -> None:
        """Offer the division of the bound: accelerators get equal shares of its units along an order, CPUs the rest."""
        devices, inside = self.spaces[0].devices, self._pooled.inside
        if inside.any():
            share = float(devices.accelerator_time[inside].sum()) / devices.accelerators
            divided = dataclasses.replace(devices, accelerator_time=np.where(inside, devices.accelerator_time, np.inf))
            self.offer_start(0, fill(divided, order, partial(first_below, share)))

    def _pack(self) -> None:
        """Fill one device after another with items in random orders until a placement is found."""
        for _ in range(PACKINGS):
            for number, space in enumerate(self.spaces):
                if math.isfinite(self.cost) or not self.left():
                    return
                order = random_order(space, self._run.rng)
                self.offer_start(number, fill_by_shares(space.devices, order, np.zeros(len(order))))

    def _offer_chains(self, number: int, program: IdealProgram) -> None:
        """Offer ever better cuts of a linear extension that use only accelerators of the space."""
        devices, most, space = self.spaces[number].devices, self.instance.accelerators, self.spaces[number]
        for found in program.cuts(self._run.memory, math.inf):
            device = found.device[space.first]
            cpu = device >= most
            if not ((device >= devices.accelerators) & ~cpu).any():
                self.offer_start(number, (device - np.where(cpu, most - devices.accelerators, 0)).astype(np.int32))
