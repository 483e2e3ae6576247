"""The core's kernels for partitions: slicing, annealing, and minimum cuts in windows of work."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from shardmark.instances.graph import Graph, Index
from shardmark.instances.pipeline import Instance
from shardmark.solvers.native import Floats, Longs, array_in, array_out, check, ffi, floats, lib, shaped


@dataclass(frozen=True)
class Slicing:
    """An order cut into at most k stages.

    ``cost``  greatest cost of a stage (Equation 3)
    ``cut``   shape (min(k, n) + 1,), or (2,) without nodes, int32: stage b holds the positions ``cut[b]`` to
              ``cut[b + 1] - 1``; empty stages come last
    """

    cost: float
    cut: Index


@dataclass(frozen=True)
class Annealing:
    """Parameters of annealing a partition, whose energy is the sum of the costs of its stages beyond a target.

    ``moves``      moves to try
    ``seed``       of the random numbers, 0 to 2^64 - 1
    ``hot``        temperature at the first move, as a share of the cost begun with, > 0
    ``cold``       temperature at the last one, > 0
    ``margin``     the target is (1 - ``margin``) times the least cost so far; 0 <= ``margin`` < 1
    ``squared``    True: the excesses are squared and divided by the target
    ``enough``     stop at a partition of this cost or less
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

    ``stop``  shape (1,), int32: while another thread keeps it at 1, `slice` and `decode` soon return the best so far,
              and orders not yet begun cost infinity, also in `arrange`
    """

    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        self.stages = max(1, min(instance.stages, instance.nodes))  # more would stay empty
        graph = instance.graph
        columns = (*graph.out_csr, *graph.in_csr, instance.work, instance.output_size, instance.param_size)
        self._columns = [array_in(np.ascontiguousarray(column)) for column in columns]  # the struct points to them
        memory = math.inf if instance.memory is None else float(instance.memory)
        self.stop = np.zeros(1, dtype=np.int32)
        limits = (float(instance.bandwidth), memory, array_in(self.stop))
        self._problem = ffi.new("struct shard_pipeline *", (instance.nodes, self.stages, *self._columns, *limits))

    @property
    def anneal_mib(self) -> float:
        """Approximate MiB that `anneal` allocates: one counter per node and stage."""
        return 4.0 * self.instance.nodes * (self.stages + 12) / 2**20

    def slice(self, order: ArrayLike, upper: float = math.inf) -> Slicing | None:
        """The best way to cut ``order``, shape (n,), into at most k stages; None if none costs less than ``upper``.

        Raises ValueError unless ``order`` is a topological order. Archer et al. 2024, Algorithm 1.
        """
        cost = np.empty(1)
        cut = np.empty(self.stages + 1, dtype=np.int32)
        check(lib.shard_slice(self._problem, array_in(self._order(order)), upper, array_out(cost), array_out(cut)))
        return Slicing(float(cost[0]), cut) if math.isfinite(cost[0]) else None

    def decode(self, priorities: ArrayLike, upper: float = math.inf) -> Floats:
        """Cost of the best slicing of each row's Kahn order, shape (rows,); infinite if not below ``upper``.

        ``priorities`` has shape (rows, n) and holds no NaN, else ValueError. Archer et al. 2024, Algorithm 2.
        """
        return self._decode(lib.shard_kahn_slice, priorities, upper)

    def arrange(self, priorities: ArrayLike, *, weighted: bool) -> Floats:
        """Length of each row's Kahn order as a linear arrangement, shape (rows,): the sum of the edges' lengths in it.

        If ``weighted``, each length is multiplied by the transfer time of the tensor. ``priorities`` has shape (rows,
        n) and holds no NaN, else ValueError. Archer et al. 2024, Appendix C.1.
        """
        return self._decode(lib.shard_kahn_arrangement, priorities, weighted)

    def _decode(self, kernel: Any, priorities: ArrayLike, option: float) -> Floats:
        rows = np.shape(priorities)[0]
        keys, costs = floats(priorities, (rows, self.instance.nodes)), np.empty(rows)
        check(kernel(self._problem, rows, array_in(keys), option, array_out(costs)))
        return costs

    def anneal(self, order: ArrayLike, cut: ArrayLike, annealing: Annealing, stop: Index) -> tuple[Index, Slicing]:
        """An order and its slicing, found by moving nodes between stages; never worse than the given ones.

        ``order`` has shape (n,) and is topological, ``cut`` as in `Slicing`, else ValueError. ``stop``, shape (1,),
        int32, ends the search soon after another thread makes it 1.
        """
        nodes, cuts = self._order(order).copy(), np.array(cut, dtype=np.int32)
        shaped(cuts, (self.stages + 1,))
        cost = np.empty(1)
        options = ffi.new("struct shard_annealing *", dataclasses.astuple(annealing))
        found = (array_out(column) for column in (nodes, cuts, cost))
        check(lib.shard_anneal_partition(self._problem, options, array_in(stop), *found))
        return nodes, Slicing(float(cost[0]), cuts)

    def segment_costs(self, order: ArrayLike, right: int) -> Floats:
        """Costs of the stages at positions l to right - 1 of ``order`` for every l, shape (right,)."""
        if not 0 <= right <= self.instance.nodes:
            raise ValueError(f"right: expected 0 to {self.instance.nodes}, found {right}")
        costs = np.empty(right)
        check(lib.shard_segment_costs(self._problem, array_in(self._order(order)), right, array_out(costs)))
        return costs

    def _order(self, order: ArrayLike) -> Index:
        return shaped(np.ascontiguousarray(order, dtype=np.int32), (self.instance.nodes,))


def closure_work(graph: Graph, work: Longs, stop: Index, *, reverse: bool = False) -> Longs:
    """Work of each node and its ancestors, or if ``reverse``, its descendants, shape (n,), int64.

    ``work`` has shape (n,), int64, none negative, at most 2^50 together. If another thread sets ``stop``, shape (1,),
    int32, to 1, the sums are too small. See ``closure_work.h``.
    """
    start, other = graph.out_csr if reverse else graph.in_csr
    order = np.ascontiguousarray(graph.topological_order[:: -1 if reverse else 1], dtype=np.int32)
    closure = np.zeros(graph.nodes, dtype=np.int64)
    columns = [array_in(column) for column in (order, start, other, shaped(work, (graph.nodes,)))]
    check(lib.shard_closure_work(graph.nodes, *columns, array_in(shaped(stop, (1,))), array_out(closure)))
    return closure


def window_cuts(
    graph: Graph,
    size: Longs,
    closures: tuple[Longs, Longs],
    total: int,
    window: int,
    stop: Index,
    moved: Longs | None = None,
) -> int:
    """Lower bound on the size of all tensors between stages of at most ``window`` work each; see ``window_cuts.h``.

    ``size`` has shape (n,), int64; ``closures`` are those of `closure_work` for ancestors and descendants, ``total`` is
    all work. If another thread sets ``stop``, shape (1,), int32, to 1, the bound is valid but lower. ``moved``, shape
    ((total - 1) // window, edges), int64, all 0, gets the flows by window and edge, by ascending makers and readers.
    """
    columns = [array_in(shaped(column, (graph.nodes,))) for column in (size, *closures)]
    bound, edges = ffi.new("int64_t *"), [array_in(column) for column in graph.out_csr]
    given = (*edges, *columns, total, window, array_in(shaped(stop, (1,))))
    flows = ffi.NULL if moved is None else array_out(shaped(moved, ((total - 1) // window, graph.edges)))
    check(lib.shard_window_cuts(graph.nodes, *given, bound, flows))
    return int(bound[0])
