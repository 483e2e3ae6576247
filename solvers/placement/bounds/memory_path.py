"""Lower bound on latency: a path that no accelerator has the memory for has to change devices, at a cost."""

from __future__ import annotations

from instances.placement import Instance
from solvers.placement.latency.memory_path import path_bounds
from solvers.registry import Declined, Run, bound


@bound(track="placement", source="Tarnawski et al. 2020, Figure 6, Constraints (3) to (10), along a path")
def memory_path(instance: Instance, run: Run) -> None:
    """Cut long and large paths into runs of nodes that fit an accelerator, each tensor on the way moved out and in."""
    if instance.objective != "latency":
        raise Declined("memory-path is for latency")
    for value in path_bounds(instance, run):
        run.bound(value)
