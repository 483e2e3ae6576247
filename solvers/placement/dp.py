"""The dynamic program over ideals, whole and on a linear extension of the graph."""

from __future__ import annotations

import math

from instances.placement import Instance
from solvers.placement._contracted import contractions
from solvers.placement._ideals import IdealProgram, deadline, require_plain
from solvers.registry import Run, solver


@solver(track="placement", source="Tarnawski et al. 2020, Section 5.1.1, Appendix E")
def dp(instance: Instance, run: Run) -> None:
    """Split along the best chain of ideals: the optimum of acyclic splits, and a bound there if the time suffices.

    Begins with the split of `dpl`, which the other one has to beat: loads from there on are not looked at.
    """
    require_plain(instance, "dp")
    with deadline(run) as stop:
        programs = [IdealProgram(instance, contracted, stop) for contracted in contractions(instance)]
        ideals = [program.ideals(run.memory / len(programs)) for program in programs]
        limit = _report_best(programs, run, math.inf)
        for program, graph_ideals in zip(programs, ideals, strict=True):
            found = program.best(graph_ideals, limit)
            if found is not None:
                limit = found.cost
                run.report(found.device)
        if instance.contiguity == "acyclic" and not stop[0] and math.isfinite(limit):
            run.bound(limit - max(program.rounding for program in programs))


@solver(track="placement", source="Tarnawski et al. 2020, Section 5.1.2")
def dpl(instance: Instance, run: Run) -> None:
    """Cut one topological order, found depth first, into devices as well as that can be done.

    The order takes the item that has become ready last; see `solvers.placement._contracted.depth_first_order`.
    """
    require_plain(instance, "dpl")
    with deadline(run) as stop:
        _report_best([IdealProgram(instance, contracted, stop) for contracted in contractions(instance)], run, math.inf)


def _report_best(programs: list[IdealProgram], run: Run, limit: float) -> float:
    """Report the best splits of linear extensions; the load of the last one."""
    for program in programs:
        found = program.best(program.prefixes(run.memory), limit)
        if found is not None:
            limit = found.cost
            run.report(found.device)
    return limit
