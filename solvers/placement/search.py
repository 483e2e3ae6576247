"""Simulated annealing of placements, of any shape or along an order of devices."""

from __future__ import annotations

import math

from shardmark.instances.placement import Instance
from shardmark.solvers.placement.latency.search import search_latency
from shardmark.solvers.placement.throughput.annealing import anneal
from shardmark.solvers.placement.throughput.best_placements import Search, require_single
from shardmark.solvers.placement.throughput.forced_cpu_nodes import with_forced_nodes
from shardmark.solvers.registry import Run, solver


@solver(track="placement", source="this project; Kirkpatrick, Gelatt & Vecchi 1983")
def search(instance: Instance, run: Run, most: float = math.inf) -> None:
    """Simulated annealing over moves of colocation classes, from the split of a linear extension.

    Classes move alone, together with classes that share tensors with them, or swap places; memory is never exceeded. If
    sets must be contiguous, devices have a fixed order, and a class crosses a border between two devices alone or
    together with all classes up to the border. A round has one annealing run per core, at least two, each with its own
    energy for devices above a target just below the least load. The next round starts from the best placement and is
    twice as long, until time is up or ``most`` moves per run are made. The bound is first the best of `load`, `node`
    and `anchored`, then that of `configurations`, computed during the rounds. For latency see `search_latency`.
    """
    if instance.objective == "latency":
        search_latency(instance, run, most)
        return
    require_single(instance, "search")
    found = Search(with_forced_nodes(instance), run)
    found.begin()
    found.prove()
    anneal(found, run, most)
