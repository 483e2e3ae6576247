"""Lower bound: all device-seconds spread over all devices, or the slowest node."""

from __future__ import annotations

from shardmark.instances.hybrid import Instance
from shardmark.solvers.hybrid._proofs import simple_proof
from shardmark.solvers.registry import Run, bound


@bound(track="hybrid", source="ours: work of the cheapest configurations, without transfers")
def simple(instance: Instance, run: Run) -> None:
    """Spread the least device-seconds of all nodes evenly, or give the slowest node the most replicas."""
    run.bound(instance.simple_bound(), simple_proof)
