"""The core's kernels for pipelines: slicing, annealing, and the cheapest convex sets."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from instances.graph import Graph, Index
from instances.pipeline import Instance
from solvers.native import Floats, Longs, Words, array_in, array_out, check, ffi, floats, lib, shaped

#: Elements of what the threads of one search share.
SHARED: int = 2 * lib.SHARD_TRUNK


@dataclass(frozen=True)
class Slicing:
    """An order cut into at most k blocks.

    ``cost``  greatest cost of a block (Equation 3)
    ``cut``   shape (min(k, n) + 1,), or (2,) without nodes, int32: block b holds the positions ``cut[b]`` to
              ``cut[b + 1] - 1``; empty blocks come last
    """

    cost: float
    cut: Index


@dataclass(frozen=True)
class Annealing:
    """Parameters of annealing a partition, whose energy is the sum of the costs of its blocks beyond a target.

    ``moves``      moves to try
    ``seed``       of the random numbers, 0 to 2^64 - 1
    ``hot``        temperature at the first move, as a share of the cost begun with, > 0
    ``cold``       temperature at the last one, > 0
    ``margin``     the target is the least cost so far less this share, at least 0 and below 1
    ``squared``    whether the excesses are squared, and divided by the target
    ``enough``     stop at a partition that costs this or less
    """

    moves: int
    seed: int
    hot: float
    cold: float
    margin: float
    squared: bool
    enough: float = 0.0


class PipelineCore:
    """A pipeline instance as the core sees it; every call releases the interpreter lock.

    ``stop``  shape (1,), int32: while another thread makes it 1, `slice` and `decode` end soon with what they know by
              then, and orders that are not begun cost infinity, also in `arrange`
    """

    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        self.blocks = max(1, min(instance.stages, instance.nodes))  # more would stay empty
        graph = instance.graph
        columns = (*graph.out_csr, *graph.in_csr, instance.work, instance.output_size, instance.param_size)
        self._columns = [array_in(np.ascontiguousarray(column)) for column in columns]  # kept alive beside the struct
        memory = math.inf if instance.memory is None else float(instance.memory)
        self.stop = np.zeros(1, dtype=np.int32)
        limits = (float(instance.bandwidth), memory, array_in(self.stop))
        self._problem = ffi.new("struct shard_pipeline *", (instance.nodes, self.blocks, *self._columns, *limits))

    @property
    def anneal_mib(self) -> float:
        """MiB that `anneal` takes, about: a count for each node and block."""
        return 4.0 * self.instance.nodes * (self.blocks + 12) / 2**20

    def slice(self, order: ArrayLike, upper: float = math.inf) -> Slicing | None:
        """The best way to cut ``order``, shape (n,), into at most k blocks; None if none costs less than ``upper``.

        Raises ValueError unless ``order`` is a topological order. Archer et al. 2024, Algorithm 1.
        """
        cost = np.empty(1)
        cut = np.empty(self.blocks + 1, dtype=np.int32)
        check(lib.shard_slice(self._problem, array_in(self._order(order)), upper, array_out(cost), array_out(cut)))
        return Slicing(float(cost[0]), cut) if math.isfinite(cost[0]) else None

    def decode(self, priorities: ArrayLike, upper: float = math.inf) -> Floats:
        """Cost of the best slicing of each row's Kahn order, shape (rows,); infinite where it is not below ``upper``.

        ``priorities`` has shape (rows, n) and holds no NaN, else ValueError. Archer et al. 2024, Algorithm 2.
        """
        return self._decode(lib.shard_kahn_slice, priorities, upper)

    def arrange(self, priorities: ArrayLike, *, weighted: bool) -> Floats:
        """Length of each row's Kahn order as a linear arrangement, shape (rows,): summed distances of the edges' ends.

        ``weighted``: each times the time that the tensor takes. ``priorities`` has shape (rows, n) and holds no NaN,
        else ValueError. Archer et al. 2024, Appendix C.1.
        """
        return self._decode(lib.shard_kahn_arrangement, priorities, weighted)

    def _decode(self, kernel: Any, priorities: ArrayLike, option: float) -> Floats:
        rows = np.shape(priorities)[0]
        keys, costs = floats(priorities, (rows, self.instance.nodes)), np.empty(rows)
        check(kernel(self._problem, rows, array_in(keys), option, array_out(costs)))
        return costs

    def anneal(self, order: ArrayLike, cut: ArrayLike, annealing: Annealing, stop: Index) -> tuple[Index, Slicing]:
        """An order and its slicing, better than those begun with or the same, found by moving nodes between blocks.

        ``order`` has shape (n,) and is topological, ``cut`` as in `Slicing`, else ValueError. ``stop``, shape (1,),
        int32, ends the search soon after another thread makes it 1.
        """
        nodes, cuts = self._order(order).copy(), np.array(cut, dtype=np.int32)
        shaped(cuts, (self.blocks + 1,))
        cost = np.empty(1)
        options = ffi.new("struct shard_annealing *", dataclasses.astuple(annealing))
        found = (array_out(column) for column in (nodes, cuts, cost))
        check(lib.shard_anneal_partition(self._problem, options, array_in(stop), *found))
        return nodes, Slicing(float(cost[0]), cuts)

    def segment_costs(self, order: ArrayLike, right: int) -> Floats:
        """Costs of the blocks at positions l to right - 1 of ``order`` for every l, shape (right,)."""
        if not 0 <= right <= self.instance.nodes:
            raise ValueError(f"right: expected 0 to {self.instance.nodes}, found {right}")
        costs = np.empty(right)
        check(lib.shard_segment_costs(self._problem, array_in(self._order(order)), right, array_out(costs)))
        return costs

    def _order(self, order: ArrayLike) -> Index:
        return shaped(np.ascontiguousarray(order, dtype=np.int32), (self.instance.nodes,))


@dataclass(frozen=True)
class CheapestSet:
    """Result of a search for the cheapest convex set, in the units of its `SetCosts`.

    ``cost``    of the set found; the limit if none was found
    ``proved``  no set that was asked for costs less than this or the limit
    ``member``  shape (n,), bool: the set found
    ``cuts``    minimum cuts computed
    """

    cost: int
    proved: int
    member: NDArray[np.bool_]
    cuts: int


@dataclass(frozen=True)
class SetList:
    """Convex sets that cost less than a limit and weigh enough, in the units of their `SetCosts`.

    ``member``  shape (sets, n), bool
    ``cost``    shape (sets,), int64
    ``proved``  no other such set costs less than this; the limit if these are all
    """

    member: NDArray[np.bool_]
    cost: Longs
    proved: int


class SetCosts:
    """Costs of convex sets of nodes, as integers that are never more than `scale` times Equation (3).

    ``work``, ``size``  shape (n,), int64: of each node and of sending its tensor, together at most 2^50
    ``below, above``    shape (n, words), uint64: bit w of row v says that w descends from v, or v from w
    ``pair``            shape (n, n), int64: a lower bound on the cost of a block with both nodes
    ``closure``         1: only sets that hold all ancestors of their nodes, as a first block does; -1: all
                        descendants, as a last block does; 0: every convex set
    """

    def __init__(
        self,
        graph: Graph,
        work: Longs,
        size: Longs,
        below: Words,
        above: Words,
        pair: Longs | None = None,
        closure: int = 0,
    ) -> None:
        if min(work.min(initial=0), size.min(initial=0)) < 0 or int(work.sum()) + int(size.sum()) > 2**50:
            raise ValueError("expected work and sizes of at most 2^50 together, none negative")
        self.nodes = graph.nodes
        words = (self.nodes, (self.nodes + 63) // 64)
        nodes = [shaped(column, (self.nodes,)) for column in (work, size)]
        reach = [shaped(column, words) for column in (below, above)]
        columns: list[NDArray[Any]] = [*graph.out_csr, *graph.in_csr, *nodes, *reach]
        self._columns = [array_in(column) for column in columns]
        self._columns += [ffi.NULL if pair is None else array_in(shaped(pair, (self.nodes, self.nodes)))]
        self._blocks = ffi.new("struct shard_set_costs *", (self.nodes, *self._columns, closure))

    def cheapest_set(
        self,
        weight: Longs,
        need: int,
        limit: int,
        *,
        cuts: int,
        fixed: NDArray[np.int8] | None = None,
        any_set: bool = False,
        seconds: float = math.inf,
        shared: Index | None = None,
        stop: Index | None = None,
    ) -> CheapestSet:
        """The cheapest convex set of weight ``need`` or more, or any such set, that costs less than ``limit``.

        ``weight`` has shape (n,), int64, none negative, at most 2^50 in all; ``fixed`` has shape (n,): 1 for nodes of
        the set, -1 for others, 0 where that is open. At most ``cuts`` minimum cuts are computed, within ``seconds``.

        Threads that search for the same, any set, share the work by one ``shared``, shape (SHARED,), zeros to begin
        with, and are called off by one ``stop``, shape (1,): no such set costs less than the least of what they prove.
        """
        member = np.zeros(self.nodes, dtype=np.int8)
        fixed = np.zeros(self.nodes, dtype=np.int8) if fixed is None else shaped(fixed, (self.nodes,))
        spent, cost, proved = ffi.new("int64_t *", cuts), ffi.new("int64_t *"), ffi.new("int64_t *")
        stop = np.zeros(1, dtype=np.int32) if stop is None else shaped(stop, (1,))
        common = ffi.NULL if shared is None else array_out(shaped(shared, (SHARED,)))
        given = (*self._demand(weight, need), array_in(fixed), limit, any_set, seconds, common, array_out(stop))
        check(lib.shard_cheapest_set(self._blocks, *given, spent, cost, proved, array_out(member)))
        return CheapestSet(cost[0], proved[0], member.astype(bool), spent[0])

    def list_sets(
        self,
        weight: Longs,
        need: int,
        limit: int,
        *,
        most: int,
        fixed: NDArray[np.int8] | None = None,
        seconds: float = math.inf,
        shared: Index | None = None,
        stop: Index | None = None,
    ) -> SetList:
        """All convex sets of weight ``need`` or more that cost less than ``limit``, or ``most`` of them.

        See `cheapest_set` for what else is given; of threads that share the work, each set is listed by at least one.
        """
        fixed = np.zeros(self.nodes, dtype=np.int8) if fixed is None else shaped(fixed, (self.nodes,))
        stop = np.zeros(1, dtype=np.int32) if stop is None else shaped(stop, (1,))
        common = ffi.NULL if shared is None else array_out(shaped(shared, (SHARED,)))
        count, proved = ffi.new("int64_t *", most), ffi.new("int64_t *")
        cost, rows = np.empty(most, dtype=np.int64), np.empty((most, (self.nodes + 63) // 64), dtype=np.uint64)
        given = (*self._demand(weight, need), array_in(fixed), limit, seconds, common, array_out(stop))
        check(lib.shard_list_sets(self._blocks, *given, count, array_out(cost), array_out(rows), proved))
        member = np.unpackbits(rows[: count[0]].view(np.uint8), axis=1, bitorder="little", count=self.nodes)
        return SetList(member.astype(bool), cost[: count[0]], proved[0])

    def anneal_set(
        self, weight: Longs, need: int, limit: int, begin: NDArray[np.bool_], *, moves: int, hot: float, seed: int
    ) -> CheapestSet:
        """Some convex set of weight ``need`` or more that costs less than ``limit``, by annealing; proves nothing.

        ``begin``, shape (n,), is a convex set to begin with, which may cost or weigh anything; see `cheapest_set`.
        """
        member, cost = begin.astype(np.int8), ffi.new("int64_t *")
        given = (*self._demand(weight, need), limit, moves, hot, seed)
        check(lib.shard_anneal_set(self._blocks, *given, array_out(shaped(member, (self.nodes,))), cost))
        return CheapestSet(cost[0], 0, member.astype(bool), 0)

    def _demand(self, weight: Longs, need: int) -> tuple[Any, int]:
        if weight.min(initial=0) < 0 or int(weight.sum()) > 2**50 or need < 1:
            raise ValueError("expected weights of at most 2^50 together, none negative, and a need of at least 1")
        return array_in(shaped(weight, (self.nodes,))), need


def closure_work(graph: Graph, work: Longs, stop: Index, *, reverse: bool = False) -> Longs:
    """Work of each node and its ancestors, or if ``reverse``, its descendants, shape (n,), int64.

    ``work`` has shape (n,), int64, none negative, at most 2^50 together. The sums are too small if ``stop``, shape
    (1,), int32, is made 1 by another thread. See ``closure_work.h``.
    """
    start, other = graph.out_csr if reverse else graph.in_csr
    order = np.ascontiguousarray(graph.topological_order[:: -1 if reverse else 1], dtype=np.int32)
    closure = np.zeros(graph.nodes, dtype=np.int64)
    columns = [array_in(column) for column in (order, start, other, shaped(work, (graph.nodes,)))]
    check(lib.shard_closure_work(graph.nodes, *columns, array_in(shaped(stop, (1,))), array_out(closure)))
    return closure


def window_cuts(graph: Graph, size: Longs, closures: tuple[Longs, Longs], total: int, window: int, stop: Index) -> int:
    """Lower bound on the size of all tensors between stages of at most ``window`` work each; see ``window_cuts.h``.

    ``size`` has shape (n,), int64; ``closures`` are those of `closure_work` for ancestors and descendants, ``total``
    is all work. The bound is lower if ``stop``, shape (1,), int32, is made 1 by another thread.
    """
    columns = [array_in(shaped(column, (graph.nodes,))) for column in (size, *closures)]
    bound, edges = ffi.new("int64_t *"), [array_in(column) for column in graph.out_csr]
    given = (*edges, *columns, total, window, array_in(shaped(stop, (1,))))
    check(lib.shard_window_cuts(graph.nodes, *given, bound))
    return int(bound[0])


def weigh_sets(member: Words, weight: Longs) -> Longs:
    """Weight of each of some sets of nodes, shape (sets,), int64.

    ``member`` has shape (sets, words), bit v of row i says that node v is in set i; ``weight`` has shape (n,), int64.
    """
    weighs = np.empty(len(member), dtype=np.int64)
    lib.shard_weigh_sets(len(weight), len(member), array_in(member), array_in(weight), array_out(weighs))
    return weighs


def compatible_sets(member: Words, loss: Longs, heaviest: int, weight: Longs, below: Words, slack: int) -> NDArray[Any]:
    """Say which sets may be in a partition whose blocks lose at most ``slack`` together, shape (sets,), bool.

    ``member`` and ``weight`` are as in `weigh_sets`; ``loss``, shape (sets,), ascending, is ``heaviest`` less what each
    set weighs; ``below``, shape (n, words), uint64: bit w of row v says that w is v or comes after it.
    """
    keep = np.ones(len(member), dtype=np.int8)
    given = (array_in(member), array_in(loss), heaviest, array_in(weight), array_in(below), slack, array_out(keep))
    check(lib.shard_compatible_sets(len(weight), len(member), *given, ffi.NULL))
    return keep.astype(bool)
