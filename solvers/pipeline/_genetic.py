"""A biased random-key genetic algorithm over node priorities (Gonçalves & Resende 2011)."""

from __future__ import annotations

import sys
from collections.abc import Callable

import numpy as np

from solvers.pipeline._search import Floats, Search

#: Times that all keys of a population are in memory while the next one is bred, about.
COPIES = 5

Fitness = Callable[[Floats], Floats]

#: Values from the ranges that Gonçalves and Resende (2011) recommend: the share of a generation that is kept, the
#: share that is fresh, and the probability that a child takes a key from its elite parent.
ELITE = 0.2
MUTANTS = 0.2
INHERIT = 0.7


def evolve(
    search: Search, rng: np.random.Generator, population: int, generations: int, fitness: Fitness | None = None
) -> Floats:
    """Search ``population * generations`` vectors of node priorities at most; stops when ``search`` is over.

    Returns the fittest vector, shape (n,). A vector costs what its order sliced costs, and the search reports the
    best; or what ``fitness`` says of rows of vectors, and nothing is reported. Either way the generations are those of
    the complete costs: a vector that does not enter the elite breeds alike whatever it costs, so the cost of its
    slicing is computed only as far as to know that.
    """
    nodes = search.instance.nodes
    search.begin()
    if population_mib(population, nodes) > search.memory:
        needed = population_mib(population, nodes)
        print(
            f"{needed:.0f} MiB for a population do not fit into {search.memory:.0f} MiB: one order only",
            file=sys.stderr,
        )
        population = generations = 1
    elite, mutants = max(1, round(ELITE * population)), round(MUTANTS * population)
    keys = rng.random((population, nodes))
    costs = fitness(keys) if fitness else _costs(search, keys, np.empty(0), elite)
    for _ in range(generations - 1):
        if search.over():
            break
        best = np.argsort(costs, kind="stable")[:elite]
        children = _children(rng, keys[best], np.delete(keys, best, axis=0), population - elite - mutants)
        fresh = np.concatenate([rng.random((mutants, nodes)), children])
        known = costs[best]
        costs = np.concatenate([known, fitness(fresh) if fitness else _costs(search, fresh, known, elite)])
        keys = np.concatenate([keys[best], fresh])
    fittest: Floats = keys[np.argmin(costs)]
    return fittest


def population_mib(population: int, nodes: int) -> float:
    """MiB that a generation takes at most while the next one is bred, about."""
    return COPIES * population * nodes * 8 / 2**20


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
