"""The dynamic program over ideals, whole and on a linear extension of the graph."""

from __future__ import annotations

import math
import sys

from shardmark.instances.placement import Instance
from shardmark.solvers._ideals import deadline
from shardmark.solvers.placement.ideals.dynamic_program import IdealProgram, fits, require_chains
from shardmark.solvers.placement.ideals.one_pass import contiguous_bounds
from shardmark.solvers.placement.ideals.proof import states_proof
from shardmark.solvers.placement.ideals.splits import ideal_programs, report_cuts
from shardmark.solvers.placement.throughput.forced_cpu_nodes import with_forced_nodes
from shardmark.solvers.placement.throughput.formulas import load_proof
from shardmark.solvers.placement.throughput.simple_bounds import load_bound
from shardmark.solvers.registry import Declined, Run, solver


@solver(track="placement", source="Tarnawski et al. 2020, Section 5.1.1, Appendices E, H")
def dp(instance: Instance, run: Run) -> None:
    """Split optimally along chains of ideals; proves acyclic splits optimal, often contiguous ones too.

    First reports the splits of `dpl`, whose loads limit the search. If time or memory do not suffice for the ideals,
    there are no others.

    Loads may overlap transfers and work (H.1), and stages may have several devices (H.2). With clusters (H.3), every
    cluster gets a part of a chain of ideals and splits it internally; nets that leave the part are slow. Without CPUs
    the result is the best split of this kind. Other splits may be better, for instance those that alternate between two
    clusters; the bound is the optimum for a single cluster with all accelerators.
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
            if instance.contiguity == "contiguous":
                _report_contiguous(programs[0], limit, run)


@solver(track="placement", source="Tarnawski et al. 2020, Section 5.1.2", proves_bounds=False)
def dpl(instance: Instance, run: Run) -> None:
    """Cut a depth-first topological order optimally into devices.

    The next item in the order is the one that became ready last; long orders are first cut between larger pieces. Loads
    are those of `dp`.
    """
    require_chains(instance, "dpl")
    with deadline(run) as stop:
        report_cuts(ideal_programs(instance, stop), run)


def _report_relaxed(programs: list[IdealProgram], limit: float, run: Run) -> bool:
    """Report a bound, if the mode allows one; return True if the search is over.

    The best split is reported too, unless there are clusters or it exceeds the memory by a rounding error.
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
    """Report bounds, given the least load of an acyclic split; Declined if none has a finite load."""
    follow = program.instance.contiguity == "acyclic"
    if math.isinf(least):
        raise Declined(f"no{'' if follow else ' acyclic'} placement fits the memory of the accelerators")
    if follow:
        value = program.proved(least)
        run.bound(value, states_proof(program.instance, run, value))
    else:
        _report_contiguous(program, least, run)


def _report_contiguous(program: IdealProgram, cost: float, run: Run) -> None:
    """Report bounds on contiguous splits, from that of divisible work up to the cost of an acyclic split."""
    instance = program.instance
    least = load_bound(instance)
    run.bound(least, lambda: load_proof(instance))
    for value, proof in contiguous_bounds(instance, cost, least, program.proved(cost), program.stop):
        run.bound(value, proof)
