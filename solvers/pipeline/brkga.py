"""A biased random-key genetic algorithm over node priorities."""

from __future__ import annotations

import numpy as np

from instances.pipeline import Instance
from solvers.pipeline._search import Floats, Search
from solvers.registry import Run, solver

ELITE = 0.2
MUTANTS = 0.2
INHERIT = 0.7


@solver(
    track="pipeline",
    source="Archer et al. 2024, Algorithm 2 and Appendix C.1; Gonçalves & Resende 2011",
    variants={
        "brkga-100": {"population": 10, "generations": 10},
        "brkga-10000": {"population": 100, "generations": 100},
    },
)
def brkga(instance: Instance, run: Run, *, population: int, generations: int) -> None:
    """Evolve node priorities with a biased random-key genetic algorithm.

    A generation keeps the best fifth of the one before (the elite), adds a fifth of fresh random vectors (mutants)
    and fills up with children of one elite and one other parent, which take each key from the elite one with
    probability 0.7: values from the middle of the ranges that Gonçalves and Resende (2011) recommend. A vector that
    does not enter the elite breeds alike whatever it costs, so its cost is computed only as far as to know that.
    """
    search = Search(instance, run)
    elite, mutants = max(1, round(ELITE * population)), round(MUTANTS * population)
    keys = run.rng.random((population, instance.nodes))
    costs = _costs(search, keys, np.empty(0), elite)
    for _ in range(generations - 1):
        if search.over():
            return
        ranked = np.argsort(costs, kind="stable")
        keys, costs = keys[ranked], costs[ranked]
        fresh = run.rng.random((mutants, instance.nodes))
        children = _children(run.rng, keys[:elite], keys[elite:], population - elite - mutants)
        fresh = np.concatenate([fresh, children])
        costs = np.concatenate([costs[:elite], _costs(search, fresh, costs[:elite], elite)])
        keys = np.concatenate([keys[:elite], fresh])


def _children(rng: np.random.Generator, elite: Floats, others: Floats, count: int) -> Floats:
    mothers = elite[rng.integers(len(elite), size=count)]
    fathers = others[rng.integers(len(others), size=count)]
    return np.where(rng.random(mothers.shape) < INHERIT, mothers, fathers)


def _costs(search: Search, keys: Floats, rivals: Floats, elite: int) -> Floats:
    """Costs of ``keys``, infinite for those that are not among the ``elite`` best of themselves and ``rivals``."""
    costs = np.full(len(keys), np.inf)
    for at in range(0, len(keys), search.rows):
        if at and search.over():
            break
        known = np.sort(np.concatenate([rivals, costs[:at]]))
        upper = known[elite - 1] if len(known) >= elite else np.inf
        costs[at : at + search.rows] = search.decode(keys[at : at + search.rows], upper)
    return costs
