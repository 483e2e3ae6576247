"""The split with the best throughput, used for latency: a baseline of the paper."""

from __future__ import annotations

from dataclasses import replace

from shardmark.instances.placement import Instance
from shardmark.solvers._ideals import deadline
from shardmark.solvers.placement.ideals.splits import best_split
from shardmark.solvers.registry import Declined, Run, solver


@solver(track="placement", source="Tarnawski et al. 2020, Appendix F, max-load DP", proves_bounds=False)
def max_load_dp(instance: Instance, run: Run) -> None:
    """Take the split with the best throughput, whatever its latency.

    The split is acyclic, with one subgraph per accelerator and pass, so that a schedule exists.
    """
    if instance.objective != "latency":
        raise Declined("max-load-dp is for latency; for throughput the split is that of dp")
    with deadline(run) as stop:
        found = best_split(replace(instance, objective="throughput", contiguity="acyclic"), stop, run)
    if found is not None:
        run.report(found.device)
    elif run.remaining():
        raise Declined("no acyclic placement is known to fit the memory of the accelerators")
