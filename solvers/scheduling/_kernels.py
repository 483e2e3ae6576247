"""The core's simulation of a data flow graph on its devices, and the searches that use it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shardmark.instances.files.columns import Ints
from shardmark.instances.graph import Index
from shardmark.instances.scheduling import TOLERANCE, Instance
from shardmark.solvers.native import Floats, array_in, array_out, check, ffi, floats, lib, shaped


@dataclass(frozen=True)
class Execution:
    """One iteration of a data flow graph on its devices.

    ``makespan``   end of the last vertex; infinite if vertices wait for each other and never run
    ``start``      shape (n,), and ``finish``: times of each vertex, infinite if it never runs
    ``arrival``    shape (m,): time at which the tensor of each edge arrives at its reader
    ``sequence``   shape (n,) or less, int32: the vertices by start
    """

    makespan: float
    start: Floats
    finish: Floats
    arrival: Floats
    sequence: Index


class Simulator:
    """Runs the vertices of an instance on their devices; see ``simulate.h``.

    ``device`` always has shape (n,). Ties are broken by the least ``rank``, shape (n,), or the least number.
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
        """Each device runs its vertices in their order in ``order``, shape (n,): those of device 0, then of 1, ..."""
        return self._run(device, lib.SHARD_IN_ORDER, order=order)

    def in_sequence(self, device: Ints | Index, sequence: Ints | Index) -> Execution:
        """Each device runs its vertices in their order in a sequence of all vertices, shape (n,)."""
        return self.in_order(device, sequence[np.argsort(device[sequence], kind="stable")])

    def by_priority(self, device: ArrayLike, priority: ArrayLike, rank: ArrayLike | None = None) -> Execution:
        """An idle device starts the executable vertex of the greatest priority, shape (n,); or the longest one."""
        return self._run(device, lib.SHARD_BY_PRIORITY, priority=priority, rank=rank)

    def by_successors(self, device: ArrayLike, weights: ArrayLike, rank: ArrayLike | None = None) -> Execution:
        """An idle device starts the vertex of the greatest score of Equation (13), ``weights`` alpha to delta."""
        return self._run(device, lib.SHARD_BY_SUCCESSORS, weights=weights, rank=rank)

    def heft(self, order: Index) -> Index:
        """The device of each vertex, shape (n,): in topological order, that of earliest finish. See ``heft.h``."""
        n = len(self._numbers)
        device = np.full(n, -1, dtype=np.int32)
        units, _columns = self._units()
        found = (array_out(column) for column in (device, np.empty(n)))
        check(lib.shard_heft(self._system, units, array_in(self._column(order, n)), *found))
        return device

    def reserving_list(self, priority: Floats, *, live: float, early: float) -> tuple[Index, Index]:
        """Devices, shape (n,), and a sequence of all vertices; see ``reserving_list.h``."""
        n = len(self._numbers)
        device, sequence = np.empty(n, np.int32), np.empty(n, np.int32)
        units, _columns = self._units()
        reserved = self.instance.holding == "reserved"
        found = array_out(device), array_out(sequence)
        given = array_in(floats(priority, (n,))), live, early
        check(lib.shard_reserving_list(self._system, units, reserved, *given, *found))
        return device, sequence

    def memory_moves(
        self, device: Ints | Index, sequence: Index, seed: int, moves: int, temperature: float
    ) -> tuple[float, Index, Index]:
        """Excess of memory after moves, and the new devices and sequence, shape (n,) each: ``memory_moves.h``."""
        n = len(self._numbers)
        device, sequence = (np.array(column, dtype=np.int32) for column in (device, sequence))
        units, _columns = self._units()
        reserved, excess = self.instance.holding == "reserved", ffi.new("double *")
        state = array_out(np.array([seed], dtype=np.uint64))
        now = (array_out(shaped(column, (n,))) for column in (device, sequence))
        check(lib.shard_memory_moves(self._system, units, reserved, moves, temperature, state, *now, excess))
        return excess[0], device, sequence

    def heads_tails(
        self, order: Index, back: Index, ancestors: int, reach: int, branches: int, start: Floats, behind: Floats
    ) -> None:
        """Raise known heads and tails, shape (n, k) each, in place; see ``heads_tails.h``."""
        n = len(self._numbers)
        units, _columns = self._units()
        orders = [array_in(self._column(column, n)) for column in (order, back)]
        ends = [array_out(shaped(column, (n, self.instance.devices))) for column in (start, behind)]
        check(lib.shard_heads_tails(self._system, units, *orders, ancestors, reach, branches, *ends))

    def refute(
        self, order: Index, back: Index, ancestors: int, start: Floats, behind: Floats, longest: float, nodes: int
    ) -> tuple[bool, int]:
        """True if every schedule is proved longer than ``longest``; and the nodes left. See ``refute.h``."""
        n = len(self._numbers)
        units, _columns = self._units()
        orders = [array_in(self._column(column, n)) for column in (order, back)]
        ends = [array_in(shaped(column, (n, self.instance.devices))) for column in (start, behind)]
        left, refuted = ffi.new("int64_t *", nodes), ffi.new("int32_t *")
        check(lib.shard_refute(self._system, units, *orders, ancestors, *ends, longest, left, refuted))
        return bool(refuted[0]), int(left[0])

    def set_cuts(
        self,
        parts: Ints,
        prices: Ints | None,
        enough: int,
        fixed: NDArray[np.int8],
        counted: NDArray[np.bool_],
        sizes: tuple[int, int],
        seconds: float,
    ) -> float:
        """The share of sets whose held ``parts``, shape (m,), exceed the memory; see ``set_cuts.h``.

        ``prices`` have shape (n,). ``fixed``, shape (n,), is 1 for vertices in all sets, -1 for those in none, else 0.
        ``counted``, shape (n,), tells which ones count in the sizes, from the least to the most.
        """
        n, share = len(self._numbers), ffi.new("double *")
        priced = ffi.NULL if prices is None else array_in(shaped(prices.astype(np.int64), (n,)))
        counts = array_in(parts[self._by_tail].astype(np.int64)), priced
        held = ffi.new("struct shard_held *", (*counts, enough, 4 * (int(parts.sum()) + 1)))
        marks = [array_in(shaped(column.astype(np.int8), (n,))) for column in (fixed, counted)]
        check(lib.shard_set_cuts(self._system, held, *marks, *sizes, seconds, share))
        return float(share[0])

    def _units(self) -> tuple[Any, list[Any]]:
        """The units as a C struct, and the pointers that must live as long."""
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


class _Moves:
    """A schedule that a search improves by moves: devices, shape (n,), int32, a second column, and the best of both.

    Every call releases the interpreter lock.
    """

    def __init__(self, simulator: Simulator, device: ArrayLike, column: NDArray[Any], seed: int) -> None:
        n = simulator.instance.nodes
        self.device, self._column = shaped(np.array(device, dtype=np.int32), (n,)), shaped(column, (n,))
        self.best_device, self._best_column, self.best = self.device.copy(), self._column.copy(), math.inf
        self._simulator, (self._units, self._pointers) = simulator, simulator._units()
        self._random = np.array([seed], dtype=np.uint64)

    def follow(self, other: Self) -> None:
        """Continue from the best result of another search."""
        self.device[:], self._column[:] = other.best_device, other._best_column

    def _try(self, kernel: Any, *options: Any, out: tuple[Any, ...] = ()) -> None:
        best = ffi.new("double *", self.best)
        now = (array_out(column) for column in (self._random, self.device, self._column))
        found = (array_out(column) for column in (self.best_device, self._best_column))
        check(kernel(self._simulator._system, self._units, *options, *now, *out, *found, best))
        self.best = best[0]


class SimulatedMoves(_Moves):
    """A partition and priorities, shape (n,), float64, simulated with links and memory; see ``simulated_moves.h``.

    ``penalty``  per unit of time in which tensors do not fit
    """

    def __init__(self, simulator: Simulator, device: ArrayLike, priority: ArrayLike, seed: int) -> None:
        super().__init__(simulator, device, np.array(priority, dtype=np.float64), seed)
        self.penalty = 1.0
        self._reserved = simulator.instance.holding == "reserved"

    def search(self, moves: int, temperature: float) -> None:
        """Try ``moves`` moves; a cost greater by d is accepted with probability exp(-d / ``temperature``)."""
        overfull = ffi.new("double *")
        self._try(lib.shard_simulated_moves, self._reserved, moves, temperature, self.penalty, out=(overfull,))
        self.penalty = min(2 * self.penalty, 1e9) if overfull[0] > 0 else max(self.penalty / 2, 1.0)

    def run(self) -> tuple[Ints, Execution]:
        """The best devices, and how they run."""
        return self.best_device.astype(np.int64), self._simulator.by_priority(self.best_device, self._best_column)


class PathMoves(_Moves):
    """A schedule under independent links and unlimited memory; see ``path_moves.h``.

    ``order, best_order``  shape (n,), int32: vertices of device 0 in execution order, then of 1, ...
    """

    def __init__(self, simulator: Simulator, device: ArrayLike, order: ArrayLike, seed: int) -> None:
        super().__init__(simulator, device, np.array(order, dtype=np.int32), seed)
        self.order, self.best_order = self._column, self._best_column
        self._part, self._own = np.zeros(len(self.device), dtype=np.int32), 0

    def keep_to(self, part: Index, own: int) -> None:
        """From now on move only vertices of part ``own``; ``part`` has shape (n,)."""
        self._part, self._own = self._simulator._column(part, None), own

    def begin_with(self, device: Index, order: Index, makespan: float) -> None:
        """Continue from a schedule, which becomes the best."""
        self.device[:] = self.best_device[:] = device
        self.order[:] = self.best_order[:] = order
        self.best = makespan

    def search(self, moves: int, temperature: float) -> None:
        """Try ``moves`` moves; a makespan longer by d is accepted with probability exp(-d / ``temperature``)."""
        self._move(moves, temperature, temperature, 0)

    def search_window(self, moves: int, temperature: float, last: float, nodes: int) -> None:
        """Anneal a random window of ``nodes`` consecutive vertices of the best schedule; keep improvements."""
        self.follow(self)
        self._move(moves, temperature, last, nodes)

    def _move(self, moves: int, temperature: float, last: float, nodes: int) -> None:
        self._try(lib.shard_path_moves, moves, temperature, last, nodes, array_in(self._part), self._own)

    def run(self) -> tuple[Ints, Execution]:
        """The best devices, and how they run."""
        return self.best_device.astype(np.int64), self._simulator.in_order(self.best_device, self.best_order)
