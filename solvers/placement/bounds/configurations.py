"""Lower bound on throughput: the configuration linear program with transfers, for targets below a known cost."""

from __future__ import annotations

import numpy as np

from shardmark.instances.graph import Index
from shardmark.instances.placement import Instance
from shardmark.solvers._ideals import deadline
from shardmark.solvers.placement.configuration.program import Limits, configuration_bounds
from shardmark.solvers.placement.ip.incumbent import Incumbent
from shardmark.solvers.placement.ip.start import begin
from shardmark.solvers.placement.throughput.forced_cpu_nodes import with_forced_nodes
from shardmark.solvers.registry import Declined, Run, bound

#: Share of the time reserved for the end.
RESERVE = 0.05


@bound(
    track="placement", source="configuration program, Bansal and Sviridenko 2006; our own: labels on diagrams of sets"
)
def configurations(instance: Instance, run: Run) -> None:
    """Prove by a configuration LP that less loaded devices cannot cover all units, even fractionally.

    Column generation finds a worth for each unit; labels on a decision diagram give the greatest worth that a device
    can hold. For `acyclic` the bound is that of `contiguous`. No engine needs to be trusted: GLOP only proposes worths,
    which are rounded to integers, and each proof is computed from these alone.
    """
    if instance.objective != "throughput" or instance.allreduce is not None:
        raise Declined("configurations is for throughput without replicas")
    instance = with_forced_nodes(instance)
    incumbent = Incumbent(instance, run, reports=False)
    begin(incumbent, instance.contiguity)
    low = min(incumbent.proved)
    first = np.unique(instance.unit, return_index=True)[1]

    def known() -> tuple[float, list[Index]]:
        return incumbent.best, [incumbent.device[first].astype(np.int32)] if len(incumbent.device) else []

    with deadline(run, 1 - RESERVE) as stop:
        until = run.deadline - RESERVE * run.remaining()
        for value, proof in configuration_bounds(instance, low, known, Limits(until, run.memory, stop)):
            if value > low:
                low = value
                run.bound(low, proof)
