"""Lower bounds on the cost of single stages: searches for cheap convex sets of nodes, within the time of a run.

They ignore the overflow of Equation (2), which is never negative.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from shardmark.instances.graph import Graph
from shardmark.instances.pipeline import Instance
from shardmark.solvers.native import Floats, Longs, Words
from shardmark.solvers.pipeline._set_kernels import SHARED, CheapestSet, SetCosts, SetList, unpacked
from shardmark.solvers.registry import Run

Found = TypeVar("Found", CheapestSet, SetList)

#: All work and communication become less than 2 to this power, as integers.
BITS = 48

#: All weights of nodes together become about 2 to this power, as integers.
WEIGHT_BITS = 40

#: Least sum of weights, far above the range in which its inverse overflows.
LEAST_WEIGHT = 1e-200

#: Relative difference, at most, between the cost of a stage here and as the referee adds it up.
ROUNDING = 1e-12

#: Bytes per pair of nodes: 8 for its lower bound, about as many for the cut's network and the master's rows.
PAIR_BYTES = 16

#: Share of the time reserved for the end.
RESERVE = 0.1

#: Stands for no limit on the number of minimum cuts.
MOST_CUTS = 2**62

#: Most sets listed at a time: the linear program profits little from more, and its time grows with them.
MOST_LISTED = 3000

#: Sets annealed at a time.
ANNEALED_SETS = 16

#: Moves per annealed set: a tenth of a second.
MOVES = 100_000

#: First temperature of annealing, from a single node, as a share of the limit.
HOT = 0.07

#: Places of a stage. The first stage holds all ancestors of its nodes, the last one all descendants; see `SetCosts`.
FIRST, MIDDLE, LAST = 1, 0, -1

#: Share of the time that bounds for pairs may take.
PAIR_SHARE = 0.1


class StageSearch:
    """Searches among the possible stages of an instance, each within the remaining time.

    ``scale``  a power of two: integers count 1 / scale of the instance's unit of time
    """

    def __init__(self, instance: Instance, run: Run) -> None:
        sent = instance.output_size / instance.bandwidth
        self.nodes = instance.nodes
        self.scale = _scale(float(instance.work.sum() + sent.sum()))
        self._run = run
        self._reserve = RESERVE * run.remaining()
        self._graph = instance.graph
        self._columns = (_whole(instance.work, self.scale), _whole(sent, self.scale))
        self._reach = (descendants(self._graph, forwards=True), descendants(self._graph, forwards=False))
        self._costs = self._by_closure(None)
        self.pool = ThreadPoolExecutor(run.cores)

    def _by_closure(self, pair: Longs | None) -> dict[int, SetCosts]:
        return {c: SetCosts(self._graph, *self._columns, *self._reach, pair, c) for c in (FIRST, MIDDLE, LAST)}

    @property
    def work(self) -> Longs:
        """Work of each node as integers, shape (n,)."""
        return self._columns[0]

    @property
    def sent(self) -> Longs:
        """Time to send the tensor of each node as integers, shape (n,)."""
        return self._columns[1]

    def descendants(self) -> NDArray[np.bool_]:
        """Flags, shape (n, n): element (v, w) is True if w descends from v."""
        return unpacked(self._reach[0], self.nodes)

    def left(self) -> float:
        """Seconds left for searches."""
        return max(0.0, self._run.remaining() - self._reserve)

    def over(self) -> bool:
        """True if no time is left for another search."""
        return self.left() == 0.0

    def units(self, cost: float) -> int:
        """A cost as an integer, rounded down."""
        return int(cost * self.scale)

    def units_below(self, cost: float) -> int:
        """The greatest safe limit in these units: every stage below it costs less than ``cost``."""
        return self.units(cost) - 2 * self.nodes

    def bound(self, units: int) -> float:
        """A lower bound in these units as one on the cost."""
        return units / self.scale * (1 - ROUNDING)

    def cheapest(
        self, weight: Longs, need: int, limit: int, *, cuts: int = MOST_CUTS, fixed: NDArray[np.int8] | None = None
    ) -> CheapestSet:
        """`SetCosts.cheapest_set` within the remaining time."""
        costs = self._costs[MIDDLE]
        return costs.cheapest_set(weight, need, limit, cuts=cuts, fixed=fixed, seconds=self.left())

    def holding(self, v: int, limit: int, cuts: int) -> CheapestSet:
        """The cheapest convex set that holds node ``v``."""
        weight = np.zeros(self.nodes, dtype=np.int64)
        weight[v] = 1
        return self.cheapest(weight, 1, limit, cuts=cuts)

    def any_set(
        self,
        weight: Longs,
        need: int,
        limit: int,
        seconds: float,
        closure: int = MIDDLE,
        fixed: NDArray[np.int8] | None = None,
    ) -> CheapestSet:
        """Some stage of weight ``need`` or more that costs less than ``limit``, searched for by all cores.

        ``closure``  FIRST, MIDDLE or LAST: where the stage is
        ``fixed``    shape (n,): 1 for nodes of the stage, -1 for others, 0 for undecided ones; None if all are
                     undecided
        """
        search = partial(self._costs[closure].cheapest_set, weight, need, limit, any_set=True, cuts=MOST_CUTS)
        found = self._on_all_cores(search, fixed, seconds)
        return replace(min(found, key=lambda part: part.cost), proved=min(part.proved for part in found))

    def list_sets(
        self,
        weight: Longs,
        need: int,
        limit: int,
        seconds: float,
        closure: int = MIDDLE,
        fixed: NDArray[np.int8] | None = None,
        most: int = MOST_LISTED,
    ) -> SetList:
        """All stages of weight ``need`` or more below the cost ``limit``, or about ``most`` of them; see `any_set`.

        Some may be listed more than once.
        """
        search = partial(self._costs[closure].list_sets, weight, need, limit, most=max(1, most // self._run.cores))
        found = self._on_all_cores(search, fixed, seconds)
        members, costs = zip(*((part.member, part.cost) for part in found), strict=True)
        return SetList(np.concatenate(members), np.concatenate(costs), min(part.proved for part in found))

    def _on_all_cores(
        self, search: Callable[..., Found], fixed: NDArray[np.int8] | None, seconds: float
    ) -> list[Found]:
        """Results of a search that all cores share."""
        shared = np.zeros(SHARED, dtype=np.int32) if self._run.cores > 1 else None
        search = partial(search, fixed=fixed, shared=shared, stop=np.zeros(1, dtype=np.int32))
        parts = [self.pool.submit(search, seconds=min(seconds, self.left())) for _ in range(self._run.cores)]
        return [part.result() for part in parts]

    def annealed_sets(self, weight: Longs, need: int, limit: int, closure: int = MIDDLE) -> SetList:
        """Stages of weight ``need`` or more below the cost ``limit``, by annealing; finding none proves nothing."""
        costs, rng = self._costs[closure], self._run.rng

        def one(v: int, seed: int) -> CheapestSet:
            begin = (np.arange(self.nodes) == v) & (closure == MIDDLE)
            return costs.anneal_set(weight, need, limit, begin, moves=MOVES, hot=HOT, seed=seed)

        nodes, seeds = rng.integers(self.nodes, size=ANNEALED_SETS), rng.integers(2**63, size=ANNEALED_SETS)
        found = [one for one in self.pool.map(one, nodes.tolist(), seeds.tolist()) if one.cost < limit]
        member = np.array([one.member for one in found], dtype=bool).reshape(-1, self.nodes)
        return SetList(member, np.array([one.cost for one in found], dtype=np.int64), 0)

    def bound_pairs(self, limit: int) -> None:
        """Bound the cost of stages with both nodes of a pair, for as many pairs as time allows; searches use it."""
        enough = (1 - PAIR_SHARE) * self._run.remaining()
        pair = np.zeros((self.nodes, self.nodes), dtype=np.int64)

        def bound_pair(u: int) -> None:
            nothing = np.zeros(self.nodes, dtype=np.int64)
            for v in range(u):
                if self._run.remaining() < enough:
                    break
                both = nothing.copy()
                both[[u, v]] = 1
                pair[u, v] = pair[v, u] = self.cheapest(both, 2, limit, cuts=1, fixed=both.astype(np.int8)).proved

        list(self.pool.map(bound_pair, range(self.nodes)))
        self._costs = self._by_closure(pair)


def fit(instance: Instance, run: Run) -> bool:
    """True if the memory of a run suffices for `StageSearch`; else a line on stderr says so."""
    fits = instance.nodes**2 * PAIR_BYTES / 2**20 < 0.5 * run.memory
    if not fits:
        nodes = f"{instance.nodes} nodes, pair by pair,"
        print(f"{nodes} do not fit into {run.memory:.0f} MiB: not solved", file=sys.stderr)
    return fits


def _scale(total: float) -> float:
    return math.ldexp(1.0, min(1000, BITS - math.frexp(total)[1])) if total > 0 else 1.0


def _whole(values: Floats, scale: float) -> Longs:
    return np.floor(values * scale).astype(np.int64)


def spread_evenly(instance: Instance) -> Floats:
    """Weights of nodes, shape (n,), proportional to the work and summing to k."""
    work = instance.work + 1e-6 * instance.work.mean() + np.finfo(np.float64).tiny
    return work / work.sum() * instance.stages


def whole_weights(weights: Floats) -> Longs:
    """Weights of nodes, none negative, as integers, shape (n,); all 0 if their sum is too small for float64."""
    return np.round(weights * (2**WEIGHT_BITS / max(float(weights.sum()), LEAST_WEIGHT))).astype(np.int64)


def descendants(graph: Graph, *, forwards: bool) -> Words:
    """Bit w of row v is 1 if w descends from v (v from w, unless ``forwards``), shape (n, words)."""
    n = graph.nodes
    order = graph.topological_order[::-1] if forwards else graph.topological_order
    start, after = graph.out_csr if forwards else graph.in_csr
    own = np.zeros((n, (n + 63) // 64), dtype=np.uint64)
    own[np.arange(n), np.arange(n) // 64] = np.uint64(1) << (np.arange(n, dtype=np.uint64) % np.uint64(64))
    rows = np.zeros_like(own)
    for v in order:
        neighbours = after[start[v] : start[v + 1]]
        rows[v] = np.bitwise_or.reduce(rows[neighbours] | own[neighbours], axis=0)
    return rows
