"""The integer program for the greatest load, in rows that every engine reads (Tarnawski et al. 2020, Figure 7).

Columns are 0 or 1, except the last ones, the greatest loads, whose sum is the cost. An accelerator pays for a tensor if
it has some but not all of the items that make and read it: one column per tensor and accelerator, or two, in and out,
if transfers in both directions overlap. A further column stands for the extra time of transfers between clusters.
Tensors of the same items are merged.
"""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shardmark.instances.files.columns import Floats, Ints
from shardmark.instances.graph import Index, strong_components
from shardmark.instances.placement import Instance
from shardmark.solvers.placement.ideals.blocks import edges_between, orders

Columns = list[int | None]  # None: certainly 0
Pairs = list[tuple[int | None, Columns]]


@dataclass(frozen=True, eq=False)
class Items:
    """Sets of nodes that share a device: ``of`` is the item of each node of the instance.

    ``tail``, ``head``  edges between items; the head is on the same device as the tail or on a later one. Empty unless
                        devices have an order
    """

    instance: Instance
    of: Index
    tail: Index
    head: Index

    @property
    def count(self) -> int:
        """Number of items."""
        return int(self.of.max(initial=-1)) + 1

    def sums(self, column: NDArray[Any]) -> Floats:
        """Sum of a column, shape (n,), over the nodes of each item."""
        return np.bincount(self.of, weights=column, minlength=self.count).astype(np.float64)

    def tensors(self, nodes: Ints) -> dict[tuple[int, ...], float]:
        """Cost of the tensors of some nodes, by the items that make and read them; the maker comes first if needed."""
        instance, real = self.instance, ~self.instance.artificial
        items: dict[int, set[int]] = {}
        of, counted = self.of.tolist(), set(nodes.tolist())
        for u, v in zip(instance.graph.tail[real].tolist(), instance.graph.head[real].tolist(), strict=True):
            if u in counted and instance.transfer[u] and of[u] != of[v]:
                items.setdefault(u, set()).add(of[v])
        costs: dict[tuple[int, ...], float] = {}
        for u, readers in items.items():
            directed = instance.overlap == "full" or instance.cluster is not None
            key = (of[u], *sorted(readers)) if directed else tuple(sorted(readers | {of[u]}))
            costs[key] = costs.get(key, 0.0) + float(instance.transfer[u])
        return costs


def units(instance: Instance) -> Items:
    """Colocation units, which devices take in any order."""
    none = np.zeros(0, dtype=np.int32)
    return Items(instance, instance.unit.astype(np.int32), none, none)


def successive(instance: Instance) -> list[Items]:
    """Items for ordered devices, one for each of `orders`."""
    found = []
    for ends in orders(instance):
        component = strong_components(int(instance.unit.max()) + 1, *ends)
        found.append(Items(instance, component[instance.unit], *edges_between(component, *ends)))
    return found


@dataclass(frozen=True, eq=False)
class Place:
    """A device, or a position in the order of devices with a kind, and its column for each item.

    ``cluster``  cluster of an accelerator, None if there is only one
    """

    accelerator: bool
    column: Columns
    cluster: int | None = None


class TooLarge(Exception):
    """A program has too many entries or takes too long to build."""


@dataclass(eq=False)
class LoadProgram(ABC):
    """Minimise the sum of the ``loads`` columns; all others are 0 or 1.

    ``overfull`` sets of nodes that no accelerator may hold, even if their sizes seem to fit
    ``whole``    for each column, True if it must be required to be an integer; the others follow from these
    ``rows``     ``(columns, factors, least, most)``: integer factors, and limits of the sum
    ``busy``     ``(columns, times, load)``: the sum is at most the column ``load``
    ``rooms``    ``(columns, sizes)``: the sum is at most the memory
    ``least``    for each column that follows from others its pairs (a, b): it is the greatest a minus the sum of b, or
                 0
    ``entries``  number of entries; TooLarge beyond ``most``, or if `time.monotonic` is beyond ``until``
    """

    items: Items
    upper: float
    most: int
    overfull: Sequence[frozenset[int]] = ()
    until: float = math.inf
    whole: list[bool] = field(default_factory=list)
    rows: list[tuple[list[int], list[int], int, int]] = field(default_factory=list)
    busy: list[tuple[list[int], list[float], int]] = field(default_factory=list)
    rooms: list[tuple[list[int], list[float]]] = field(default_factory=list)
    least: dict[int, Pairs] = field(default_factory=dict)
    places: list[Place] = field(default_factory=list)
    loads: range = range(0)
    entries: int = 0

    def column(self, whole: bool = False) -> int:
        """Add a column."""
        self._count(1)
        self.whole.append(whole)
        return len(self.whole) - 1

    def require(self, terms: Iterable[tuple[int, int | None]], most: int, least: int | None = None) -> None:
        """Add a row of factors and columns."""
        known = [(factor, column) for factor, column in terms if column is not None]
        self._count(len(known))
        low = sum(min(0, factor) for factor, _ in known) if least is None else least
        self.rows.append(([column for _, column in known], [factor for factor, _ in known], low, most))

    def _count(self, entries: int) -> None:
        self.entries += entries
        if self.entries > self.most:
            raise TooLarge(f"more than {self.most} entries, which the memory does not hold")
        if time.monotonic() > self.until:
            raise TooLarge(f"more than {self.entries} entries, which take longer than there is time")

    def greatest(self, pairs: Pairs) -> int:
        """Add a column that is at least a minus the sum of b for every pair (a, b)."""
        made = self.column()
        self.least[made] = pairs
        for a, b in pairs:
            if a is not None:
                self.require([(1, a), *((-1, column) for column in b), (-1, made)], 0)
        return made

    def add_places(
        self, accelerators: Sequence[Columns], cpus: Sequence[Columns], clusters: Sequence[int] | None = None
    ) -> None:
        """Place every item within the room of accelerators; ``clusters`` has the cluster of each."""
        of: Sequence[int | None] = clusters or [None] * len(accelerators)
        self.places = [Place(True, column, cluster) for column, cluster in zip(accelerators, of, strict=True)]
        self.places += [Place(False, column) for column in cpus]
        for v in range(self.items.count):
            self.require([(1, place.column[v]) for place in self.places], 1, 1)
        size = self.items.sums(self.items.instance.size)
        if size.sum() > self.items.instance.capacity:
            for column in accelerators:
                some = [(at, s) for at, s in zip(column, size.tolist(), strict=True) if at is not None and s]
                self.rooms.append(([at for at, _ in some], [s for _, s in some]))
        for nodes in self.overfull:
            items = set(self.items.of[list(nodes)].tolist())
            for column in accelerators:
                if all(column[v] is not None for v in items):
                    self.require([(1, column[v]) for v in items], len(items) - 1)

    def add_loads(self) -> None:
        """Limit every place by the greatest load of each pass."""
        instance = self.items.instance
        passes = [np.arange(instance.nodes)]
        if instance.schedule == "gpipe":
            passes = [np.flatnonzero(~instance.backward), np.flatnonzero(instance.backward)]
        totals = [self._busy(nodes) for nodes in passes]
        self.loads = range(len(self.whole), len(self.whole) + len(passes))
        self.whole += [False] * len(passes)
        for load, sums in zip(self.loads, totals, strict=True):
            self.busy += [([at for at, _ in terms], [t for _, t in terms], load) for terms in sums if terms]

    def _busy(self, nodes: Ints) -> list[list[tuple[int, float]]]:
        """The sums, as columns and times, that are at most the greatest load of some nodes."""
        instance = self.items.instance
        counted = np.isin(np.arange(instance.nodes), nodes)
        fast, slow = (self.items.sums(time * counted) for time in (instance.accelerator_time, instance.cpu_time))
        tensors, found = self.items.tensors(nodes), []
        for place in self.places:
            time = (fast if place.accelerator else slow).tolist()
            computing = [(at, t) for at, t in zip(place.column, time, strict=True) if at is not None and t]
            moving = self._moving(place, tensors) if place.accelerator else []
            found += [[*computing, *chain(*moving)]] if instance.overlap == "none" else [computing, *moving]
        return found

    def _moving(self, place: Place, tensors: dict[tuple[int, ...], float]) -> list[list[tuple[int, float]]]:
        """Transfers of an accelerator; in and out separately if they overlap."""
        ways: list[list[tuple[int, float]]] = [[], []]
        later = self.items.instance.slowdown - 1
        for (maker, *readers), cost in tensors.items():
            made = place.column[maker]
            into: Pairs = [(place.column[v], [made]) for v in readers]
            out: Pairs = [(made, [place.column[v]]) for v in readers]
            self._add_moving(ways, into, out, cost)
            if place.cluster is not None:
                into = [(at, self._near(place, maker)) for at, _ in into]
                self._add_moving(ways, into, [(made, self._near(place, v)) for v in readers], cost * later)
        return ways

    def _near(self, place: Place, v: int) -> Columns:
        """Columns of an item for the places in the cluster of ``place``."""
        return [other.column[v] for other in self.places if other.cluster in (None, place.cluster)]

    def _add_moving(self, ways: list[list[tuple[int, float]]], into: Pairs, out: Pairs, cost: float) -> None:
        parts = [into, out] if self.items.instance.overlap == "full" else [into + out]
        for way, pairs in zip(ways, parts, strict=False):
            if any(a is not None for a, _ in pairs):
                way.append((self.greatest(pairs), cost))

    def values(self, device: Ints) -> list[int] | None:
        """The columns of a placement, shape (n,), with loads of 0; None if the program does not contain it."""
        item_device: Ints = np.asarray(device, dtype=np.int64)[np.unique(self.items.of, return_index=True)[1]]
        columns = self._place_columns(item_device) if np.array_equal(item_device[self.items.of], device) else None
        value = [0] * len(self.whole)
        for column in [None] if columns is None else columns:
            if column is None:
                return None
            value[column] = 1
        for column, pairs in self.least.items():
            value[column] = max(
                [0, *(int(_value_of(value, a) - sum(_value_of(value, c) for c in b)) for a, b in pairs)]
            )
        return value

    @abstractmethod
    def _place_columns(self, device: Ints) -> Columns | None:
        """The columns that are 1 if items are on these devices, shape (items,); None if the program excludes this."""

    def device(self, value: Sequence[float]) -> Ints:
        """The device of each node in a solution, whose place columns are approximately 0 or 1."""
        chosen = [[_value_of(value, place.column[v]) for place in self.places] for v in range(self.items.count)]
        return self._devices(value)[np.argmax(np.array(chosen), axis=1)][self.items.of]

    @abstractmethod
    def _devices(self, value: Sequence[float]) -> Ints:
        """The number in the instance of each place's device."""

    def allowed(self, accelerator: bool) -> list[bool]:
        """For each item, True if a placement of cost at most ``upper`` can have it on a device of this kind."""
        instance, most = self.items.instance, self.upper * (1 + 1e-9)
        if not accelerator:
            return (self.items.sums(instance.cpu_time) <= most).tolist()
        fits = (self.items.sums(instance.size) <= instance.room) & (self.items.sums(~instance.supported) == 0)
        return (fits & (self.items.sums(instance.accelerator_time) <= most)).tolist()


def _value_of(value: Sequence[float], column: int | None) -> float:
    return 0 if column is None else value[column]


#: Builds a program of all placements of a kind. Arguments: greatest cost, most entries, sets of nodes that no
#: accelerator may hold, and the time by which it must end.
Build = Callable[[float, int, Sequence[frozenset[int]], float], LoadProgram]
