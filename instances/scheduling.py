"""Track ``scheduling``: vertices on heterogeneous devices, least makespan (Mayer et al., DIDL 2017)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from shardmark.instances.errors import InputError
from shardmark.instances.evaluator import Evaluator
from shardmark.instances.files.columns import (
    Floats,
    Ints,
    freeze_columns,
    frozen,
    plain,
    refuse_below_0,
    require_columns,
)
from shardmark.instances.files.scheduling import FORMAT, read, recognises
from shardmark.instances.graph import Graph, OnGraph
from shardmark.instances.options import Option, non_default, read_options, refuse_other_choices

__all__ = ["FORMAT", "OPTIONS", "TOLERANCE", "Instance", "parse", "recognises", "to_document"]

#: Times, and sizes, with at most this relative difference count as equal.
TOLERANCE = 1e-9

#: Least positive time or size: keeps sums and quotients far from subnormal floats, which have fewer digits.
LEAST_POSITIVE = 1e-290

OPTIONS: Mapping[str, Option] = {
    "links": Option(
        str,
        "concurrent tensors on one link: independent of each other, in a queue, or sharing the bandwidth",
        "independent",
        ("independent", "queue", "share"),
    ),
    "holding": Option(
        str,
        "a tensor takes memory of its reader's device while waiting there, or from its departure until the reader ends",
        "waiting",
        ("waiting", "reserved"),
    ),
}


@dataclass(frozen=True, eq=False, kw_only=True)
class Instance(Evaluator, OnGraph):
    """A dataflow graph, and devices that each run one vertex at a time.

    ``graph``       n vertices, m edges; every edge carries its own tensor
    ``complexity``  shape (n,), float64 >= 0: operations of a vertex
    ``size``        shape (m,), float64 >= 0: size of the tensor on an edge, in any unit
    ``colocation``  shape (n,), int64: group that must share a device, from 0; -1: none
    ``choices``     distinct sets of devices, each ascending and not empty
    ``choice``      shape (n,), int64: index in ``choices`` of the set that the vertex is restricted to; -1: any device
    ``speed``       shape (k,), float64 > 0: operations per time
    ``memory``      shape (k,), float64: strict upper bound on what a device holds at any time; inf: no limit
    ``bandwidth``   shape (k, k), float64 >= 0: size per time from one device to another; 0: no link; inf on the
                    diagonal, as nothing moves within a device
    ``links``       "independent": a tensor takes size / bandwidth regardless of others (Equations (10) and (12));
                    "queue": tensors of a link are sent one at a time, in order of production; "share": they are sent
                    concurrently with equal shares of the bandwidth
    ``holding``     "waiting": a tensor occupies its reader's device from its arrival until the reader starts
                    (Equation (2), "edges of not yet scheduled vertices"); "reserved": from its departure until the
                    reader has finished

    Times and sizes with a relative difference of at most `TOLERANCE` count as equal, so verdicts do not depend on
    units: a tensor is released 1e-9 of the time early, and what a device holds stays below `capacity`.
    """

    track: ClassVar[str] = "scheduling"

    name: str
    graph: Graph
    node_names: tuple[str, ...]
    complexity: Floats
    size: Floats
    colocation: Ints
    choices: tuple[Ints, ...]
    choice: Ints
    device_names: tuple[str, ...]
    speed: Floats
    memory: Floats
    bandwidth: Floats
    links: str = "independent"
    holding: str = "waiting"
    source: str = field(default="instance", repr=False)

    def __post_init__(self) -> None:
        require_columns(self, ("node_names", "complexity", "colocation", "choice"), self.nodes, "nodes")
        require_columns(self, ["size"], self.edges, "edges")
        require_columns(self, ("device_names", "memory"), self.devices, "devices")
        self._refuse_numbers()
        refuse_other_choices(self, OPTIONS, self.source)
        self._refuse_contradictions()
        self._refuse_missing_links()
        self._refuse_lack_of_memory()
        freeze_columns(self)

    def _refuse_numbers(self) -> None:
        k = self.devices
        if not k:
            raise InputError(self.source, "devices.speed", "expected at least one device")
        for at in np.flatnonzero(~((self.speed > 0) & (self.speed < np.inf)))[:1]:
            expected = f"expected a positive number, found {self.speed[at]:g}"
            raise InputError(self.source, f"devices.speed[{at}]", expected)
        if self.bandwidth.shape != (k, k):
            raise InputError(self.source, "bandwidth", f"expected {k} rows of {k}, one per device")
        columns = {
            "nodes.complexity[{}]": self.complexity,
            "edges[{}][2]": self.size,
            "devices.memory[{}]": self.memory,
            "bandwidth[{}][{}]": self.bandwidth,
        }
        for place, column in columns.items():
            refuse_below_0(column, self.source, place, finite=False)
        self._refuse_extremes()

    def _refuse_extremes(self) -> None:
        """Raise InputError if times or sizes could overflow, or become so small that floats lose digits."""
        fastest = self.bandwidth[np.isfinite(self.bandwidth)].max(initial=1.0)
        size, complexity = (column[column > 0] for column in (self.size, self.complexity))
        with np.errstate(over="ignore", under="ignore", divide="ignore"):
            total = 1 / self.speed.min() + 1 / self._slowest_link() + self.horizon() + size.sum()
            least = np.concatenate([complexity / self.speed.max(), size / fastest]).min(initial=np.inf)
        if not np.isfinite(total):
            raise InputError(self.source, "nodes", "expected numbers for which every time and size is finite")
        if least < LEAST_POSITIVE:
            expected = f"expected numbers for which every time and size is 0 or at least {LEAST_POSITIVE:g}"
            raise InputError(self.source, "nodes", expected)

    def _refuse_contradictions(self) -> None:
        """Raise InputError if the members of a colocation group have no device in common."""
        for unit, number in enumerate(self.unit_choice.tolist()):
            if number >= 0 and not len(self.unit_choices[number]):
                first, *rest = np.flatnonzero(self.unit == unit).tolist()
                common = set(self._choice_of(first))
                for v in rest:
                    common &= set(self._choice_of(v))
                    if not common:
                        expected = f"expected a device for its whole colocation group, including vertex {first}"
                        raise InputError(self.source, f"nodes.devices[{v}]", f"{expected}, found none")

    def _choice_of(self, v: int) -> Sequence[int]:
        number = int(self.choice[v])
        return range(self.devices) if number < 0 else self.choices[number].tolist()

    def _refuse_missing_links(self) -> None:
        """Raise InputError if no link joins devices that the two ends of an edge may use."""
        if (self.bandwidth > 0).all():
            return
        tail, head = self.unit[self.graph.tail], self.unit[self.graph.head]
        sent = (self.size > 0) & (tail != head)
        ends = np.stack([self.unit_choice[tail], self.unit_choice[head]])
        sent &= (ends >= 0).all(axis=0)
        for a, b in np.unique(ends[:, sent], axis=1).T.tolist():
            if not (self.bandwidth[np.ix_(self.unit_choices[a], self.unit_choices[b])] > 0).any():
                at = int(np.argmax(sent & (ends[0] == a) & (ends[1] == b)))
                expected = "expected a link between some device of its tail and some device of its head"
                raise InputError(self.source, f"edges[{at}]", f"{expected}, found bandwidth 0")

    def _refuse_lack_of_memory(self) -> None:
        """Raise InputError if the inputs of a vertex are reserved while it runs and exceed the memory of its devices.

        A vertex that takes almost no time may hold nothing, and is accepted.
        """
        if self.holding != "reserved":
            return
        read = np.bincount(self.graph.head, weights=self.size, minlength=self.nodes)
        limits = [*(self.memory[choice].max() for choice in self.choices), self.memory.max()]
        room = np.array(limits)[self.choice] * (1 - TOLERANCE)
        lasting = self.complexity / self.fastest() > 2 * TOLERANCE * self.horizon()
        for v in np.flatnonzero(lasting & (read > 0) & (read >= room))[:1].tolist():
            limit = limits[self.choice[v]]
            expected = (
                f"expected a device with memory above {read[v]:g}, the size of its inputs, found at most {limit:g}"
            )
            raise InputError(self.source, f"nodes[{v}]", expected)

    @property
    def devices(self) -> int:
        """Number of devices."""
        return len(self.speed)

    @property
    def capacity(self) -> Floats:
        """Strict upper bound, shape (k,), on what each device holds: the memory less `TOLERANCE` of it."""
        return self.memory * (1 - TOLERANCE)

    @cached_property
    def unit(self) -> Ints:
        """Unit of each vertex, shape (n,): its colocation group or itself, numbered in order of first members."""
        key = np.where(self.colocation >= 0, self.colocation, -1 - np.arange(self.nodes))
        _, first, unit = np.unique(key, return_index=True, return_inverse=True)
        rank = np.empty(len(first), dtype=np.int64)
        rank[np.argsort(first)] = np.arange(len(first))
        return frozen(rank[unit])

    @cached_property
    def _common(self) -> tuple[tuple[Ints, ...], Ints]:
        """Distinct sets of devices that units may use, and the index of each unit's set; -1: any device."""
        held = np.flatnonzero(self.choice >= 0)
        pairs = np.unique(np.stack([self.unit[held], self.choice[held]]), axis=1).T.tolist()
        sets: dict[tuple[int, ...], int] = {}
        of_unit: dict[int, frozenset[int]] = {}
        members = [frozenset(choice.tolist()) for choice in self.choices]
        for unit, number in pairs:
            of_unit[unit] = of_unit[unit] & members[number] if unit in of_unit else members[number]
        numbers = np.full(int(self.unit.max(initial=-1)) + 1, -1)
        for unit, devices in of_unit.items():
            numbers[unit] = sets.setdefault(tuple(sorted(devices)), len(sets))
        return tuple(frozen(np.array(devices, dtype=np.int64)) for devices in sets), frozen(numbers)

    @property
    def unit_choices(self) -> tuple[Ints, ...]:
        """Distinct sets of devices that units are restricted to, each ascending."""
        return self._common[0]

    @property
    def unit_choice(self) -> Ints:
        """Index of the set that a unit is restricted to, shape (units,); -1: any device."""
        return self._common[1]

    def summary(self) -> dict[str, Any]:
        """Facts for ``shardmark info`` and the leaderboard."""
        outdegree = np.diff(self.graph.out_csr[0])
        links = self.bandwidth[~np.eye(self.devices, dtype=bool)]
        limited = self.memory[np.isfinite(self.memory)]
        return {
            "track": self.track,
            "name": self.name,
            **{name: getattr(self, name) for name in OPTIONS},
            "nodes": self.nodes,
            "edges": self.edges,
            "colocated_nodes": int((self.colocation >= 0).sum()),
            "units": len(self.unit_choice),
            "restricted_nodes": int((self.choice >= 0).sum()),
            "largest_outdegree": int(outdegree.max(initial=0)),
            "sources": int((np.diff(self.graph.in_csr[0]) == 0).sum()),
            "sinks": int((outdegree == 0).sum()),
            "devices": self.devices,
            "slowest_speed": float(self.speed.min()),
            "fastest_speed": float(self.speed.max()),
            "least_bandwidth": float(links.min(initial=np.inf)) if len(links) else None,
            "greatest_bandwidth": float(links.max(initial=0.0)) if len(links) else None,
            "least_memory": float(limited.min()) if len(limited) else None,
            "total_complexity": float(self.complexity.sum()),
            "total_size": float(self.size.sum()),
            "simple_bound": self.simple_bound(),
        }

    def fastest(self) -> Floats:
        """Greatest speed of the devices that each vertex may use, shape (n,)."""
        best = [*(self.speed[choice].max() for choice in self.unit_choices), self.speed.max()]
        speeds: Floats = np.array(best)[self.unit_choice][self.unit]
        return speeds

    def slowness(self) -> float:
        """Mean transfer time of a size of 1 over all links; 0 without links."""
        between = self.bandwidth[~np.eye(self.devices, dtype=bool)]
        linked = between[between > 0]
        return float((1 / linked).mean()) if len(linked) else 0.0

    def _slowest_link(self) -> float:
        """Least bandwidth of all links; infinite without links."""
        return float(self.bandwidth[(self.bandwidth > 0) & np.isfinite(self.bandwidth)].min(initial=np.inf))

    def horizon(self) -> float:
        """Upper bound on sensible makespans: all vertices and transfers in sequence, at the slowest speeds."""
        return float(self.complexity.sum() / self.speed.min() + self.size.sum() / self._slowest_link())

    def simple_bound(self) -> float:
        """Lower bound: the longest path at the fastest speeds, or total work over total speed; rounded down."""
        path = self.graph.longest_path(self.complexity / self.fastest())
        load = float(self.complexity.sum() / self.speed.sum())
        errors = (self.nodes + self.devices) * float(np.finfo(np.float64).eps)  # of that many sums
        return max(load, path) * (1 - 1e-12 - errors)


def parse(document: Any, source: str, **given: Any) -> Instance:
    """Build an instance from the columnar JSON; options that are ``given`` override those in the file.

    See `files.scheduling.read` for what a file may leave out.
    """
    fields = read(document, source)
    return Instance(**fields, **read_options(document, given, OPTIONS, source))


def to_document(instance: Instance) -> dict[str, Any]:
    """The columnar JSON of an instance, with its non-default options."""
    options = non_default(instance, OPTIONS)
    rows: list[list[Any]] = [plain(row) for row in instance.bandwidth]
    for i, row in enumerate(rows):
        row[i] = None
    pairs = zip(instance.graph.tail.tolist(), instance.graph.head.tolist(), plain(instance.size), strict=True)
    return {
        "format": FORMAT,
        "name": instance.name,
        **({"options": options} if options else {}),
        "nodes": {
            "name": list(instance.node_names),
            "complexity": plain(instance.complexity),
            "colocation": [None if group < 0 else group for group in instance.colocation.tolist()],
            "devices": [None if c < 0 else instance.choices[c].tolist() for c in instance.choice.tolist()],
        },
        "edges": [list(edge) for edge in pairs],
        "devices": {
            "name": list(instance.device_names),
            "speed": plain(instance.speed),
            "memory": [None if np.isinf(limit) else limit for limit in instance.memory.tolist()],
        },
        "bandwidth": rows,
    }
