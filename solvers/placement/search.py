"""Simulated annealing of placements, of any shape or along an order of devices."""

from __future__ import annotations

import math

from instances.placement import Instance
from solvers.placement.latency.search import search_latency
from solvers.placement.throughput.annealing import anneal
from solvers.placement.throughput.best_placements import Search, require_single
from solvers.placement.throughput.forced_cpu_nodes import with_forced_nodes
from solvers.registry import Run, solver


@solver(track="placement", source="this project; Kirkpatrick, Gelatt & Vecchi 1983")
def search(instance: Instance, run: Run, most: float = math.inf) -> None:
    """Move colocation classes between devices by simulated annealing, from the split of a linear extension.

    Classes move alone or with some that share tensors with them, or swap; memories are never exceeded. If sets must be
    contiguous, devices keep to an order, and classes cross its borders alone or with all classes up to the border. A
    round is an annealing run per core, two at least, each with its own energy for devices that take longer than a
    target just below the least load; the next round begins with the best placement and is twice as long, until the
    time ends or after ``most`` moves per run. Its bound is the best of `load`, `node` and `anchored`, then that of
    `configurations`, which goes on beside the rounds. For latency see `search_latency`.
    """
    if instance.objective == "latency":
        search_latency(instance, run, most)
        return
    require_single(instance, "search")
    found = Search(with_forced_nodes(instance), run)
    found.begin()
    found.prove()
    anneal(found, run, most)
