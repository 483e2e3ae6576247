"""The simplest lower bound: every node and every edge at its cheapest."""

from __future__ import annotations

from shardmark.instances.intraop import Instance
from shardmark.solvers.registry import Run, bound


@bound(track="intraop", source="sum of least node and edge costs")
def simple(instance: Instance, run: Run) -> None:
    """Add up the least cost of every node and of every edge."""
    least = instance.cheapest_parts()
    run.bound(least, lambda: {"kind": "costs-moved", "cutoff": least, "steps": []})
