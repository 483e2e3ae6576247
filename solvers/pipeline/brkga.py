"""A biased random-key genetic algorithm over node priorities, each order sliced optimally."""

from __future__ import annotations

from shardmark.instances.pipeline import Instance
from shardmark.solvers.pipeline.search.genetic import evolve
from shardmark.solvers.pipeline.search.orders import Search
from shardmark.solvers.registry import Run, solver


@solver(
    track="pipeline",
    source="Archer et al. 2024, Algorithm 2 and Appendix C.1; Gonçalves & Resende 2011",
    variants={
        "brkga-100": {"population": 10, "generations": 10},
        "brkga-10000": {"population": 100, "generations": 100},
    },
    proves_bounds=False,
)
def brkga(instance: Instance, run: Run, *, population: int, generations: int) -> None:
    """Evolve node priorities with a biased random-key genetic algorithm.

    A generation keeps the best fifth of the one before (the elite), adds a fifth of fresh random vectors (mutants)
    and fills up with children of one elite and one other parent, which take each key from the elite parent with
    probability 0.7.
    """
    evolve(Search(instance, run), run.rng, population, generations)
