"""Simulated annealing of partitions."""

from __future__ import annotations

from instances.pipeline import Instance
from solvers.pipeline.search.annealing import anneal
from solvers.pipeline.search.orders import Search
from solvers.registry import Run, solver


@solver(track="pipeline", source="this project; Kirkpatrick, Gelatt & Vecchi 1983", proves_bounds=False)
def annealing(instance: Instance, run: Run) -> None:
    """Move nodes between stages by simulated annealing, from the best slicing of random orders and of orders in layers.

    A node moves alone, or along with all that must follow it out of its stage. A round is two chains of moves, each
    with its own temperatures and its own penalty for stages that cost more than a target just below the best cost; the
    better result is sliced anew, and the next round begins with it. If moves are few, a round that gains nothing makes
    the next one colder. A round is twice as long as the one before, the last one as long as time allows. With a memory
    limit nodes also move within the execution order of their stage.
    """
    anneal(Search(instance, run), run)
