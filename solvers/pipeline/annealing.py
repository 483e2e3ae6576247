"""Simulated annealing of partitions."""

from __future__ import annotations

from shardmark.instances.pipeline import Instance
from shardmark.solvers.pipeline.search.annealing import anneal
from shardmark.solvers.pipeline.search.orders import Search
from shardmark.solvers.registry import Run, solver


@solver(track="pipeline", source="this project; Kirkpatrick, Gelatt & Vecchi 1983", proves_bounds=False)
def annealing(instance: Instance, run: Run) -> None:
    """Simulated annealing over node moves, starting from the best slicing of random and layered orders.

    A node moves alone, or together with all nodes that must follow it out of its stage. A round runs two chains of
    moves, each with its own temperatures and its own penalty for stages that cost more than a target just below the
    best cost. The better result is sliced again and starts the next round. If there is time for few moves only, a round
    without improvement makes the next one colder. Each round is twice as long as the one before; the last takes the
    remaining time. With a memory limit, nodes also move within the execution order of their stage.
    """
    anneal(Search(instance, run), run)
