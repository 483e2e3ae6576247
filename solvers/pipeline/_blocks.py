"""What single blocks cost at least: searches for cheap convex sets of nodes, within the time of a run.

All of them ignore the overflow of Equation (2), which is never negative.
"""

from __future__ import annotations

import math
import sys

import numpy as np
from numpy.typing import NDArray

from instances.graph import Graph
from instances.pipeline import Instance
from solvers.native import BlockCosts, Cheapest, Longs, Words
from solvers.registry import Run

#: All work and communication become less than 2 to this power, as integers.
BITS = 48

#: What the cost of a block may differ by, relatively, from what the referee adds up.
ROUNDING = 1e-12

#: Bytes for each pair of nodes: a lower bound, and with the cut's network and the master's rows about as much again.
PAIR_BYTES = 16

#: Share of the time that is left over at the end.
RESERVE = 0.1

#: Cuts that a search can go beyond what it was allowed.
MOST_PROBES = 20

#: Share of the time that bounds for pairs may take.
PAIR_SHARE = 0.1


class Blocks:
    """Searches among the blocks of an instance, each within the time that is left.

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
        self._costs = BlockCosts(self._graph, *self._columns, *self._reach)
        self._seconds = 0.0  # for a cut

    def over(self) -> bool:
        """Whether no time is left for another search."""
        return self._run.remaining() <= self._reserve + MOST_PROBES * self._seconds

    def units(self, cost: float) -> int:
        """A cost as an integer, rounded down."""
        return int(cost * self.scale)

    def bound(self, units: int) -> float:
        """An integer as a lower bound on a cost."""
        return units / self.scale * (1 - ROUNDING)

    def cheapest(
        self,
        weight: Longs,
        need: int,
        limit: int,
        *,
        cuts: int,
        fixed: NDArray[np.int8] | None = None,
        any_set: bool = False,
    ) -> Cheapest:
        """`BlockCosts.cheapest` with no more cuts than half of the time allows, by the pace of those before."""
        remaining = self._run.remaining()
        affordable = 0.5 * (remaining - self._reserve) / self._seconds if self._seconds else 1
        found = self._costs.cheapest(
            weight, need, limit, cuts=max(1, min(cuts, int(affordable))), fixed=fixed, any_set=any_set
        )
        self._seconds = max(0.9 * self._seconds, (remaining - self._run.remaining()) / max(1, found.cuts))
        return found

    def holding(self, v: int, limit: int, cuts: int) -> Cheapest:
        """The cheapest convex set that holds node ``v``."""
        weight = np.zeros(self.nodes, dtype=np.int64)
        weight[v] = 1
        return self.cheapest(weight, 1, limit, cuts=cuts)

    def tie_pairs(self, limit: int) -> None:
        """Bound what blocks cost that hold two nodes, for all pairs that time allows; searches use it from then on."""
        pair = np.zeros((self.nodes, self.nodes), dtype=np.int64)
        enough = (1 - PAIR_SHARE) * self._run.remaining()
        for u in range(self.nodes):
            for v in range(u):
                if self._run.remaining() < enough:
                    break
                both = np.zeros(self.nodes, dtype=np.int64)
                both[[u, v]] = 1
                pair[u, v] = pair[v, u] = self.cheapest(both, 2, limit, cuts=1, fixed=both.astype(np.int8)).proved
        self._costs = BlockCosts(self._graph, *self._columns, *self._reach, pair)


def fit(instance: Instance, run: Run) -> bool:
    """Whether the memory of a run suffices for `Blocks`; says so on stderr if not."""
    fits = instance.nodes**2 * PAIR_BYTES / 2**20 < 0.5 * run.memory
    if not fits:
        print(
            f"{instance.nodes} nodes, pair by pair, do not fit into {run.memory:.0f} MiB: not solved", file=sys.stderr
        )
    return fits


def _scale(total: float) -> float:
    return math.ldexp(1.0, min(1000, BITS - math.frexp(total)[1])) if total > 0 else 1.0


def _whole(values: NDArray[np.float64], scale: float) -> Longs:
    return np.floor(values * scale).astype(np.int64)


def descendants(graph: Graph, *, forwards: bool) -> Words:
    """Bit w of row v says that w descends from v (v from w, unless ``forwards``), shape (n, words)."""
    n = graph.nodes
    order = graph.topological_order[::-1] if forwards else graph.topological_order
    start, after = graph.out_csr if forwards else graph.in_csr
    own = np.zeros((n, (n + 63) // 64), dtype=np.uint64)
    own[np.arange(n), np.arange(n) // 64] = np.uint64(1) << (np.arange(n, dtype=np.uint64) % np.uint64(64))
    rows = np.zeros_like(own)
    for v in order:
        next_ones = after[start[v] : start[v + 1]]
        rows[v] = np.bitwise_or.reduce(rows[next_ones] | own[next_ones], axis=0)
    return rows
