"""Best acyclic splits for throughput, over all ways to contract an instance."""

from __future__ import annotations

import math
from itertools import islice

from shardmark.instances.graph import Index
from shardmark.instances.placement import Instance
from shardmark.solvers.placement.ideals.contraction import contractions
from shardmark.solvers.placement.ideals.dynamic_program import IdealProgram, Placement, fits
from shardmark.solvers.registry import Run


def ideal_programs(instance: Instance, stop: Index) -> list[IdealProgram]:
    """The dynamic programs of an instance, one per way to contract it; ``stop`` as in `IdealProgram`."""
    return [IdealProgram(instance, contracted, stop) for contracted in contractions(instance)]


def report_cuts(programs: list[IdealProgram], run: Run, limit: float = math.inf, most: int | None = None) -> float:
    """Report ever better cuts of linear extensions, at most ``most`` per program; return the last load or the limit."""
    for program in programs:
        for found in islice(program.cuts(run.memory, limit), most):
            limit = found.cost
            run.report(found.solution)
    return limit


def best_split(instance: Instance, stop: Index, run: Run) -> Placement | None:
    """The best split along ideals, within the memory of the run; Declined if these are too many.

    None if no fitting split is known, or if stopped before the best one is known.
    """
    best: Placement | None = None
    programs = ideal_programs(instance, stop)
    for program in programs:
        best = [best, *program.cuts(run.memory, best.cost if best else math.inf)][-1]
    for program in programs:
        ideals, limit = program.ideals(run.memory), best.cost if best else math.inf
        relaxed = program.relaxation.best(ideals, limit)
        if relaxed is not None:
            best = relaxed if fits(instance, relaxed.device) else program.best(ideals, limit) or best
    return None if stop[0] else best
