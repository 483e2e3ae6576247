"""A biased random-key genetic algorithm over node priorities (Gonçalves & Resende 2011)."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from shardmark.solvers.native import Floats
from shardmark.solvers.pipeline.search.orders import Search

#: Populations in memory: this generation and the next.
COPIES = 2

#: Share of a run's memory for populations; the rest is for the instance and its reader.
ROOM = 0.5

Fitness = Callable[[Floats], Floats]

#: Values from the ranges that Gonçalves and Resende (2011) recommend: the share of a generation that is kept, the share
#: that is random, and the probability that a child takes a key from its elite parent.
ELITE = 0.2
MUTANTS = 0.2
INHERIT = 0.7


def evolve(
    search: Search, rng: np.random.Generator, population: int, generations: int, fitness: Fitness | None = None
) -> Floats:
    """Search ``population * generations`` vectors of node priorities at most; stops when ``search`` is over.

    Returns the fittest vector, shape (n,). The cost of a vector is that of its sliced order, and the search reports the
    best; or it is given by ``fitness``, a function of rows of vectors, and nothing is reported. The exact cost of a
    vector outside the elite does not matter for breeding, so slicing stops as soon as a vector is known not to enter
    the elite; the generations are the same.
    """
    search.begin()
    if not _fits(search, population):
        population = generations = 1
    elite, mutants = max(1, round(ELITE * population)), round(MUTANTS * population)
    keys, then = (np.empty((population, search.instance.nodes)) for _ in range(2))
    costs = np.full(population, np.inf)
    for rows in batches(search, 0, population):
        rng.random(out=keys[rows])
        costs[rows] = _costs(search, keys[rows], costs, elite, fitness)
    for _ in range(generations - 1):
        best = np.argsort(costs, kind="stable")[:elite]
        if search.over() or not breed(search, rng, keys, then, best, mutants):
            break
        keys, then = then, keys
        costs = np.append(costs[best], np.full(population - elite, np.inf))
        for rows in batches(search, elite, population):
            costs[rows] = _costs(search, keys[rows], costs, elite, fitness)
    fittest: Floats = keys[np.argmin(costs)]
    return fittest


def batches(search: Search, start: int, stop: int) -> Iterator[slice]:
    """Rows ``start`` to ``stop`` in batches of the search; all but the first batch only while time is left."""
    for at in range(start, stop, search.rows):
        if at > start and search.over():
            return
        yield slice(at, min(at + search.rows, stop))


def breed(
    search: Search, rng: np.random.Generator, keys: Floats, then: Floats, best: NDArray[np.intp], mutants: int
) -> bool:
    """Fill ``then`` with the ``best`` rows of ``keys``, ``mutants`` random rows and children; False if time ran out.

    Shapes (population, n). A child has one parent from the best rows and another from the others.
    """
    fresh = len(best) + mutants
    others = np.delete(np.arange(len(keys)), best)
    mothers = best[rng.integers(len(best), size=len(keys) - fresh)]
    fathers = others[rng.integers(len(others), size=len(keys) - fresh)]
    at = fresh
    for rows in batches(search, fresh, len(keys)):
        at, pairs = rows.stop, slice(rows.start - fresh, rows.stop - fresh)
        inherits = rng.random(then[rows].shape) < INHERIT
        then[rows] = np.where(inherits, keys[mothers[pairs]], keys[fathers[pairs]])
    for rows in batches(search, len(best), fresh):
        rng.random(out=then[rows])
    then[: len(best)] = keys[best]
    return at == len(keys) and not search.over()


def _fits(search: Search, population: int) -> bool:
    """True if memory suffices for a population; else a line on stderr says so."""
    needed, room = COPIES * population * search.instance.nodes * 8 / 2**20, ROOM * search.memory
    if needed > room:
        print(f"{needed:.1f} MiB for a population do not fit into {room:.1f} MiB: one order only", file=sys.stderr)
    return needed <= room


def _costs(search: Search, rows: Floats, known: Floats, elite: int, fitness: Fitness | None) -> Floats:
    """Costs of vectors; if slicing gives them, infinite for vectors not among the ``elite`` best known."""
    return fitness(rows) if fitness else search.decode(rows, float(np.sort(known)[elite - 1]))
