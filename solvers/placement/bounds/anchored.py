"""Lower bound on throughput: all work spread evenly, but classes on CPUs that cost an accelerator too much."""

from __future__ import annotations

from instances.placement import Instance
from solvers.placement.ideals.dynamic_program import deadline
from solvers.placement.throughput.anchored import anchored_bound
from solvers.placement.throughput.forced import with_forced_nodes
from solvers.placement.throughput.simple_bounds import load_bound
from solvers.registry import Declined, Run, bound

#: Shares of the time after which the last cut begins, and in which no work is spread any more.
SHARE, RESERVE = 0.6, 0.2


@bound(track="placement", source="our own: minimum cuts, as loads of accelerators are submodular")
def anchored(instance: Instance, run: Run) -> None:
    """Spread the work as `load` does, but put a class on CPUs where any set with it is too much for an accelerator.

    Classes come in the order of what they cost alone, or in a set found so far; those that cost less than the bound of
    `load` need no minimum cut. Without time for all the bound is a lesser one.
    """
    if instance.objective != "throughput":
        raise Declined("anchored is for throughput")
    if instance.allreduce is not None and instance.overlap != "none":
        raise Declined("anchored bounds replicated stages for overlap none only")
    instance = with_forced_nodes(instance)
    end = run.deadline - RESERVE * run.remaining()
    spread = load_bound(instance)
    run.bound(spread)
    with deadline(run, SHARE) as stop:
        run.bound(anchored_bound(instance, spread, end, stop))
