"""Lower bound: paths through the graph, where a device shared costs time in turn and one not shared a transfer."""

from __future__ import annotations

from instances.scheduling import Instance
from solvers.registry import Run, bound
from solvers.scheduling.schedules.heads_tails import ever_closer, proved


@bound(
    track="scheduling", name="critical-path", source="Papadimitriou & Yannakakis 1990, for devices of several speeds"
)
def critical_path(instance: Instance, run: Run) -> None:
    """Follow paths at the fastest speeds; vertices whose tensors come too late from elsewhere run in turn.

    A vertex has one device, so ways that part there and meet again begin on the same one; see `paired_heads_and_tails`.
    """
    run.bound(instance.simple_bound())
    for ends in ever_closer(instance, run):
        run.bound(proved(ends.longest(), instance))
