"""The core's simulation of a data flow graph on its devices, and what searches with it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from instances.files.columns import Ints
from instances.graph import Index
from instances.scheduling import TOLERANCE, Instance
from solvers.native import Floats, array_in, array_out, check, ffi, floats, lib, shaped


@dataclass(frozen=True)
class Execution:
    """One iteration of a data flow graph on its devices.

    ``makespan``   when the last vertex has finished; infinite if some wait for each other and never run
    ``start``      shape (n,), ``finish`` the same: times of each vertex, infinite for those that never run
    ``arrival``    shape (m,): when the tensor of each edge is where it is read
    ``sequence``   shape (n,) or less, int32: the vertices as they start
    """

    makespan: float
    start: Floats
    finish: Floats
    arrival: Floats
    sequence: Index


class Simulator:
    """Runs the vertices of an instance on their devices; see ``simulate.h``.

    Everywhere ``device`` has shape (n,), and ``rank``, shape (n,), decides between equals, the least first; by default
    that is the number of the vertex.
    """

    LINKS: ClassVar = {"independent": lib.SHARD_INDEPENDENT, "queue": lib.SHARD_QUEUE, "share": lib.SHARD_SHARE}

    def __init__(self, instance: Instance) -> None:
        graph = instance.graph
        self.instance = instance
        self._by_tail = np.argsort(graph.tail, kind="stable")
        self._numbers = np.arange(instance.nodes, dtype=np.int32)
        edges = (*graph.out_csr, instance.size[self._by_tail])
        columns: list[NDArray[Any]] = [*edges, instance.complexity, instance.speed, instance.bandwidth.ravel()]
        self._columns = [array_in(column) for column in columns]
        sizes = instance.nodes, instance.devices
        rules = self.LINKS[instance.links], TOLERANCE
        self._system = ffi.new("struct shard_system *", (*sizes, *self._columns, *rules))

    def in_order(self, device: ArrayLike, order: ArrayLike) -> Execution:
        """Each device runs its vertices as they stand in ``order``, shape (n,): those of device 0, then of 1, ..."""
        return self._run(device, lib.SHARD_IN_ORDER, order=order)

    def by_priority(self, device: ArrayLike, priority: ArrayLike, rank: ArrayLike | None = None) -> Execution:
        """An idle device starts the executable vertex of the greatest priority, shape (n,); or the longest one."""
        return self._run(device, lib.SHARD_BY_PRIORITY, priority=priority, rank=rank)

    def by_successors(self, device: ArrayLike, weights: ArrayLike, rank: ArrayLike | None = None) -> Execution:
        """An idle device starts the vertex of the greatest score of Equation (13), ``weights`` alpha to delta."""
        return self._run(device, lib.SHARD_BY_SUCCESSORS, weights=weights, rank=rank)

    def heft(self, order: Index) -> Index:
        """The device of each vertex, shape (n,), in a topological order each where it finishes earliest: ``heft.h``."""
        n = len(self._numbers)
        device = np.full(n, -1, dtype=np.int32)
        units, _columns = self._units()
        check(
            lib.shard_heft(
                self._system, units, array_in(self._column(order, n)), array_out(device), array_out(np.empty(n))
            )
        )
        return device

    def heads_tails(self, order: Index, back: Index, window: int, reach: int, start: Floats, behind: Floats) -> None:
        """Raise known heads and tails, shape (n, k) each, in place: ``heads_tails.h``."""
        n = len(self._numbers)
        units, _columns = self._units()
        orders = [array_in(self._column(column, n)) for column in (order, back)]
        ends = [array_out(shaped(column, (n, self.instance.devices))) for column in (start, behind)]
        check(lib.shard_heads_tails(self._system, units, *orders, window, reach, *ends))

    def _units(self) -> tuple[Any, list[Any]]:
        """Return the units as the core sees them, and the pointers that must stay alive as long."""
        instance, choices = self.instance, self.instance.unit_choices
        graph, units = instance.graph, len(instance.unit_choice)
        inputs = self._by_tail[np.argsort(graph.head[self._by_tail], kind="stable")]
        listed = np.concatenate([*choices, np.zeros(0)]).astype(np.int32)
        read = np.bincount(instance.unit[graph.head], weights=instance.size, minlength=units)
        columns: list[NDArray[Any]] = [
            graph.in_csr[0],
            graph.tail[inputs],
            instance.size[inputs],
            instance.unit.astype(np.int32),
            instance.unit_choice.astype(np.int32),
            np.cumsum([0, *map(len, choices)], dtype=np.int64),
            listed,
            floats(read, (units,)),
            instance.capacity,
        ]
        pointers = [array_in(column) for column in columns]
        return ffi.new("struct shard_units *", pointers), pointers

    def _run(
        self,
        device: ArrayLike,
        rule: int,
        *,
        order: ArrayLike | None = None,
        priority: ArrayLike | None = None,
        rank: ArrayLike | None = None,
        weights: ArrayLike = (0, 0, 0, 0),
    ) -> Execution:
        n, m = len(self._numbers), len(self._by_tail)
        where = self._column(device, self.instance.devices)
        order = self._numbers if order is None else self._column(order, n)
        rank = self._numbers if rank is None else self._column(rank, None)
        keys = array_in(order), array_in(floats(np.zeros(n) if priority is None else priority, (n,))), array_in(rank)
        choice = ffi.new("struct shard_policy *", (rule, *keys, floats(weights, (4,)).tolist()))
        start, finish, arrival, sequence = np.empty(n), np.empty(n), np.empty(m), np.empty(n, np.int32)
        ran = ffi.new("int32_t *")
        columns = (array_out(column) for column in (start, finish, arrival, sequence))
        check(lib.shard_simulate(self._system, choice, array_in(where), *columns, ran))
        of_edges = np.empty(m)
        of_edges[self._by_tail] = arrival
        makespan = float(finish.max(initial=0.0)) if ran[0] == n else math.inf
        return Execution(makespan, start, finish, of_edges, sequence[: ran[0]])

    def _column(self, values: ArrayLike, below: int | None) -> Index:
        """A column of numbers, one per vertex; ValueError if one is negative or not ``below`` a limit."""
        column = shaped(np.ascontiguousarray(values, dtype=np.int32), self._numbers.shape)
        if below is not None and len(column) and not 0 <= column.min() <= column.max() < below:
            raise ValueError(f"expected numbers from 0 to {below - 1}")
        return column


class SimulatedMoves:
    """A partition and priorities that a search improves by simulated moves: ``simulated_moves.h``.

    Every call releases the interpreter lock.

    ``device, priority``            shape (n,), int32 and float64
    ``best_device, best_priority``  the same: the best so far whose tensors fit the memory, and ``best`` its makespan
    ``penalty``                     for each unit of time for which tensors do not fit
    """

    def __init__(self, simulator: Simulator, device: ArrayLike, priority: ArrayLike, seed: int) -> None:
        n = simulator.instance.nodes
        self.device = shaped(np.array(device, dtype=np.int32), (n,))
        self.priority = floats(np.array(priority), (n,))
        self.best_device, self.best_priority, self.best = self.device.copy(), self.priority.copy(), math.inf
        self.penalty = 1.0
        self._simulator, (self._units, self._columns) = simulator, simulator._units()
        self._reserved = simulator.instance.holding == "reserved"
        self._random = np.array([seed], dtype=np.uint64)

    def search(self, moves: int, temperature: float) -> None:
        """Try so many moves; what costs more is accepted by the difference over ``temperature``."""
        overfull, best = ffi.new("double *"), ffi.new("double *", self.best)
        limits = self._reserved, moves, temperature, self.penalty
        now = (array_out(column) for column in (self._random, self.device, self.priority))
        found = array_out(self.best_device), array_out(self.best_priority), best
        check(lib.shard_simulated_moves(self._simulator._system, self._units, *limits, *now, overfull, *found))
        self.best = best[0]
        self.penalty = min(2 * self.penalty, 1e9) if overfull[0] > 0 else max(self.penalty / 2, 1.0)

    def run(self) -> tuple[Ints, Execution]:
        """The best devices, and how they run."""
        return self.best_device.astype(np.int64), self._simulator.by_priority(self.best_device, self.best_priority)

    def follow(self, other: SimulatedMoves) -> None:
        """Go on from the best that another has found."""
        self.device[:], self.priority[:] = other.best_device, other.best_priority


class PathMoves:
    """A schedule that a search improves as if links were independent and memory had no limit: ``path_moves.h``.

    Every call releases the interpreter lock.

    ``device, order``            shape (n,), int32: devices, and vertices of device 0 as they run, then of 1, ...
    ``best_device, best_order``  the same: the best so far, and ``best`` its makespan
    """

    def __init__(self, simulator: Simulator, device: ArrayLike, order: ArrayLike, seed: int) -> None:
        n = simulator.instance.nodes
        self.device, self.order = (shaped(np.array(column, dtype=np.int32), (n,)) for column in (device, order))
        self.best_device, self.best_order, self.best = self.device.copy(), self.order.copy(), math.inf
        self._simulator, (self._units, self._columns) = simulator, simulator._units()
        self._random = np.array([seed], dtype=np.uint64)

    def search(self, moves: int, temperature: float) -> None:
        """Try so many moves; longer makespans are accepted by their difference over ``temperature``."""
        best = ffi.new("double *", self.best)
        now = (array_out(column) for column in (self._random, self.device, self.order))
        found = (array_out(column) for column in (self.best_device, self.best_order))
        check(lib.shard_path_moves(self._simulator._system, self._units, moves, temperature, *now, *found, best))
        self.best = best[0]

    def run(self) -> tuple[Ints, Execution]:
        """The best devices, and how they run."""
        return self.best_device.astype(np.int64), self._simulator.in_order(self.best_device, self.best_order)

    def follow(self, other: PathMoves) -> None:
        """Go on from the best that another has found."""
        self.device[:], self.order[:] = other.best_device, other.best_order
