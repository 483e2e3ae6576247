"""Lower bound on latency: a path that exceeds the memory of an accelerator must change devices, at a cost."""

from __future__ import annotations

from shardmark.instances.placement import Instance
from shardmark.solvers.placement.latency.memory_path import path_bounds, path_proof
from shardmark.solvers.registry import Declined, Run, bound


@bound(track="placement", source="Tarnawski et al. 2020, Figure 6, Constraints (3) to (10), along a path")
def memory_path(instance: Instance, run: Run) -> None:
    """Cut long, large paths into runs that fit an accelerator; pay a transfer out and in at every cut."""
    if instance.objective != "latency":
        raise Declined("memory-path is for latency")
    for value, path in path_bounds(instance, run):
        run.bound(value, path_proof(path))
