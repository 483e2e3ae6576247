"""Minimum linear arrangement of the graph, sliced optimally: what a good order for another objective is worth."""

from __future__ import annotations

from functools import partial

from shardmark.instances.pipeline import Instance
from shardmark.solvers.pipeline.search.genetic import evolve
from shardmark.solvers.pipeline.search.orders import Search
from shardmark.solvers.registry import Run, solver


@solver(
    track="pipeline",
    source="Archer et al. 2024, Appendix C.1",
    variants={"mla": {"weighted": False}, "mla-weighted": {"weighted": True}},
    proves_bounds=False,
)
def mla(instance: Instance, run: Run, *, weighted: bool) -> None:
    """Evolve topological orders with short edges (minimum linear arrangement); slice the best one.

    The genetic algorithm is that of brkga-10000, 100 generations of 100. It minimises the sum of the edges' lengths in
    the order, weighted by transfer times or not; only the final order is sliced.
    """
    search = Search(instance, run)
    search.time_slicing()
    fitness = partial(search.arrange, weighted=weighted)
    search.offer(evolve(search, run.rng, population=100, generations=100, fitness=fitness))
