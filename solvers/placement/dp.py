"""The dynamic program over ideals, whole and on a linear extension of the graph."""

from __future__ import annotations

import math
import sys
from dataclasses import replace

from instances.graph import Index
from instances.placement import Instance
from solvers.placement._contracted import contractions
from solvers.placement._ideals import IdealProgram, deadline, fits, require_plain
from solvers.registry import Declined, Run, solver


@solver(track="placement", source="Tarnawski et al. 2020, Section 5.1.1, Appendix E")
def dp(instance: Instance, run: Run) -> None:
    """Split along the best chain of ideals: the optimum of acyclic splits, and a bound there if the time suffices.

    Begins with the split of `dpl`, which the other one has to beat: loads from there on are not looked at. It is all
    that there is if the ideals are too many for the time or the memory.
    """
    require_plain(instance, "dp")
    with deadline(run) as stop:
        programs = _programs(instance, stop)
        limit = least = _report_cuts(programs, run)
        for program in programs:
            try:
                limit, lower = _report_best(program, limit, run)
            except Declined as reason:
                _end_early(limit, reason)
                return
            least = min(least, lower)
        if stop[0]:
            return
        if math.isinf(least):
            kind = "" if instance.contiguity == "acyclic" else " acyclic"
            raise Declined(f"no{kind} placement fits the memory of the accelerators")
        if instance.contiguity == "acyclic":
            run.bound(least - max(program.rounding for program in programs))


@solver(track="placement", source="Tarnawski et al. 2020, Section 5.1.2")
def dpl(instance: Instance, run: Run) -> None:
    """Cut one topological order, found depth first, into devices as well as that can be done.

    The order takes the item that has become ready last; see `solvers.placement._contracted.depth_first_order`.
    """
    require_plain(instance, "dpl")
    with deadline(run) as stop:
        _report_cuts(_programs(instance, stop), run)


def _programs(instance: Instance, stop: Index) -> list[IdealProgram]:
    return [IdealProgram(instance, contracted, stop) for contracted in contractions(instance)]


def _report_cuts(programs: list[IdealProgram], run: Run) -> float:
    """Report the best splits of linear extensions; the load of the last one, infinite if there is none."""
    limit = math.inf
    for program in programs:
        found = program.best(program.prefixes(run.memory), limit)
        if found is not None:
            limit = found.cost
            run.report(found.device)
    return limit


def _report_best(program: IdealProgram, limit: float, run: Run) -> tuple[float, float]:
    """Report the best split if its load is below ``limit``; that load, else the limit, and what no split goes below.

    These differ only if rounding decides whether the best one fits the memory.
    """
    ideals = program.ideals(run.memory)
    found = replace(program, relaxed=True).best(ideals, limit)
    least = limit if found is None else found.cost
    if found is not None and not fits(program.instance, found.device):
        found = program.best(ideals, limit)
    if found is None:
        return limit, least
    run.report(found.device)
    return found.cost, least


def _end_early(limit: float, reason: Declined) -> None:
    """Say why there is nothing but the split of a linear extension; raise it if there is not even that."""
    if math.isinf(limit):
        raise reason
    print(f"only the split of a linear extension: {reason}", file=sys.stderr)
