"""The simplest lower bound: every node and every edge at its cheapest."""

from __future__ import annotations

from shardmark.instances.intraop import Instance
from shardmark.solvers.intraop.cfn.moved_costs import NO_CUTOFF
from shardmark.solvers.registry import Run, bound


@bound(track="intraop", source="sum of least node and edge costs")
def simple(instance: Instance, run: Run) -> None:
    """Add up the least cost of every node and of every edge."""
    proof = {"kind": "costs-moved", "cutoff": NO_CUTOFF, "rounds": [{}]}
    run.bound(instance.cheapest_parts(), lambda: proof)
