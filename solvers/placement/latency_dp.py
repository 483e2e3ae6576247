"""Dynamic programs for latency over ideals: the best schedule of an inference graph, and a bound for any graph."""

from __future__ import annotations

import numpy as np

from shardmark.instances.placement import Instance
from shardmark.solvers._ideals import deadline
from shardmark.solvers.placement.ideals.proof import schedules_proof
from shardmark.solvers.placement.latency.ideals import Schedules
from shardmark.solvers.placement.latency.ip_incumbent import LatencyIncumbent, unfit
from shardmark.solvers.placement.latency.memory_path import path_proof
from shardmark.solvers.registry import Declined, Run, bound, solver

#: Share of the time after which the search ends.
SHARE = 0.95


@solver(track="placement", source="this project; Tarnawski et al. 2020, Definition 5.1, Appendix A")
def latency_dp(instance: Instance, run: Run) -> None:
    """Find the best inference schedule along chains of ideals, with one subgraph per accelerator.

    For each ideal, schedules are kept unless another one uses no more accelerators and ends no node later that others
    wait for. For contiguity "free", which allows any number of subgraphs, the bound is that of `chains`.
    """
    if instance.objective != "latency":
        raise Declined("latency-dp is for latency")
    if instance.training:
        raise Declined("latency-dp is for inference graphs, as accelerators have a subgraph of either pass in training")
    with deadline(run, SHARE) as stop:
        Schedules(instance, stop, one=True).ideals(run.memory)  # first, as this declines if there are too many
        incumbent = LatencyIncumbent(instance, run, 1)
        incumbent.begin()
        incumbent.follow_chains(stop, one=True)
    if not len(incumbent.device):
        raise Declined(f"{unfit(instance, 1)}, or there was no time to find one")


@bound(track="placement", source="this project; Tarnawski et al. 2020, Definition 5.1, Appendix A")
def chains(instance: Instance, run: Run) -> None:
    """Find the best schedule along chains of ideals, assuming an accelerator for every subgraph."""
    if instance.objective != "latency":
        raise Declined("chains is for latency")
    lowest = instance.path_bound()
    run.bound(lowest, path_proof(None))
    upper = float(instance.cpu_time.sum()) if instance.cpus else np.inf
    with deadline(run, SHARE) as stop:
        for value, _ in Schedules(instance, stop, one=False).bounds(run.memory, lowest, upper):
            run.bound(value, schedules_proof(instance, run, value))
