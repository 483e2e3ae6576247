"""Placements that an integer program begins with: what other methods find in a share of the time."""

from __future__ import annotations

import math
import sys
from dataclasses import replace
from typing import Any

import numpy as np

from instances.placement import OPTIONS
from solvers.placement._contracted import contractions
from solvers.placement._ideals import IdealProgram, deadline
from solvers.placement._ip_task import Task
from solvers.placement._search import Search, anneal
from solvers.registry import Declined, Run

#: Share of the time for the best chain of ideals, and for annealing.
IDEALS_SHARE, SEARCH_SHARE = 0.15, 0.25

#: Moves of a chain of annealing for every pair of units: few units need no more, and many take all of their time.
MOVES = 1000

#: What placements of any shape are searched for whatever these options are.
IGNORED = {name: OPTIONS[name].default for name in ("schedule", "overlap", "cluster", "slowdown")}


def begin(task: Task, *, chains: bool) -> None:
    """Offer one CPU for everything, then the best chains of ideals, or where any sets will do what annealing finds."""
    instance = task.instance
    if instance.cpus:
        task.offer(np.full(instance.nodes, instance.accelerators))
    for ideals in (False, True):
        _split(task, ideals=ideals and chains)
    if not chains:
        _anneal(task)


def _split(task: Task, *, ideals: bool) -> None:
    """Offer the best split of the ways to order the devices: of a linear extension, or of all ideals."""
    with deadline(task.run, IDEALS_SHARE) as stop:
        for contracted in contractions(task.instance):
            program = IdealProgram(task.instance, contracted, stop)
            try:
                memory = task.run.memory
                found = program.best(program.ideals(memory) if ideals else program.prefixes(memory), math.inf)
            except Declined as reason:
                print(f"no split to begin with: {reason}", file=sys.stderr)
                continue
            if found is not None:
                task.offer(found.device)


def _anneal(task: Task) -> None:
    """Offer what `search` finds with the options that it knows."""
    plain = replace(task.instance, **IGNORED)
    run = _Share(task)
    try:
        search = Search(plain, run)
        search.begin()
    except Declined as reason:
        print(f"no search to begin with: {reason}", file=sys.stderr)
        return
    anneal(search, run, MOVES * (int(plain.unit.max()) + 1) ** 2)


class _Share(Run):
    """A share of the time of a task, which gets what is found."""

    def __init__(self, task: Task) -> None:
        run = task.run
        super().__init__(seed=run.seed, cores=run.cores, memory=run.memory, seconds=SEARCH_SHARE * task.remaining())
        self._task = task

    def report(self, solution: Any, cost: float | None = None) -> None:
        """Offer a placement."""
        self._task.offer(np.asarray(solution, dtype=np.int64))

    def bound(self, value: float) -> None:
        """Nothing: what holds for other options is no bound."""
