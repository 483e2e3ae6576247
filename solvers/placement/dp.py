"""The dynamic program over ideals, whole and on a linear extension of the graph."""

from __future__ import annotations

import math
import sys

from instances.placement import Instance
from solvers.placement.ideals.dynamic_program import IdealProgram, deadline, fits, require_chains
from solvers.placement.ideals.splits import ideal_programs, report_cuts
from solvers.placement.throughput.forced_cpu_nodes import with_forced_nodes
from solvers.registry import Declined, Run, solver


@solver(track="placement", source="Tarnawski et al. 2020, Section 5.1.1, Appendices E, H")
def dp(instance: Instance, run: Run) -> None:
    """Split along the best chain of ideals: the optimum of acyclic splits, and a bound there if the time suffices.

    Begins with the splits of `dpl`, whose loads limit the search. No other splits are reported if time or memory do not
    suffice for the ideals.

    Loads may overlap transfers and work (H.1), and stages may have several devices (H.2). For clusters (H.3) every
    cluster gets a part of a chain of ideals, which is split within it, and nets that reach out of the part count as
    slow: the best of such splits if there are no CPUs. Other splits may be better, such as those whose devices take
    turns between two clusters; the bound is the optimum of one cluster for all.
    """
    require_chains(instance, "dp")
    instance = with_forced_nodes(instance)
    with deadline(run) as stop:
        programs = ideal_programs(instance, stop)
        limit = report_cuts(programs, run, most=None if instance.cluster is None else 1)
        try:
            if not _report_relaxed(programs, limit, run):
                limit = report_cuts(programs, run, limit)
                _report_splits(programs, limit, run)
        except Declined as reason:
            if instance.cluster is not None:
                limit = report_cuts(programs, run, limit)
            if math.isinf(limit):
                raise
            print(f"only the split of a linear extension: {reason}", file=sys.stderr)


@solver(track="placement", source="Tarnawski et al. 2020, Section 5.1.2", proves_bounds=False)
def dpl(instance: Instance, run: Run) -> None:
    """Cut one topological order, found depth first, into devices as well as that can be done.

    The order takes the item that became ready last; long orders are first cut between pieces. Loads as for `dp`.
    """
    require_chains(instance, "dpl")
    with deadline(run) as stop:
        report_cuts(ideal_programs(instance, stop), run)


def _report_relaxed(programs: list[IdealProgram], limit: float, run: Run) -> bool:
    """Report a bound, in the mode in which it holds; return whether the search is over.

    The best split is reported too, unless rounding decides whether it fits the memory, or there are clusters.
    """
    least, whole, instance = limit, True, programs[0].instance
    for program in programs:
        found = program.relaxation.best(program.ideals(run.memory), least)
        if found is not None:
            least, whole = found.cost, instance.cluster is None and fits(instance, found.device)
            if whole:
                run.report(found.solution)
    if programs[0].stop[0]:
        return True
    _report_bound(programs[0], least, run)
    return whole


def _report_splits(programs: list[IdealProgram], limit: float, run: Run) -> None:
    """Report ever better splits along ideals with loads below a limit."""
    for program in programs:
        found = program.best(program.ideals(run.memory), limit)
        if found is not None:
            limit = found.cost
            run.report(found.solution)


def _report_bound(program: IdealProgram, least: float, run: Run) -> None:
    """Report a bound in the mode in which devices follow one another; Declined if no split has a finite load."""
    follow = program.instance.contiguity == "acyclic"
    if math.isinf(least):
        raise Declined(f"no{'' if follow else ' acyclic'} placement fits the memory of the accelerators")
    if follow:
        run.bound(program.proved(least))
    else:
        print("no bound: dp proves one for --contiguity acyclic only", file=sys.stderr)
