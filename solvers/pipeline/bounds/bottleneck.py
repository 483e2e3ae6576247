"""The three-superstage relaxation as a lower bound, and two ablations of it."""

from __future__ import annotations

import numpy as np

from shardmark.instances.pipeline import Instance
from shardmark.solvers.pipeline.programs.certificates.claims import certify, even_shares, time_for_proof
from shardmark.solvers.pipeline.programs.incumbent import Bounds, Known, capped, search_first
from shardmark.solvers.pipeline.programs.mip import Shape, prove
from shardmark.solvers.registry import Run, bound

SOURCE = "Archer et al. 2024, Section 3.2; preprint, Section 5.4"


@bound(track="pipeline", source=SOURCE, deterministic=False)
def bottleneck(instance: Instance, run: Run) -> None:
    """Bound the cost of a stage with at least the work of `simple`; merge all others into two superstages.

    Ignores the overflow. First reports the bound of Lemma 3.3; also reports the slicings found on the way. SCIP's
    bounds are lowered by at least a millionth to allow for its tolerances
    (`shardmark.solvers.pipeline.programs.mip.Program.lower_bound`), but its floating-point search is not checked.
    """
    _bound(instance, run)


@bound(track="pipeline", source=SOURCE, deterministic=False)
def bottleneck_no_dag(instance: Instance, run: Run) -> None:
    """Like `bottleneck`, without requiring an acyclic quotient graph."""
    _bound(instance, run, dag=False)


@bound(track="pipeline", source=SOURCE, deterministic=False)
def bottleneck_no_cut_io(instance: Instance, run: Run) -> None:
    """Like `bottleneck`, with free tensors between stages."""
    _bound(instance, run, cut_io=False)


def _bound(instance: Instance, run: Run, *, dag: bool = True, cut_io: bool = True) -> None:
    with time_for_proof(run) as deadline:
        instance = capped(instance)
        bounds = Bounds(instance, run)
        search, known = search_first(instance, run)
        prove(instance, _shape(instance, known, dag, cut_io), search, bounds, run)
    certify(run, instance, [even_shares(instance, instance.work, bounds.best)], deadline - 0.02 * run.remaining())


def _shape(instance: Instance, known: Known, dag: bool, cut_io: bool) -> Shape:
    work = np.bincount(known.stage, weights=instance.work, minlength=1)
    middle = int(np.argmax(work))
    cost = known.stage_cost(middle) if cut_io and instance.nodes else float(work[middle])
    return Shape(
        stages=3,
        costed=range(1, 2),
        stage=np.sign(known.stage - middle) + 1,
        cost=cost,
        earliest=np.zeros(instance.nodes, dtype=np.int32),
        latest=np.full(instance.nodes, 2, dtype=np.int32),
        least_work=instance.work_bound(),
        busy=range(1, 2),
        dag=dag,
        cut_io=cut_io,
    )
