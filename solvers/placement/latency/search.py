"""Annealing of placements for latency, first of parts of the graph, then of its nodes."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice, pairwise

import numpy as np

from shardmark.instances.placement import Instance
from shardmark.solvers.placement.kernels.latency import LatencyAnnealer, LatencyCooling, LatencyPlacement, schedule
from shardmark.solvers.placement.latency.memory_path import path_proof
from shardmark.solvers.placement.latency.tasks import Blocks, Contraction
from shardmark.solvers.registry import Declined, Run

#: Relative difference up to which latencies are equal: the referee's rounding may differ.
TOLERANCE = 1e-9
#: First and last temperature of the runs of a round, as shares of their first latency, and the weight of the mean end.
COOLINGS = ((0.02, 1e-6, 0.0), (0.002, 1e-6, 0.1))
#: Nodes up to which these temperatures hold; for larger graphs they are proportionally lower.
MELTING_MOVES = 500
#: Nodes up to which a graph is searched directly; in larger graphs, whole parts are moved first.
FEW = 2000
#: Largest part as a share of the memory of an accelerator, so that accelerators can be filled well.
GRAIN = 0.1
#: Factor for the number of parts from one level to the next finer one.
FINER = 5
#: Nodes and edges scheduled in a run of the first round.
FIRST = 2e8
#: Nodes and edges scheduled between two checks of the clock.
SLICE = 2e6
#: Least moves between two checks of the clock: setting up a kernel call takes as long as a few moves.
FEWEST = 50
#: Reports per run.
REPORTS = 8
#: Least time of a schedule, in nodes and edges.
LEAST = 500
#: Share of the time reserved for the last slices to end.
RESERVE = 0.03


def search_latency(instance: Instance, run: Run, most: float = math.inf) -> None:
    """Anneal placements for latency, starting with all nodes in the pool or with long runs of nodes on accelerators.

    Nodes move between subgraphs alone, with the nodes after or before them, or with their colour class; subgraphs are
    split and created. Every move is evaluated by the whole schedule. Large graphs are first contracted to runs of a
    topological order, within the best placement. A round has one annealing run per core, at least two; the next round
    is twice as long, until time is up or ``most`` moves per run are made.
    """
    search = LatencySearch(instance, run)
    run.bound(instance.path_bound(), path_proof(None))
    effort = FIRST
    with ThreadPoolExecutor(run.cores) as pool:
        while effort > 0 and not search.over():
            began = time.monotonic()
            if not search.round(pool, effort, most):
                break
            effort = _next(effort, time.monotonic() - began, search.left())
    if math.isinf(search.cost):
        raise Declined("found no placement that the memories hold, and there are no CPUs")


def _next(effort: float, took: float, left: float) -> float:
    """Effort of the next round: twice as much, or all that the remaining time allows if that is little more."""
    return 2 * effort if left > 4.0 * took else 0.9 * effort * left / max(took, 1e-9)


class LatencySearch:
    """The best placement so far, each of which is reported.

    ``cost``  its latency, infinite before the first
    """

    def __init__(self, instance: Instance, run: Run) -> None:
        self.instance, self.run = instance, run
        self._blocks = Blocks(instance)
        self.whole = Contraction(instance, np.arange(instance.nodes), instance.unit)
        self.cost = math.inf
        self._reserve = RESERVE * run.remaining()
        self._making = 0.0  # longest time of a contraction, in seconds
        self._bound = instance.path_bound()
        self._least = math.inf  # cost of the best placement, with penalties if there are no CPUs
        self.offer(self.whole, self.whole.pooled())
        self._fill()

    def over(self) -> bool:
        """True if time is up or the best placement is proved optimal."""
        return self.cost <= self._bound * (1 + TOLERANCE) or not self.left()

    def left(self) -> float:
        """Seconds left, without the time for ending and reporting."""
        return max(0.0, self.run.remaining() - self._reserve)

    def offer(self, contraction: Contraction, placement: LatencyPlacement) -> None:
        """Report a placement of parts if it is the best so far."""
        placement = contraction.expand(placement)
        found = schedule(self.whole.tasks, placement)
        if found is None or not found.cost < self._least * (1 - TOLERANCE):
            return
        self.best, self._least = placement, found.cost
        pooled = placement.subgraph < 0
        if pooled.any() and not self.instance.cpus:
            return
        self.cost = found.cost
        owner = np.append(placement.owner, self.instance.accelerators)[placement.subgraph]
        self.run.report({"device": owner, "slot": np.where(pooled, 0, found.turn)})

    def _fill(self) -> None:
        """Offer placements of long runs of nodes on accelerators."""
        for count in (1, 2 * self.instance.accelerators, FEW):
            if self.left() > self._making:
                contraction = self._contract(self.whole.pooled(), max(1, count), 1.0)
                self.offer(contraction, contraction.filled())

    def _contract(self, placement: LatencyPlacement, count: int, grain: float) -> Contraction:
        """Contract runs of nodes of a placement, see `Blocks.parts`."""
        began = time.monotonic()
        contraction = Contraction(self.instance, *self._blocks.parts(placement.subgraph, count, grain, self.run.rng))
        self._making = max(self._making, time.monotonic() - began)
        return contraction

    def round(self, pool: ThreadPoolExecutor, effort: float, most: float) -> bool:
        """Anneal from coarse to fine; True if a longer round may follow."""
        may_grow = False
        for contraction in self._levels():
            moves = effort / max(contraction.work, LEAST)
            may_grow |= moves < most
            seeds = self.run.rng.integers(2**63, size=max(self.run.cores, len(COOLINGS))).tolist()
            runs = [_AnnealingRun(self, contraction, seed, i, min(moves, most)) for i, seed in enumerate(seeds)]
            for _ in range(REPORTS):
                for annealing in pool.map(_AnnealingRun.run_on, runs):
                    if annealing.is_better():
                        self.offer(contraction, annealing.annealer.best)
                if self.over():
                    return False
        return may_grow

    def _levels(self) -> Iterator[Contraction]:
        count = FEW
        while count * FINER < self.instance.nodes and self.left() > self._making:
            yield self._contract(self.best, count, GRAIN)
            count *= FINER
        yield self.whole


class _AnnealingRun:
    """An annealing run, from hot to cold, that begins with the best placement or with everything in the pool."""

    def __init__(self, search: LatencySearch, contraction: Contraction, seed: int, number: int, moves: float) -> None:
        each = max(FEWEST, math.ceil(SLICE / max(contraction.work, LEAST)))
        self.search, slices = search, max(1, math.ceil(moves / each))
        hot, cold, mean_weight = COOLINGS[number % len(COOLINGS)]
        anew = number % len(COOLINGS) == 1 and contraction is search.whole and search.instance.nodes <= FEW
        start = contraction.pooled() if anew else contraction.restrict(search.best)
        self.annealer, self._known = LatencyAnnealer(contraction.tasks, start, seed), math.inf
        begun = schedule(contraction.tasks, start)
        assert begun
        heat = (begun.cost or 1.0) * min(1.0, MELTING_MOVES / contraction.tasks.graph.nodes)
        falling = pairwise((heat * np.geomspace(hot, cold, slices + 1)).tolist())
        self._part = math.ceil(slices / REPORTS)
        self._slices = (LatencyCooling(math.ceil(moves / slices), *ends, mean_weight) for ends in falling)

    def run_on(self) -> _AnnealingRun:
        """Run the next part in slices, as long as time is left."""
        for cooling in islice(self._slices, self._part):
            if self.search.over():
                break
            self.annealer.anneal(cooling)
        return self

    def is_better(self) -> bool:
        """True if the best placement has improved since the last call."""
        known, self._known = self._known, self.annealer.cost
        return self._known < known
