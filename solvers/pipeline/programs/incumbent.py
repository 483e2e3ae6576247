"""The best lower bound of a bound method, and its best partition, first from a short search."""

from __future__ import annotations

import math
from concurrent.futures import wait
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from shardmark.instances.graph import Index
from shardmark.instances.pipeline import Instance
from shardmark.solvers.native import kahn
from shardmark.solvers.pipeline._kernels import PipelineCore, Slicing
from shardmark.solvers.pipeline.programs.stage_search import StageSearch
from shardmark.solvers.pipeline.search.annealing import anneal
from shardmark.solvers.pipeline.search.orders import Search, stage_numbers
from shardmark.solvers.registry import Run

#: Share of the time that the search for a first partition may take.
SEARCH_SHARE = 0.1

#: Moves per node of the longest chain of that search: a second for 200 nodes.
MOVES = 5000


class Bounds:
    """Keeps the best lower bound, first that of Lemma 3.3, and reports every improvement to the run, if any."""

    def __init__(self, instance: Instance, run: Run | None) -> None:
        self._run, self.best = run, -math.inf
        self.offer(instance.work_bound())

    def offer(self, value: float, step: float = 0.0) -> None:
        """Take ``value`` if it exceeds the best so far by more than the fraction ``step``."""
        if value > self.best * (1 + step):
            self.best = value
            if self._run:
                self._run.bound(value)


@dataclass(frozen=True, eq=False)
class Known:
    """The best partition known, an order cut into stages."""

    core: PipelineCore
    order: Index
    slicing: Slicing

    @property
    def stage(self) -> Index:
        """Stage numbers in topological order, shape (n,), int32."""
        return stage_numbers(self.order, self.slicing)

    def stage_cost(self, number: int) -> float:
        """Cost of a stage that is not empty."""
        left, right = self.slicing.cut[number : number + 2]
        return float(self.core.segment_costs(self.order, int(right))[left])


def capped(instance: Instance) -> Instance:
    """The instance with sending times capped at twice the total work; greater ones would drown it in rounding.

    No partition costs more than before, and one that cuts such a tensor still costs more than a single stage of all
    nodes, so the optimum is the same. If there is a memory limit, the instance is returned unchanged, as sizes also
    count against the memory.
    """
    if instance.memory is not None:
        return instance
    most = 2.0 * float(instance.work.sum()) * instance.bandwidth
    return replace(instance, output_size=np.minimum(instance.output_size, most))


def search_first(instance: Instance, run: Run, *, overflow: bool = False) -> tuple[Search, Known]:
    """Report the partitions of a short search; bounds start from the best, without its overflow by default."""
    began = run.remaining()
    search = Search(instance, run, share=SEARCH_SHARE)
    anneal(search, run, most=MOVES * instance.nodes)
    if overflow or instance.memory is None:
        return search, Known(search.core, search.order, Slicing(search.cost, search.cut))
    core = PipelineCore(capped(replace(instance, memory=None)))
    slicing = search.pool.submit(core.slice, search.order)
    wait([slicing], timeout=max(0.0, run.remaining() - (1 - 2 * SEARCH_SHARE) * began))
    core.stop[0] = 1  # no time for optimal cuts: equal stages suffice
    found = slicing.result()
    core.stop[0] = 0
    assert found is not None  # only a slicing below an upper limit can be missing
    return search, Known(core, search.order, found)


@dataclass
class Incumbent:
    """The cost of the best known partition, without its overflow.

    ``search``  reports better partitions
    ``core``    the instance without a memory limit, as the core sees it
    ``limit``   a stage that costs less than this, in units of ``stage_search``, beats the best partition
    """

    stage_search: StageSearch
    instance: Instance
    search: Search
    core: PipelineCore
    limit: int

    def slice(self, priority: ArrayLike) -> None:
        """Slice the order of `kahn` under a priority, shape (n,), and keep the slicing if it costs less."""
        order = kahn(self.instance.graph, priority)
        slicing = self.core.slice(order)
        assert slicing is not None  # only a slicing below an upper limit can be missing
        self.limit = min(self.limit, self.stage_search.units_below(slicing.cost))
        if self.instance.memory is None:
            self.search.offer_slicing(order, slicing)

    def anneal(self, run: Run, share: float) -> None:
        """Anneal partitions for a share of the time left; with a memory limit, others cost less without overflow."""
        if self.instance.memory is None:
            self.search.extend(share)
            anneal(self.search, run)
            self.limit = min(self.limit, self.stage_search.units_below(self.search.cost))
