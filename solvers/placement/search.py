"""Simulated annealing of placements of any shape."""

from __future__ import annotations

import math

from instances.placement import Instance
from solvers.placement._search import Search, anneal, require_free
from solvers.registry import Run, solver


@solver(track="placement", source="this project; Kirkpatrick, Gelatt & Vecchi 1983")
def search(instance: Instance, run: Run, most: float = math.inf) -> None:
    """Move colocation classes between devices by simulated annealing, from the split of a linear extension.

    Classes move alone or with some that share tensors with them, or swap; memories are never exceeded. A round is a
    chain of moves a core, two at least, each with its own energy for devices that take longer than a target just below
    the least load; the next round begins with the best placement and is twice as long, until the time ends or after
    ``most`` moves a chain. For contiguity free: what ``dp`` searches is smaller.
    """
    require_free(instance, "search")
    found = Search(instance, run)
    found.begin()
    anneal(found, run, most)
