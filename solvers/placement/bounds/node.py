"""Lower bound on throughput: a unit's work, plus for each neighbour the cheaper of its work and the transfers."""

from __future__ import annotations

from shardmark.instances.placement import Instance
from shardmark.solvers.placement.throughput.forced_cpu_nodes import with_forced_nodes
from shardmark.solvers.placement.throughput.formulas import node_proof
from shardmark.solvers.placement.throughput.simple_bounds import node_bound
from shardmark.solvers.registry import Declined, Run, bound


@bound(track="placement", source="Tarnawski et al. 2020, Section 3: who pays for a transfer")
def node(instance: Instance, run: Run) -> None:
    """Bound the load of each unit's device, which does a neighbour's work too or pays for the tensor between them."""
    if instance.objective != "throughput":
        raise Declined("node is for throughput")
    proof = node_proof if instance.allreduce is None else None
    run.bound(node_bound(with_forced_nodes(instance)), proof)
