"""Searches for cheap stages that contain an operator with all of its helpers, as those of some optimal partition do.

A node that makes several tensors is written as a *maker*, which sends one tensor of their total size to *helpers*
without work, each of which makes one of them (`shardmark.instances.split_multi_output`). Here a node is a helper if it
has no work and reads from its maker only; the readers of the maker are all helpers; and their tensors are together no
larger than that of the maker. Then moving all helpers into the stage of their maker raises the cost of no stage: that
stage sent the maker's tensor, and now sends no more than theirs; a stage that helpers leave received the maker's
tensor, and now receives no more than theirs; other stages receive what they received before. If a stage now receives
from that of the maker, it could be reached from there before, so there is no new cycle.

Sets of nodes contain a maker with all of its helpers or none of them if these count as being on paths between each
other. So the rows of ancestors and descendants make any search for convex or closed sets skip all others.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from shardmark.instances.files.columns import Ints
from shardmark.instances.graph import Graph
from shardmark.instances.pipeline import Instance
from shardmark.solvers.native import Longs, Words
from shardmark.solvers.pipeline._set_kernels import CheapestSet, SetList, packed
from shardmark.solvers.pipeline.programs.certificates.cases import Case
from shardmark.solvers.pipeline.programs.certificates.claims import AnyClaim, DividedClaim
from shardmark.solvers.pipeline.programs.stage_search import MIDDLE, PAIR_SHARE, StageSearch
from shardmark.solvers.registry import Run


class HelperSearch(StageSearch):
    """Searches among the possible stages of an instance that contain all helpers of their makers, and no others.

    ``maker``  shape (n,): the maker of each helper; every other node itself

    The size of a helper's tensor is lowered by a unit, so that rounding leaves the sum below the size of the maker's.
    """

    def __init__(self, instance: Instance, run: Run) -> None:
        super().__init__(instance, run)
        self._apart = StageSearch(instance, run)
        self.maker, sent = _makers(self._graph, *self._columns)
        self._columns = self._columns[0], sent
        self._reach = _joined(self.descendants(), self.maker)
        self._costs = self._by_closure(None)

    def units_below(self, cost: float) -> int:
        """The greatest safe limit in these units: every stage below it costs less than ``cost``."""
        return super().units_below(cost) - self.nodes

    def holding(self, v: int, limit: int, cuts: int) -> CheapestSet:
        """The cheapest such set that holds node ``v``; for a helper nothing is proven, as its maker has the same."""
        if self.maker[v] != v:
            return CheapestSet(0, 0, np.zeros(self.nodes, dtype=bool), 0)
        return super().holding(v, limit, cuts)

    def bound_pairs(self, limit: int) -> None:
        """Bound the cost of stages with both nodes of a pair, as `StageSearch`, but for no helpers."""
        enough = (1 - PAIR_SHARE) * self._run.remaining()
        pair = np.zeros((self.nodes, self.nodes), dtype=np.int64)
        nodes = np.flatnonzero(self.maker == np.arange(self.nodes)).tolist()

        def bound_pairs_of(at: int) -> None:
            u, nothing = nodes[at], np.zeros(self.nodes, dtype=np.int64)
            for v in nodes[:at]:
                if self._run.remaining() < enough:
                    break
                both = nothing.copy()
                both[[u, v]] = 1
                pair[u, v] = pair[v, u] = self.cheapest(both, 2, limit, cuts=1, fixed=both.astype(np.int8)).proved

        list(self.pool.map(bound_pairs_of, range(len(nodes))))
        self._costs = self._by_closure(pair)

    def annealed_sets(self, weight: Longs, need: int, limit: int, closure: int = MIDDLE) -> SetList:
        """Such stages of weight ``need`` or more below the cost ``limit``; finding none proves nothing.

        Single nodes are annealed, then helpers follow their makers.
        """
        member = self._apart.annealed_sets(weight, need, limit, closure).member[:, self.maker]
        crossing = member[:, self._graph.tail] != member[:, self._graph.head]
        cost = member @ self.work
        for at, row in enumerate(crossing):
            cost[at] += self.sent[np.unique(self._graph.tail[row])].sum()
        kept = (member @ weight >= need) & (cost < limit)
        return SetList(member[kept], cost[kept], 0)

    def of_all_stages(self, claim: AnyClaim) -> AnyClaim:
        """The same claim about all stages: makers weigh what their helpers weighed, and cases are by stages of makers.

        A stage that lacks some helpers of a maker, or has some without it, then weighs as much as with all or none, and
        costs no less.
        """
        if isinstance(claim, DividedClaim):
            return replace(claim, root=self._case(claim.root))
        return replace(claim, weight=self._gathered(claim.weight))

    def _case(self, case: Case) -> Case:
        branch = case.branch and (int(self.maker[case.branch[0]]), case.branch[1])
        return Case(self._gathered(case.weight), case.needs, branch, [self._case(child) for child in case.children])

    def _gathered(self, weight: Longs) -> Longs:
        gathered = np.zeros_like(weight)
        np.add.at(gathered, self.maker, weight)
        return gathered


def search_stages(instance: Instance, run: Run) -> StageSearch:
    """A `HelperSearch` if the instance has helpers, else a `StageSearch`."""
    search = StageSearch(instance, run)
    maker, _ = _makers(instance.graph, search.work, search.sent)
    return HelperSearch(instance, run) if (maker != np.arange(instance.nodes)).any() else search


def of_all_stages(claims: list[AnyClaim], search: StageSearch) -> list[AnyClaim]:
    """Claims of a search as claims about all stages."""
    return [search.of_all_stages(claim) for claim in claims] if isinstance(search, HelperSearch) else claims


def _makers(graph: Graph, work: Longs, sent: Longs) -> tuple[Ints, Longs]:
    """The maker of each helper, every other node itself, and times to send, those of helpers lowered; shape (n,)."""
    nodes, tail, head = graph.nodes, graph.tail, graph.head
    helper = (work == 0) & (np.bincount(head, minlength=nodes) == 1)
    served = np.zeros(nodes, dtype=bool)
    served[tail] = True
    served[tail[~helper[head]]] = False  # by others than helpers
    lowered = np.where(helper, np.maximum(sent - 1, 0), sent)
    together = np.zeros(nodes, dtype=np.int64)
    np.add.at(together, tail, lowered[head])
    served &= together <= sent
    maker = np.arange(nodes)
    maker[head[served[tail]]] = tail[served[tail]]
    maker = np.where(maker[maker] == maker, maker, np.arange(nodes))  # no helper is a maker
    return maker, np.where(maker == np.arange(nodes), sent, lowered)


def _joined(descendants: NDArray[np.bool_], maker: Ints) -> tuple[Words, Words]:
    """Rows of descendants and of ancestors if a maker and its helpers are on paths between each other.

    ``descendants``, shape (n, n), is for paths along edges.
    """
    nodes = np.arange(len(maker))
    alone = np.bincount(maker, minlength=len(maker)) == 1
    reach = (descendants | np.eye(len(maker), dtype=bool))[maker]
    reach[nodes[alone], nodes[alone]] = False
    return packed(reach), packed(reach.T)
