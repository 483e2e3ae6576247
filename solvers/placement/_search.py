"""Searching placements of any shape for throughput: the units as items, placements to begin with, annealing."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial

import numpy as np

from instances.columns import Floats, Ints
from instances.graph import Index, csr
from instances.placement import OPTIONS, Instance
from solvers.native import Cooling, Devices, Nets, Placing
from solvers.placement._contracted import contractions
from solvers.placement._ideals import IdealProgram, deadline
from solvers.registry import Declined, Run

#: Loads that differ by less than this, relatively, are equal: the referee's rounding may differ.
TOLERANCE = 1e-9

#: The chains of a round, for energy that evens out all devices, and for energy of the worst. Temperatures are in units
#: of the mean work of an item.
CHAINS = (
    Cooling(moves=0, hot=4.0, cold=0.04, margin=0.35, squared=True),
    Cooling(moves=0, hot=1.0, cold=0.01, margin=0.01, squared=False),
)

#: Moves for each item that the first temperature is for, and the least share of it that fewer moves begin with.
MELTING, COLDEST = 2000, 0.1

#: Moves of a chain of the first round, and of what is done between two looks at the time.
FIRST, SLICE = 100_000, 50_000

#: Share of the time in which the last slices end.
RESERVE = 0.03

#: Share of the time that the split of a linear extension may take.
LINEAR_SHARE = 0.25


def require_free(instance: Instance, name: str) -> None:
    """Decline what loads of the nets are not all of, and sets that must have a shape."""
    if instance.objective != "throughput":
        raise Declined(f"{name} is for throughput")
    if instance.contiguity != "free":
        raise Declined(f"{name} places sets of any shape, expected contiguity free, found {instance.contiguity}")
    for option in sorted(OPTIONS.keys() - {"objective", "contiguity"}):
        usual, found = OPTIONS[option].default, getattr(instance, option)
        if found != usual:
            raise Declined(f"{name} is for {option} {usual or 'none'}, found {found}")


def unit_devices(instance: Instance) -> Devices:
    """What the instance's units cost on its devices; more devices than units would stay idle."""
    units = int(instance.unit.max()) + 1
    supported = instance.of_units(~instance.supported) == 0
    return Devices(
        accelerators=min(instance.accelerators, units),
        cpus=min(instance.cpus, units),
        memory=instance.capacity,
        accelerator_time=np.where(supported, instance.of_units(instance.accelerator_time), np.inf),
        cpu_time=instance.of_units(instance.cpu_time),
        size=instance.of_units(instance.size),
        nets=_nets(instance, units),
    )


def _nets(instance: Instance, units: int) -> Nets:
    """The units that make and read each tensor that leaves its unit; tensors of the same units are one."""
    tail, head = instance.graph.tail, instance.graph.head
    sent = ~instance.artificial & (instance.transfer[tail] > 0) & (instance.unit[tail] != instance.unit[head])
    tail, head = tail[sent].astype(np.int64), head[sent]
    ends = np.concatenate([instance.unit[tail], instance.unit[head]])
    pairs = np.unique(np.concatenate([tail, tail]) * units + ends)
    made, pin = pairs // units, pairs % units
    cuts = np.flatnonzero(np.diff(made, prepend=-1))
    costs: dict[bytes, float] = {}
    for u, members in zip(made[cuts].tolist(), np.split(pin, cuts[1:]), strict=False):
        key = members.tobytes()
        costs[key] = costs.get(key, 0.0) + float(instance.transfer[u])
    of = [np.frombuffer(key, dtype=np.int64) for key in costs]
    sizes = np.array([len(members) for members in of], dtype=np.int32)
    pins = np.concatenate([*of, np.zeros(0, dtype=np.int64)])
    numbers = np.repeat(np.arange(len(of), dtype=np.int32), sizes)
    return Nets(*csr(units, pins, numbers), np.array(list(costs.values()), dtype=np.float64), sizes)


def fill(devices: Devices, order: Sequence[int], choose: Callable[[Ints, Floats], int]) -> Index | None:
    """A placement, shape (items,): items in an order, each on the accelerator chosen among those with room.

    What fits none is on a CPU chosen among all. ``choose`` gets the numbers to choose from and the work of every device
    by then. None if there is no CPU then.
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
    """Of these devices the one that has least to do."""
    return int(fitting[np.argmin(work[fitting])])


def first_below(share: float, fitting: Ints, work: Floats) -> int:
    """Of these devices the first one that has less to do than a share; if there is none the one that has least."""
    below = fitting[work[fitting] < share]
    return int(below[0]) if len(below) else least_work(fitting, work)


class Search:
    """The best placement so far, reported whenever it is better.

    ``cost``   its greatest load, infinite before the first
    ``item``   shape (items,), int32: the device of each item
    ``grain``  mean work of an item, on CPUs where accelerators have none
    """

    def __init__(self, instance: Instance, run: Run) -> None:
        self.instance = instance
        self.devices = unit_devices(instance)
        self.cost, self.item = math.inf, np.zeros(0, dtype=np.int32)
        self._run = run
        self._idle = instance.accelerators - self.devices.accelerators  # accelerators that get nothing
        self._first = np.unique(instance.unit, return_index=True)[1]  # node of each unit
        self._reserve = RESERVE * run.remaining()
        self._bound = instance.load_bound()
        work = np.where(np.isfinite(self.devices.accelerator_time), self.devices.accelerator_time, 0.0)
        self.grain = float(work.mean() or self.devices.cpu_time.mean() or 1.0)

    def over(self) -> bool:
        """Whether the time is, or nothing better exists."""
        return self.is_optimal(self.cost) or not self.left()

    def left(self) -> float:
        """Seconds left for anything but to end and report."""
        return max(0.0, self._run.remaining() - self._reserve)

    def is_optimal(self, cost: float) -> bool:
        """Whether no placement has less load."""
        return cost <= self._bound * (1 + TOLERANCE)

    def offer(self, item: Index, cost: float) -> None:
        """Report a placement of the items of this greatest load, if it is better than all before."""
        if not cost < self.cost * (1 - TOLERANCE):
            return
        self.cost, self.item = cost, item
        device = item + np.where(item < self.devices.accelerators, 0, self._idle)
        self._run.report(device[self.instance.unit])

    def offer_start(self, item: Index | None) -> None:
        """Offer a placement whose loads are not known, if there is one."""
        if item is None:
            return
        placing = Placing(self.devices, item, 0)
        placing.descend(0)
        self.offer(item, placing.cost)

    def begin(self) -> None:
        """Offer placements of even work, and cuts of linear extensions, even and best, which have few transfers."""
        with deadline(self._run, LINEAR_SHARE) as stop:
            largest_first = np.argsort(-self.devices.size, kind="stable").tolist()
            self.offer_start(fill(self.devices, largest_first, least_work))
            chained = dataclasses.replace(self.instance, contiguity="acyclic")
            for contracted in contractions(chained):
                self._offer_cuts(contracted.item)
                with suppress(Declined):  # its table is too large, which is no reason not to search
                    self._offer_chain(IdealProgram(chained, contracted, stop))
        self.require_any()

    def require_any(self) -> None:
        """Declined if there has been no placement."""
        if math.isinf(self.cost):
            raise Declined("found no placement that the memories hold, and there are no CPUs")

    def _offer_cuts(self, rank: Index) -> None:
        """Offer what even cuts of an order leave, given the place of each node in it: one device full after another."""
        order = np.argsort(rank[self._first], kind="stable").tolist()
        self.offer_start(fill(self.devices, order, partial(first_below, self._bound)))

    def _offer_chain(self, program: IdealProgram) -> None:
        found = program.best(program.prefixes(self._run.memory), math.inf)
        if found is not None:
            device = found.device[self._first]
            cpu = device >= self.instance.accelerators
            self.offer_start((device - np.where(cpu, self._idle, 0)).astype(np.int32))


def anneal(search: Search, run: Run, most: float = math.inf) -> None:
    """Improve on the best placement in rounds of chains, each twice as long as the one before, of ``most`` moves."""
    moves = int(min(FIRST, most))
    with ThreadPoolExecutor(run.cores) as pool:
        while 0 < moves <= most and not search.over():
            began = time.monotonic()
            seeds = run.rng.integers(2**63, size=max(run.cores, len(CHAINS))).tolist()
            chains = [_Chain(search, seed, number, moves) for number, seed in enumerate(seeds)]
            for placing in pool.map(_Chain.run_down, chains):
                search.offer(placing.best, placing.cost)
            moves = _next(moves, time.monotonic() - began, search.left())


def _next(moves: int, took: float, left: float) -> int:
    """Moves of the next round: twice as many, or what fits into the rest of the time if that is not much more."""
    return 2 * moves if left > 4.0 * took else int(0.9 * moves * left / max(took, 1e-9))


class _Chain:
    """A chain of moves, from hot to cold, that begins with the best placement."""

    def __init__(self, search: Search, seed: int, number: int, moves: int) -> None:
        self.placing = Placing(search.devices, search.item, seed)
        self.kind = CHAINS[number % len(CHAINS)]
        self.moves, self.search = moves, search

    def run_down(self) -> Placing:
        """Run it in slices until its end or that of the time."""
        slices = max(1, math.ceil(self.moves / SLICE))
        for hot, cold in self._temperatures(slices):
            self.placing.anneal(dataclasses.replace(self.kind, moves=self.moves // slices, hot=hot, cold=cold))
            if not self.search.left() or self.search.is_optimal(self.placing.cost):
                break
        return self.placing

    def _temperatures(self, slices: int) -> list[tuple[float, float]]:
        """The first and the last temperature of each slice; few moves cannot anneal again what they melt."""
        heat = min(1.0, max(COLDEST, self.moves / (MELTING * len(self.search.item))))
        falling = self.search.grain * np.geomspace(heat * self.kind.hot, self.kind.cold, slices + 1)
        return list(zip(falling[:-1].tolist(), falling[1:].tolist(), strict=True))
