"""Placements that an integer program begins with: what other methods find in a share of the time."""

from __future__ import annotations

import math
import sys
from dataclasses import replace
from typing import Any

import numpy as np

from instances.placement import Instance
from solvers.placement.ideals.contraction import contractions
from solvers.placement.ideals.dynamic_program import IdealProgram, deadline
from solvers.placement.ip.incumbent import Incumbent
from solvers.placement.throughput.annealing import Search, anneal
from solvers.registry import Declined, Run

#: Share of the time for the best chains of ideals, and for annealing.
IDEALS_SHARE, SEARCH_SHARE = 0.15, 0.25

#: Moves of a chain of annealing for every pair of units: few units need no more, and many take all of their time. Where
#: sets have a shape the best chain of ideals leaves little to gain.
MOVES = {"free": 1000, "acyclic": 100, "contiguous": 100}


def begin(incumbent: Incumbent, contiguity: str) -> None:
    """Offer placements for a mode: everything on a CPU, chains of ideals if sets have a shape, what annealing finds."""
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
    anneal(search, run, MOVES[contiguity] * (int(instance.unit.max()) + 1) ** 2)


def _split(incumbent: Incumbent, instance: Instance) -> None:
    """Offer the best split into a chain of ideals for each of the ways to order the devices."""
    with deadline(incumbent.run, IDEALS_SHARE) as stop:
        for contracted in contractions(instance):
            program = IdealProgram(instance, contracted, stop)
            try:
                found = program.best(program.ideals(incumbent.run.memory), math.inf)
            except Declined as reason:
                print(f"no chain of ideals to begin with: {reason}", file=sys.stderr)
                continue
            if found is not None:
                incumbent.offer(found.device)


class _Share(Run):
    """A share of the time of a incumbent, which gets what is found."""

    def __init__(self, incumbent: Incumbent) -> None:
        run = incumbent.run
        super().__init__(
            seed=run.seed, cores=run.cores, memory=run.memory, seconds=SEARCH_SHARE * incumbent.remaining()
        )
        self._incumbent = incumbent

    def report(self, solution: Any, cost: float | None = None) -> None:
        """Offer a placement."""
        self._incumbent.offer(np.asarray(solution, dtype=np.int64))

    def bound(self, value: float) -> None:
        """Nothing: the incumbent begins with the same one."""
