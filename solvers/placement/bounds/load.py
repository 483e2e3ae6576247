"""Lower bound on throughput: balanced divisible work, within the accelerators' total memory."""

from __future__ import annotations

from shardmark.instances.placement import Instance
from shardmark.solvers.placement.throughput.forced_cpu_nodes import with_forced_nodes
from shardmark.solvers.placement.throughput.formulas import load_proof
from shardmark.solvers.placement.throughput.simple_bounds import load_bound
from shardmark.solvers.registry import Declined, Run, bound


@bound(track="placement", source="linear relaxation of Tarnawski et al. 2020, Figure 7, without transfers")
def load(instance: Instance, run: Run) -> None:
    """Balance divisible work over accelerators and CPUs, within the accelerators' total memory."""
    if instance.objective != "throughput":
        raise Declined("load is for throughput")
    instance = with_forced_nodes(instance)
    run.bound(load_bound(instance), lambda: load_proof(instance))
