"""The three-superblock relaxation as a lower bound, whole and with one of its two halves left out."""

from __future__ import annotations

import numpy as np

from instances.pipeline import Instance
from solvers.pipeline._mip import Bounds, Known, Shape, prove, search_first
from solvers.registry import Run, bound


@bound(
    track="pipeline",
    source="Archer et al. 2024, Section 3.2; preprint, Section 5.4",
    variants={
        "bottleneck": {},
        "bottleneck-no-dag": {"dag": False},
        "bottleneck-no-cut-io": {"cut_io": False},
    },
    deterministic=False,
)
def bottleneck(instance: Instance, run: Run, *, dag: bool = True, cut_io: bool = True) -> None:
    """Bound the cost of the block that does the work of Lemma 3.3, all others merged into two superblocks.

    Without ``dag`` the block need not leave the quotient graph without cycles; without ``cut_io`` tensors between
    blocks are free. Ignores the overflow. Reports the bound of Lemma 3.3 first, and the slicings that it meets. What
    SCIP proves is lowered by a millionth and more for its tolerances, see `solvers.pipeline._mip.Program.lower_bound`.
    """
    bounds = Bounds(instance, run)
    search, known = search_first(instance, run)
    prove(instance, _shape(instance, known, dag, cut_io), search, bounds, run)


def _shape(instance: Instance, known: Known, dag: bool, cut_io: bool) -> Shape:
    work = np.bincount(known.block, weights=instance.work, minlength=1)
    middle = int(np.argmax(work))
    cost = known.block_cost(middle) if cut_io and instance.nodes else float(work[middle])
    return Shape(
        blocks=3,
        costed=range(1, 2),
        block=np.sign(known.block - middle) + 1,
        cost=cost,
        earliest=np.zeros(instance.nodes, dtype=np.int32),
        latest=np.full(instance.nodes, 2, dtype=np.int32),
        least_work=instance.work_bound(),
        busy=range(1, 2),
        dag=dag,
        cut_io=cut_io,
    )
