"""Lower bound: paths through the graph; vertices run in sequence on one device, or need transfers."""

from __future__ import annotations

import time

from shardmark.instances.scheduling import Instance
from shardmark.solvers.registry import Run, bound
from shardmark.solvers.scheduling.schedules.formulas import Bounds, Claim, certify, critical_cases, heads
from shardmark.solvers.scheduling.schedules.heads_tails import heads_tails_passes, proved


@bound(
    track="scheduling", name="critical-path", source="Papadimitriou & Yannakakis 1990, for devices of several speeds"
)
def critical_path(instance: Instance, run: Run) -> None:
    """Take the longest path at the fastest speeds; serialise vertices if transfers would take longer.

    Paths that part at a vertex and meet again all begin on the device of that vertex; see `paired_heads_and_tails`.
    """
    bounds = Bounds(run, instance.simple_bound())
    claims, began = list[Claim](), time.process_time()
    for ends in heads_tails_passes(instance, run):
        bounds.offer(proved(ends.longest(), instance))
        claims = claims or heads(instance, ends.longest())
    if run.certify:
        claims += heads(instance, ends.longest(), critical_cases(instance, ends, began))
    certify(run, instance, claims, bounds.best)
