"""Annealing of placements for throughput: first placements, the best one so far, annealing runs."""

from __future__ import annotations

import dataclasses
import math
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext, suppress
from functools import partial
from itertools import product
from threading import Lock

import numpy as np

from instances.files.columns import Floats, Ints
from instances.graph import Graph, Index
from instances.placement import OPTIONS, Instance
from solvers.placement.ideals.dynamic_program import IdealProgram, deadline
from solvers.placement.ideals.splits import ideal_programs
from solvers.placement.kernels.loads import Devices, LoadAnnealer, LoadCooling
from solvers.placement.throughput.anchored import anchored_bound
from solvers.placement.throughput.configurations import Limits, configuration_bounds
from solvers.placement.throughput.moves import Space, spaces
from solvers.placement.throughput.pooled import pooled_bound
from solvers.placement.throughput.proof import Proof
from solvers.placement.throughput.simple_bounds import load_bound, node_bound
from solvers.registry import Declined, Run

#: Relative difference up to which loads are equal: the referee's rounding may differ.
TOLERANCE = 1e-9
#: Relative difference up to which a bound proves a cost optimal: the proof counts in integers.
PROVEN = 1e-7
#: The annealing runs of a round, for an energy that evens out all devices, and for one of the worst device, at
#: temperatures in units of the mean work of an item. Along an order devices only even out if that outweighs transfers:
#: the smaller the excess is, the less its square grows by a transfer, while differences between devices count the same.
WORST = LoadCooling(moves=0, hot=1.0, cold=0.01, margin=0.01, squared=False)
COOLINGS = (LoadCooling(moves=0, hot=4.0, cold=0.04, margin=0.35, squared=True), WORST)
ORDERED_COOLINGS = (LoadCooling(moves=0, hot=0.2, cold=0.002, margin=0.05, squared=True), WORST)
#: Moves per item for the full first temperature.
MELTING_MOVES = 2000
#: Least share of the first temperature, for few moves.
COLDEST = 0.1
#: Moves of an annealing run of the first round.
FIRST = 100_000
#: Moves between two looks at the time.
SLICE = 50_000
#: Least moves per item between two looks at the time: setting up a kernel call takes as long as one move per item.
SLICE_SHARE = 3
#: Steps in which the cuts of an order are balanced.
EVENINGS = 6
#: Random orders in which devices are filled if nothing else has been found.
PACKINGS = 1000
#: Share of the time that is kept for the last slices to end.
RESERVE = 0.03
#: Share of the time for the split of a linear extension.
LINEAR_SHARE = 0.25
#: Share of the time for the minimum cuts of a bound.
PROOF_SHARE = 0.05
#: A space is searched while its best placement costs at most so many times as much as the best of all.
NEAR = 1.1
#: First rounds, in which all spaces are searched.
FIRST_ROUNDS = 3


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


def fill(devices: Devices, order: Sequence[int], choose: Callable[[Ints, Floats], int]) -> Index | None:
    """A placement, shape (items,), of items in an order, each on a chosen accelerator with room, else on a chosen CPU.

    ``choose`` gets the numbers to choose from and the work of every device by then. None if an item fits nowhere.
    """
    k, work = devices.accelerators, np.zeros(devices.accelerators + devices.cpus)
    room, device = np.full(k, devices.memory), np.zeros(len(devices.size), dtype=np.int32)
    cpus = np.arange(k, k + devices.cpus)
    for v in order:
        fitting = np.flatnonzero(room >= devices.size[v]) if math.isfinite(devices.accelerator_time[v]) else cpus
        fitting = fitting if len(fitting) else cpus
        if not len(fitting):
            return None
        device[v] = there = choose(fitting, work)
        work[there] += devices.accelerator_time[v] if there < k else devices.cpu_time[v]
        room[there : there + 1] -= devices.size[v]  # of no CPU
    return device


def least_work(fitting: Ints, work: Floats) -> int:
    """The device with least work."""
    return int(fitting[np.argmin(work[fitting])])


def first_below(share: float, fitting: Ints, work: Floats) -> int:
    """The first device with less work than a share, else the one with least work."""
    below = fitting[work[fitting] < share]
    return int(below[0]) if len(below) else least_work(fitting, work)


def in_turn(devices: Devices, order: Sequence[int], weight: Floats) -> Index | None:
    """A placement, shape (items,), of items in an order: accelerators in turn, each full or with its share of weight.

    ``weight`` has shape (items,) and is not negative. None if items are left over, or not supported.
    """
    device, there, room, k = np.zeros(len(devices.size), dtype=np.int32), 0, devices.memory, devices.accelerators
    work, share = 0.0, float(weight.sum()) / max(k, 1)
    if not (devices.accelerator_time < np.inf).all():
        return None
    for v in order:
        size = float(devices.size[v])
        work += weight[v]
        if room < size or (work > (there + 1) * share * (1 + TOLERANCE) and there + 1 < k):
            there, room = there + 1, devices.memory
        if there >= k or room < size:
            return None
        device[v], room = there, room - size
    return device


def random_order(space: Space, rng: np.random.Generator) -> list[int]:
    """The items in a random order, a topological one if devices have an order."""
    key = rng.random(len(space.first))
    if space.rules.order is None:
        return np.argsort(key).tolist()
    rank = np.argsort(np.argsort(key))
    order = Graph(len(key), rank[space.rules.order.tail], rank[space.rules.order.head]).topological_order
    return np.argsort(rank)[order].tolist()


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
        self.bound = max(self._spread, node_bound(instance), self._pooled.bound)

    @property
    def cost(self) -> float:
        """Cost of the best placement, infinite before the first."""
        return min(self.costs)

    def over(self) -> bool:
        """Return whether the time is over or the best placement is proven optimal."""
        return self.is_optimal(self.cost) or not self.left()

    def left(self) -> float:
        """Return the seconds left, without the time to end and report."""
        return max(0.0, self._run.remaining() - self._reserve)

    def is_optimal(self, cost: float) -> bool:
        """Return whether no placement has less load."""
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
        """Offer placements of even work, and cuts of linear extensions, even and best, which have few transfers."""
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
        self._run.bound(self.bound)
        end = time.monotonic() + 2 * PROOF_SHARE * self._run.remaining()
        with deadline(self._run, PROOF_SHARE) as stop:
            self._take_bound(anchored_bound(self.instance, self._spread, end, stop))

    def proof(self, *, aside: bool) -> Proof:
        """The proof of `configuration_bounds`, to go on beside the search."""
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

    def _take_bound(self, bound: float) -> None:
        if bound > self.bound:
            self.bound = bound
            with self._lock:
                self._run.bound(bound)

    def require_any(self) -> None:
        """Raise Declined if there is no placement."""
        if math.isinf(self.cost):
            raise Declined("found no placement that the memories hold, and there are no CPUs")

    def _offer_simple(self, number: int) -> None:
        """Offer everything on a CPU, and accelerators that follow one another, even in their work, then in loads."""
        devices, rules = self.spaces[number].devices, self.spaces[number].rules
        if devices.cpus:
            self.offer_start(number, np.full(len(devices.size), devices.accelerators, dtype=np.int32))
        assert rules.order is not None
        order, weight = rules.order.topological_order.tolist(), devices.accelerator_time
        for _ in range(EVENINGS):
            item = in_turn(devices, order, weight)
            if item is None:
                break
            load = self.offer_start(number, item)
            work = np.bincount(item, weight, len(load))
            with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
                weight = weight * np.nan_to_num(load.sum(axis=1) / work, posinf=0.0)[item]

    def _offer_pooled(self, order: Sequence[int]) -> None:
        """Offer the division of the bound: along an order, accelerators get even shares of its units, CPUs the rest."""
        devices, inside = self.spaces[0].devices, self._pooled.inside
        if inside.any():
            share = float(devices.accelerator_time[inside].sum()) / devices.accelerators
            divided = dataclasses.replace(devices, accelerator_time=np.where(inside, devices.accelerator_time, np.inf))
            self.offer_start(0, fill(divided, order, partial(first_below, share)))

    def _pack(self) -> None:
        """Fill one device after another with items in random orders, until there is a placement."""
        for _ in range(PACKINGS):
            for number, space in enumerate(self.spaces):
                if math.isfinite(self.cost) or not self.left():
                    return
                order = random_order(space, self._run.rng)
                self.offer_start(number, in_turn(space.devices, order, np.zeros(len(order))))

    def _offer_chains(self, number: int, program: IdealProgram) -> None:
        """Offer ever better cuts of a linear extension that use no accelerators beyond those of the space."""
        devices, most, space = self.spaces[number].devices, self.instance.accelerators, self.spaces[number]
        for found in program.cuts(self._run.memory, math.inf):
            device = found.device[space.first]
            cpu = device >= most
            if not ((device >= devices.accelerators) & ~cpu).any():
                self.offer_start(number, (device - np.where(cpu, most - devices.accelerators, 0)).astype(np.int32))


def anneal(search: Search, run: Run, most: float = math.inf, *, proves: bool = True) -> None:
    """Improve on the best placements in rounds of annealing runs, each twice as long, up to ``most`` moves.

    If it ``proves``, the proof goes on beside them on one core; after each round for as long if there is only one.
    """
    coolings = COOLINGS if search.instance.contiguity == "free" else ORDERED_COOLINGS
    moves, rounds = int(min(FIRST, most)), 0
    with search.proof(aside=run.cores > 1) if proves else nullcontext() as proof:
        while 0 < moves <= most and not search.over():
            began = time.monotonic()
            highest = sys.float_info.max if rounds < FIRST_ROUNDS else NEAR * search.cost
            kinds = list(product(coolings, [number for number, cost in enumerate(search.costs) if cost <= highest]))
            kinds *= math.ceil(run.cores / len(kinds))
            seeds = run.rng.integers(2**63, size=len(kinds)).tolist()
            runs = [_AnnealingRun(search, seed, *kind, moves) for seed, kind in zip(seeds, kinds, strict=True)]
            with ThreadPoolExecutor(run.cores - (proof.threads if proof else 0)) as pool:
                annealers = list(pool.map(_AnnealingRun.run_down, runs))
            for annealing, annealer in zip(runs, annealers, strict=True):
                search.offer(annealing.number, annealer.best, annealer.cost)
            if proof:
                proof.advance(time.monotonic() - began)
            moves, rounds = _next(moves, time.monotonic() - began, search.left()), rounds + 1


def _next(moves: int, took: float, left: float) -> int:
    """Moves of the next round: twice as many, or as many as the rest of the time allows if that is not much more."""
    return 2 * moves if left > 4.0 * took else int(0.9 * moves * left / max(took, 1e-9))


class _AnnealingRun:
    """An annealing run in a space, from hot to cold, that begins with the best placement there."""

    def __init__(self, search: Search, seed: int, kind: LoadCooling, number: int, moves: int) -> None:
        self.space, self.number = search.spaces[number], number
        self.annealer = LoadAnnealer(self.space.devices, self.space.rules, search.items[number], seed)
        self.kind, self.moves, self.search = kind, moves, search

    def run_down(self) -> LoadAnnealer:
        """Run in slices, as long as there is time."""
        slices = max(1, math.ceil(self.moves / max(SLICE, SLICE_SHARE * len(self.space.first))))
        for hot, cold in self._temperatures(slices):
            self.annealer.anneal(dataclasses.replace(self.kind, moves=self.moves // slices, hot=hot, cold=cold))
            if not self.search.left() or self.search.is_optimal(self.annealer.cost):
                break
        return self.annealer

    def _temperatures(self, slices: int) -> list[tuple[float, float]]:
        """The first and the last temperature of each slice; few moves begin colder."""
        heat = min(1.0, max(COLDEST, self.moves / (MELTING_MOVES * len(self.space.first))))
        falling = self.space.grain * np.geomspace(heat * self.kind.hot, self.kind.cold, slices + 1)
        return list(zip(falling[:-1].tolist(), falling[1:].tolist(), strict=True))
