"""Lower bound on throughput: balanced work, with classes on CPUs that overload any accelerator."""

from __future__ import annotations

from shardmark.instances.placement import Instance
from shardmark.solvers._ideals import deadline
from shardmark.solvers.placement.throughput.anchored import anchored_bound
from shardmark.solvers.placement.throughput.forced_cpu_nodes import with_forced_nodes
from shardmark.solvers.placement.throughput.formulas import anchored_proof, load_proof, pooled_proof
from shardmark.solvers.placement.throughput.pooled import pooled_bound
from shardmark.solvers.placement.throughput.simple_bounds import load_bound
from shardmark.solvers.registry import Declined, Run, bound

#: Share of the time for cuts.
SHARE = 0.6
#: Share of the time reserved for the end.
RESERVE = 0.2


@bound(track="placement", source="our own: minimum cuts, as loads of accelerators are submodular")
def anchored(instance: Instance, run: Run) -> None:
    """Like load, with colocation classes moved to CPUs if every set around them overloads an accelerator.

    Classes are tested in the order of their least cost, alone or in a set found so far; a class that costs less than
    the bound of `load` needs no minimum cut. If time does not suffice for all classes, the bound is lower. It is at
    least the bound of work balanced together with the tensors between accelerators and CPUs (`pooled_bound`).
    """
    if instance.objective != "throughput":
        raise Declined("anchored is for throughput")
    if instance.allreduce is not None and instance.overlap != "none":
        raise Declined("anchored bounds replicated stages for overlap none only")
    instance = with_forced_nodes(instance)
    end = run.deadline - RESERVE * run.remaining()
    spread, pooled = load_bound(instance), pooled_bound(instance)
    best = max(spread, pooled.bound)
    run.bound(best, lambda: pooled_proof(instance, pooled) if pooled.bound > spread else load_proof(instance))
    with deadline(run, SHARE) as stop:
        found = anchored_bound(instance, spread, end, stop)
    if found > best:
        run.bound(found, anchored_proof(instance, found))
