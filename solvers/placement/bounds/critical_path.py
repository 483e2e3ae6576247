"""Lower bound on latency: the longest path, each node on its fastest device."""

from __future__ import annotations

from shardmark.instances.placement import Instance
from shardmark.solvers.placement.latency.memory_path import path_proof
from shardmark.solvers.registry import Declined, Run, bound


@bound(track="placement", source="Tarnawski et al. 2020, Figure 5, Constraints (8) to (10)")
def critical_path(instance: Instance, run: Run) -> None:
    """Take the longest path of nodes, each on its faster device, without transfers."""
    if instance.objective != "latency":
        raise Declined("critical-path is for latency")
    run.bound(instance.path_bound(), path_proof(None))
