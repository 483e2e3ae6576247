"""Iterated local search: descend by single moves, perturb, repeat."""

from __future__ import annotations

import time

import numpy as np

from shardmark.instances.files.columns import Ints
from shardmark.instances.intraop import Instance
from shardmark.solvers.intraop.network.memory import Footprint, Timeline
from shardmark.solvers.intraop.network.reduction import prepare
from shardmark.solvers.intraop.search.assignment import Search
from shardmark.solvers.intraop.search.attempt import first_incumbent, reserve
from shardmark.solvers.intraop.search.construction import construct
from shardmark.solvers.registry import Run, solver


@solver(
    track="intraop",
    source="Lourenco, Martin and Stutzle 2003, iterated local search; first-improvement descent",
    deterministic=False,
    proves_bounds=False,
)
def local_search(instance: Instance, run: Run, *, iterations: int = 1_000_000, kick: int = 4) -> None:
    """Iterated local search: change a few nodes at random, repair memory, descend by single moves.

    Starts from the constructive heuristic of `greedy`; keeps a new local optimum if it is no worse. ``iterations`` is
    the largest number of perturbations, ``kick`` the number of variables that each changes. The result depends only on
    the seed and the number of iterations. Raises Declined if memory cannot suffice.
    """
    timeline, end = Timeline.of(instance), run.deadline - reserve(run)
    incumbent = first_incumbent(instance, run, timeline)
    model = prepare(instance, timeline, until=end) or prepare(instance, timeline, tolerant=True, until=end)
    assert model is not None, "a tolerant model forbids no table entry"
    if time.monotonic() >= end:
        return
    search = construct(Footprint(instance, timeline, model), np.zeros(len(model.unary)), end)
    _descend(search, end)
    best, worth = search.value.copy(), _worth(search)
    incumbent.offer(model.lift(instance, best))
    choosers = np.flatnonzero(model.sizes > 1)
    for _ in range(iterations if len(choosers) else 0):
        if time.monotonic() > end:
            break
        _kick(search, run.rng.choice(choosers, min(kick, len(choosers)), replace=False), run.rng)
        _descend(search, end)
        if (found := _worth(search)) <= worth:
            if found < worth:
                incumbent.offer(model.lift(instance, search.value))
            best, worth = search.value.copy(), found
        for variable in np.flatnonzero(search.value != best).tolist():
            search.move(variable, int(best[variable]))


def _descend(search: Search, end: float) -> None:
    """Repair memory by single moves, then descend to a local optimum."""
    if search.repair(end):
        search.descend(end)


def _kick(search: Search, variables: Ints, rng: np.random.Generator) -> None:
    """Give each of the variables a random other value."""
    for variable in variables.tolist():
        other = int(rng.integers(search.model.sizes[variable] - 1))
        search.move(variable, other + (other >= search.value[variable]))


def _worth(search: Search) -> tuple[int, int]:
    """Return ``(memory above the limit in the worst step, cost)``; less is better."""
    return max(0, int((search.profile - search.limit).max(initial=0))), search.footprint.model.cost(search.value)
