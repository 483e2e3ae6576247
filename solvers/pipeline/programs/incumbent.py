"""The best known partition of a search for bounds: what it costs, and how others take its place."""

from __future__ import annotations

from dataclasses import dataclass

from numpy.typing import ArrayLike

from instances.pipeline import Instance
from solvers.native import kahn
from solvers.pipeline._kernels import PipelineCore
from solvers.pipeline.programs.blocks import Blocks
from solvers.pipeline.search.annealing import anneal
from solvers.pipeline.search.orders import Search
from solvers.registry import Run


@dataclass
class Incumbent:
    """The cost of the best known partition, without its overflow.

    ``search``  what reports better partitions
    ``core``    the instance without a memory limit, as the core sees it
    ``limit``   a block that costs less than this, in the units of ``blocks``, costs less than the best known partition
    """

    blocks: Blocks
    instance: Instance
    search: Search
    core: PipelineCore
    limit: int

    def slice(self, priority: ArrayLike) -> None:
        """Slice the order of `kahn` under a priority, shape (n,), and keep the slicing if it costs less."""
        order = kahn(self.instance.graph, priority)
        slicing = self.core.slice(order)
        assert slicing is not None  # only a slicing below an upper limit can be missing
        self.limit = min(self.limit, self.blocks.units_below(slicing.cost))
        if self.instance.memory is None:
            self.search.offer_slicing(order, slicing)

    def anneal(self, run: Run, share: float) -> None:
        """Anneal partitions for a share of the time left; with a memory limit, others cost less without overflow."""
        if self.instance.memory is None:
            self.search.extend(share)
            anneal(self.search, run)
            self.limit = min(self.limit, self.blocks.units_below(self.search.cost))
