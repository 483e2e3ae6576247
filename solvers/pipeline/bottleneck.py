"""The three-superblock relaxation as a lower bound."""

from __future__ import annotations

import numpy as np

from instances.pipeline import Instance
from solvers.pipeline._mip import Bounds, Known, Shape, prove, search_first
from solvers.registry import Run, bound


@bound(track="pipeline", source="Archer et al. 2024, Section 3.2", deterministic=False)
def bottleneck(instance: Instance, run: Run) -> None:
    """Bound the cost of the block that does the work of Lemma 3.3, all others merged into two superblocks.

    Ignores the overflow. Reports the bound of Lemma 3.3 first, and the slicings that it meets. What SCIP proves is
    lowered by a millionth and more for its tolerances, see `solvers.pipeline._mip.Program.lower_bound`.
    """
    bounds = Bounds(instance, run)
    search, known = search_first(instance, run)
    prove(instance, _shape(instance, known), search, bounds, run)


def _shape(instance: Instance, known: Known) -> Shape:
    middle = int(np.argmax(np.bincount(known.block, weights=instance.work, minlength=1)))
    return Shape(
        blocks=3,
        costed=range(1, 2),
        block=np.sign(known.block - middle) + 1,
        cost=known.block_cost(middle) if instance.nodes else 0.0,
        earliest=np.zeros(instance.nodes, dtype=np.int32),
        latest=np.full(instance.nodes, 2, dtype=np.int32),
        least_work=instance.work_bound(),
    )
