"""First placements for an integer program, from other methods in a share of the time."""

from __future__ import annotations

import math
import sys
from dataclasses import replace
from typing import Any

import numpy as np

from shardmark.instances.placement import Instance
from shardmark.solvers._ideals import deadline
from shardmark.solvers.placement.ideals.splits import ideal_programs
from shardmark.solvers.placement.ip.incumbent import Incumbent
from shardmark.solvers.placement.throughput.annealing import anneal
from shardmark.solvers.placement.throughput.best_placements import Search
from shardmark.solvers.registry import Declined, Proof, Run

#: Share of the time for the best chains of ideals.
IDEALS_SHARE = 0.15
#: Share of the remaining time for annealing.
SEARCH_SHARE = 0.25
#: Moves of an annealing run per pair of units: few units need no more, and with many the time runs out first. If sets
#: must be contiguous, there is little to gain over the best chain of ideals.
MOVES = {"free": 1000, "acyclic": 100, "contiguous": 100}


def begin(incumbent: Incumbent, contiguity: str) -> None:
    """Offer placements for a mode: everything on a CPU, chains of ideals unless sets are free, annealed placements."""
    instance = replace(incumbent.instance, contiguity=contiguity)
    if instance.cpus:
        incumbent.offer(np.full(instance.nodes, instance.accelerators))
    if contiguity != "free":
        _split(incumbent, instance)
    run = _Share(incumbent)
    try:
        search = Search(instance, run)
        search.begin()
    except Declined as reason:
        print(f"no search to begin with: {reason}", file=sys.stderr)
        return
    anneal(search, run, MOVES[contiguity] * (int(instance.unit.max()) + 1) ** 2, proves=incumbent.reports)


def _split(incumbent: Incumbent, instance: Instance) -> None:
    """Offer the best split into a chain of ideals for each of the ways to order the devices."""
    with deadline(incumbent.run, IDEALS_SHARE) as stop:
        for program in ideal_programs(instance, stop):
            try:
                found = program.best(program.ideals(incumbent.run.memory), math.inf)
            except Declined as reason:
                print(f"no chain of ideals to begin with: {reason}", file=sys.stderr)
                continue
            if found is not None:
                incumbent.offer(found.device)


class _Share(Run):
    """A share of the time of an incumbent, to which it offers placements."""

    def __init__(self, incumbent: Incumbent) -> None:
        run, seconds = incumbent.run, SEARCH_SHARE * incumbent.remaining()
        super().__init__(seed=run.seed, cores=run.cores, memory=run.memory, timeout=seconds)
        self._incumbent = incumbent

    def report(self, solution: Any, cost: float | None = None) -> None:
        """Offer a placement."""
        self._incumbent.offer(np.asarray(solution, dtype=np.int64))

    def bound(self, value: float, certificate: Proof | None = None) -> None:
        """Take a bound that is proved during the search."""
        self._incumbent.prove(0, value, certificate)
