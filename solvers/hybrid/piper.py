"""Piper: the dynamic program over down-sets with a greedy choice of configurations."""

from __future__ import annotations

import math

from shardmark.instances.hybrid import Instance
from shardmark.solvers._ideals import deadline
from shardmark.solvers.hybrid._kernels import StageProblem
from shardmark.solvers.hybrid._thresholds import LimitSearch, largest, suffixes
from shardmark.solvers.registry import Declined, Run, solver


@solver(track="hybrid", source="Tarnawski, Narayanan, Phanishayee 2021 (Piper)", proves_bounds=False)
def piper(instance: Instance, run: Run) -> None:
    """Best throughput over chains of down-sets, configurations chosen greedily by time per byte."""
    with deadline(run) as stop:
        ideals = suffixes(instance, run, stop, "search")
        problem = StageProblem(instance, strict=True)
        search = LimitSearch(
            lambda limit: problem.chain(ideals, limit, stop, greedy=True),
            stop,
            instance.simple_bound(),
            lambda chain: run.report(chain.solution),
            lambda bound: None,
        )
        search.run(largest(instance))
    if math.isinf(search.high) and run.remaining():
        raise Declined(
            "no stages fit the devices and their memory with the configurations that the greedy choice takes"
        )
