"""The three-superstage relaxation for every possible position of the bottleneck, as a lower bound."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np

from shardmark.instances.pipeline import Instance
from shardmark.solvers.pipeline.programs.certificates.claims import certify, even_shares, time_for_proof
from shardmark.solvers.pipeline.programs.incumbent import Bounds, Known, capped, search_first
from shardmark.solvers.pipeline.programs.mip import Shape, prove
from shardmark.solvers.registry import Run, bound


@bound(track="pipeline", source="Archer et al. 2024, Section 3.3", deterministic=False)
def bottleneck_guess(instance: Instance, run: Run) -> None:
    """Like `bottleneck`, with the position of the bounded stage fixed; take the least bound over all positions.

    The stages before it are merged into one superstage, those after it into another; the cost of a superstage divided
    by its number of stages bounds the cost too. The programs share the remaining time equally; as many run at once as
    there are cores.

    Ignores the overflow. First reports the bound of Lemma 3.3; also reports the slicings found on the way. SCIP's
    bounds are lowered by at least a millionth to allow for its tolerances
    (`shardmark.solvers.pipeline.programs.mip.Program.lower_bound`), but its floating-point search is not checked.
    """
    with time_for_proof(run) as deadline:
        instance = capped(instance)
        best = _bound(instance, run)
    certify(run, instance, [even_shares(instance, instance.work, best)], deadline - 0.02 * run.remaining())


def _bound(instance: Instance, run: Run) -> float:
    """Report and return the least bound over all positions."""
    bounds = Bounds(instance, run)
    search, known = search_first(instance, run)
    last = len(known.slicing.cut) - 2
    guesses: list[Bounds] = []

    def solve(place: int) -> None:
        if any(guess.best <= bounds.best for guess in guesses):
            return
        guess = Bounds(instance, None)
        share = min(1.0, run.cores / (last + 1 - place))
        prove(instance, _shape(instance, known, place), search, guess, run, share, at_once=run.cores)
        guesses.append(guess)

    with ThreadPoolExecutor(run.cores) as pool:
        list(pool.map(solve, range(last + 1)))
    bounds.offer(min([known.slicing.cost, *(guess.best for guess in guesses)]))
    return bounds.best


def _shape(instance: Instance, known: Known, place: int) -> Shape:
    """The program in which stage ``place``, counted from 0, does the work."""
    stages = len(known.slicing.cut) - 1
    before, after = place, stages - 1 - place
    fits = float(instance.work[known.stage == place].sum()) >= instance.work_bound()
    return Shape(
        stages=3,
        costed=range(0 if before else 1, 3 if after else 2),
        stage=np.sign(known.stage - place) + 1 if fits else None,
        cost=known.slicing.cost,
        earliest=np.full(instance.nodes, 0 if before else 1, dtype=np.int32),
        latest=np.full(instance.nodes, 2 if after else 1, dtype=np.int32),
        least_work=instance.work_bound(),
        busy=range(1, 2),
        merged=tuple(count for count in (before, 1, after) if count),
    )
