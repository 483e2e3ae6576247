"""Types of stages: degrees and microbatches in flight, and what configurations cost in them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from shardmark.instances.files.columns import Floats, Ints
from shardmark.instances.graph import Index
from shardmark.instances.hybrid import Instance
from shardmark.solvers.hybrid.positions.cells import Cells
from shardmark.solvers.hybrid.positions.order import Order
from shardmark.solvers.native import array_in, array_out, check, ffi, lib

#: Least limit on seconds or bytes, which may be below it: sums may be off by many times the least float64.
LEAST_LIMIT = 1e-290


@dataclass(frozen=True, eq=False)
class StageTypes:
    """What nodes and transfers cost in stages of each type, nodes in the numbers of an order.

    ``degrees``  the tensor-parallel degrees that fit the devices, ascending
    """

    instance: Instance
    order: Order

    @cached_property
    def degrees(self) -> Ints:
        return np.unique(self.instance.degree[self.instance.most_replicas > 0])

    @cached_property
    def _menus(self) -> list[tuple[Ints, Ints]]:
        """For each degree, the configurations by the numbers of their nodes, and where the nodes' begin."""
        work, number, found = self.instance, self.order.number, []
        for degree in self.degrees.tolist():
            kept = np.flatnonzero(work.degree == degree)
            kept = kept[np.argsort(number[work.node[kept]], kind="stable")]
            counts = np.bincount(number[work.node[kept]], minlength=work.nodes)
            found.append((kept, np.concatenate([[0], np.cumsum(counts)])))
        return found

    def costs(self, t: int, data: int, in_flight: int, weight: float) -> tuple[Ints, Floats, Floats]:
        """Where nodes' configurations begin, their seconds per microbatch on a replica, and their bytes.

        ``t`` is the index of the degree, ``data`` the number of replicas. The seconds include those of the
        synchronisation times ``weight``. Configurations that do not fit alone take infinitely long.
        """
        work = self.instance
        kept, start = self._menus[t]
        speed = work.speed(data, int(self.degrees[t]))
        time = work.time[kept] + (data - 1) / data * (work.gathered[kept] / speed)
        time += weight * (4 * (data - 1) / data) * (work.parameters[kept] / speed)
        memory = work.stashed[kept] * in_flight + work.fixed[kept] + work.shared[kept] / data
        fits = (work.most_replicas[kept] >= data) & (memory <= work.room)
        return start, np.where(fits, time, np.inf), memory

    @cached_property
    def device_seconds(self) -> Floats:
        """Least device-seconds of a microbatch on each node, shape (n,)."""
        work = self.instance
        least = np.where(work.most_replicas > 0, work.time * work.degree, np.inf)
        return np.minimum.reduceat(least, work.start[:-1])[self.order.node]

    @cached_property
    def ends(self) -> Floats:
        """Least seconds of a transfer at the tail and the head of each edge, by degree, shape (degrees, 2, m)."""
        work = self.instance
        start, edge = work.incident
        lengths = np.diff(start)[work.node]
        configuration = np.repeat(np.arange(work.configurations), lengths)
        at = edge[
            np.repeat(start[work.node], lengths) + np.arange(len(work.sync)) - np.repeat(work.sync_start[:-1], lengths)
        ]
        seconds = 2 * (work.communicated[at] + work.sync) / work.bandwidth
        head = (work.graph.head[at] == work.node[configuration]).astype(np.int64)
        least = np.full((len(self.degrees), 2, work.edges), np.inf)
        for t, degree in enumerate(self.degrees.tolist()):
            mine = work.degree[configuration] == degree
            np.minimum.at(least[t], (head[mine], at[mine]), seconds[mine])
        return least

    @cached_property
    def transfers(self) -> tuple[Floats, Floats]:
        """Least seconds of a transfer at the ends of each edge, shape (2, m), and what degrees multiply them by."""
        least = self.ends.min(axis=0)
        with np.errstate(invalid="ignore", divide="ignore"):
            factor = np.where(least > 0, self.ends / least, np.inf).min(axis=(1, 2), initial=np.inf)
        return least, np.where(np.isfinite(factor), factor, 1.0) * (1 - 2.0**-50)


@dataclass(frozen=True, eq=False)
class Reaches:
    """How far stages reach from each cell.

    ``shares``  shape (r,): see ``node_costs.h``
    ``wide``    transfers between nodes of a block count
    """

    types: StageTypes
    cells: Cells
    shares: Floats
    wide: bool

    @cached_property
    def _borders(self) -> tuple[Floats, Floats]:
        least, _ = self.types.transfers
        return self.cells.borders(least[0], least[1])

    def reach(self, t: int, data: int, in_flight: int, limit: float, weight: float) -> tuple[Index, int]:
        """The last cell of a stage that begins in each cell or before, shape (cells,), and its greatest distance.

        A microbatch takes at most ``limit`` seconds; for the other parameters see `StageTypes.costs`.
        """
        start, time, memory = self.types.costs(t, data, in_flight, weight)
        room = max(self.types.instance.capacity, LEAST_LIMIT)
        menu = [array_in(column) for column in (start, time, memory)]
        shares = array_in(self.shares)
        kind = ffi.new("struct shard_stage_type *", (*menu, limit, room, len(self.shares), shares))
        distance = np.full(1, self.cells.high[-1])
        if self.wide:
            ends = [array_in(np.ascontiguousarray(side)) for side in self.types.ends[t]]
            graph = self.cells.order.graph
            edges = graph.edges, array_in(graph.tail), array_in(graph.head)
            check(lib.shard_hybrid_distance(self.cells.struct, kind, *edges, ends[1], ends[0], array_out(distance)))
        factor = self.types.transfers[1][t]
        borders = [array_in(side * factor) for side in self._borders]
        found = np.empty(len(self.cells), dtype=np.int32)
        check(lib.shard_hybrid_reach(self.cells.struct, kind, *borders, distance[0], array_out(found)))
        return found, int(distance[0])
