"""Schedules of HEFT and around the critical path, and what annealed moves make of them."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Generic, TypeVar

import numpy as np

from instances.files.columns import Floats, Ints
from solvers.registry import Run
from solvers.scheduling._kernels import Execution, PathMoves, SimulatedMoves, Simulator
from solvers.scheduling.heuristics.heft import earliest_finish
from solvers.scheduling.heuristics.local import orders, path_computation_time
from solvers.scheduling.heuristics.path import around_the_path
from solvers.scheduling.schedules.memory import fits
from solvers.scheduling.schedules.windows import LAST, REHEATED, reheat

#: First temperature, in mean times of a vertex, if there is time for MOVES_EACH moves per vertex; otherwise it is
#: proportional to the root of the moves per vertex.
HOT = 0.5
MOVES_EACH = 250

#: Least first temperature, in mean times of a vertex.
COLDEST = 0.25

#: Greatest first temperature, in mean times of a vertex: low for simulated moves, which begin near their best.
HOTTEST: Mapping[type, float] = {PathMoves: 2.5, SimulatedMoves: 0.5}

#: Seconds of a slice of the search, between two looks at the time.
SLICE = 0.05

#: Seconds by which each vertex lengthens a slice.
SLICE_EACH = 5e-6

#: Share of all seconds that a slice takes at most.
SLICE_SHARE = 0.02

#: Moves of the first slice, and at most of any.
FIRST_MOVES = 1
MOST_MOVES = 10**9

#: Number of times, in the second half, that all threads go on from the best of them.
EXCHANGES = 5

#: Share of the time for windows, if there is time for so many moves per vertex, and the graph has so many windows.
WINDOWS_SHARE = 0.5
MOVES_FOR_WINDOWS = 800
SOME_WINDOWS = 20

#: Share of the time for path moves, which know neither shared links nor memory, if these count.
PATH_MOVES_SHARE = 0.25


@dataclass
class Best:
    """The best schedule so far, handed in as it is found; one whose tensors fit the memory is better than others.

    ``device``     shape (n,)
    ``execution``  how it runs
    ``fits``       whether it has been handed in
    """

    run: Run
    simulator: Simulator
    device: Ints
    execution: Execution
    fits: bool = field(init=False)

    def __post_init__(self) -> None:
        self.fits = self._fits(self.device, self.execution)
        self._hand_in()

    def take(self, device: Ints, execution: Execution) -> None:
        """Look at another schedule."""
        if self.fits and execution.makespan >= self.execution.makespan:
            return
        suits = self._fits(device, execution)
        if (not suits, execution.makespan) < (not self.fits, self.execution.makespan):
            self.device, self.execution, self.fits = device, execution, suits
            self._hand_in()

    def _fits(self, device: Ints, execution: Execution) -> bool:
        return math.isfinite(execution.makespan) and fits(self.simulator.instance, device, execution)

    def _hand_in(self) -> None:
        if self.fits:
            parts = orders(self.device, self.execution, self.simulator.instance.devices)
            self.run.report({"device": self.device, "order": parts}, self.execution.makespan)

    @property
    def makespan(self) -> float:
        """Time at which the last vertex has finished; infinite if tensors have no link."""
        return self.execution.makespan

    @property
    def done(self) -> bool:
        """True if nothing can be better."""
        return self.fits and not self.makespan

    @property
    def sequence(self) -> Ints:
        """The vertices as they start, shape (n,) or less."""
        return self.execution.sequence.astype(np.int64)

    @property
    def order(self) -> Ints:
        """The vertices of each device as they start, one device after another, shape (n,) or less."""
        return self.sequence[np.argsort(self.device[self.sequence], kind="stable")]

    @property
    def priority(self) -> Floats:
        """Priorities, shape (n,), by which the vertices start as they do; those that never start come last."""
        sequence = self.execution.sequence
        priority = np.zeros(len(self.device))
        priority[sequence] = len(sequence) - np.arange(len(sequence))
        return priority


def begin(simulator: Simulator, run: Run) -> Best:
    """HEFT's partition or that around the critical path, by PCT: what fits, or else is shorter."""
    device = earliest_finish(simulator.instance)
    best = Best(run, simulator, device, _by_path(simulator, device))
    device = around_the_path(simulator.instance)
    best.take(device, _by_path(simulator, device))
    return best


def _by_path(simulator: Simulator, device: Ints) -> Execution:
    return simulator.by_priority(device, path_computation_time(simulator.instance, device))


def improve(best: Best, seconds: float) -> None:
    """Anneal moves of what is critical, on all cores; simulate moves where links or memory count."""
    if best.done:
        return
    simulator, run, instance = best.simulator, best.run, best.simulator.instance
    simple = instance.links == "independent" and bool((instance.capacity > instance.size.sum()).all())
    end = time.monotonic() + seconds
    if math.isfinite(best.makespan):
        seconds = (end - time.monotonic()) * (1.0 if simple else PATH_MOVES_SHARE)
        _anneal([PathMoves(simulator, best.device, best.order, seed) for seed in _seeds(run)], best, seconds)
        if simple:
            return
    simulate_moves(best, best.device, best.priority, end - time.monotonic())


def simulate_moves(best: Best, device: Ints, priority: Floats, seconds: float) -> None:
    """Anneal simulated moves from a partition and its priorities, shape (n,), on all cores."""
    searches = [SimulatedMoves(best.simulator, device, priority, seed) for seed in _seeds(best.run)]
    _anneal(searches, best, seconds)


def _seeds(run: Run) -> range:
    return range(run.seed * run.cores, (run.seed + 1) * run.cores)


Searching = TypeVar("Searching", SimulatedMoves, PathMoves)


def _anneal(searches: list[Searching], best: Best, seconds: float) -> None:
    """Let searches, one a thread, cool down while there is time; then reheat windows of path moves, if any."""
    end = time.monotonic() + seconds
    cooling = _Cooling(searches, best, seconds)
    with ThreadPoolExecutor(len(searches)) as pool:
        while cooling.goes_on():
            cooling.advance(pool)
    paths = [search for search in searches if isinstance(search, PathMoves)]
    if cooling.until < seconds:
        reheat(paths, best.take, end - cooling.late, max(cooling.moves), cooling.each)


class _Cooling(Generic[Searching]):
    """Searches that cool down from slice to slice.

    ``until``   seconds after which they are cold
    ``each``    mean time of a vertex
    ``length``  seconds of a slice, and ``late`` the most by which one has taken longer
    ``moves``   of the next slice, for each search
    """

    def __init__(self, searches: list[Searching], best: Best, seconds: float) -> None:
        instance = best.simulator.instance
        self.searches: list[Searching] = searches
        self.best, self.seconds, self.until = best, seconds, seconds
        self.nodes, self.each = instance.nodes, float((instance.complexity / instance.speed[best.device]).mean())
        self.length = min(SLICE + SLICE_EACH * self.nodes, SLICE_SHARE * seconds)
        self.late, self.exchanges, self.moves = 0.0, 0, [FIRST_MOVES] * len(searches)
        self.begun = time.monotonic()
        self.passed = 0.0

    def goes_on(self) -> bool:
        """Say if there is time for another slice."""
        self.passed = time.monotonic() - self.begun
        return self.passed < self.until - self.late

    def advance(self, pool: ThreadPoolExecutor) -> None:
        """Search for a slice; at times all go on from the best."""
        done, rate = self.passed / self.until, max(self.moves) / self.length / self.nodes
        advance = partial(_advance, temperature=self._temperature(done, rate), seconds=self.length)
        self.moves = list(pool.map(advance, self.searches, self.moves))
        first = min(self.searches, key=lambda search: search.best)
        if math.isfinite(first.best):
            self.best.take(*first.run())
        self.late = max(self.late, time.monotonic() - self.begun - self.passed - self.length)
        if math.isfinite(first.best) and int((2 * done - 1) * EXCHANGES) > self.exchanges:
            self.exchanges += 1
            for search in self.searches:
                search.follow(first)
        if isinstance(first, PathMoves) and self._suits_windows(rate):
            self.until = self.seconds * (1 - WINDOWS_SHARE)

    def _temperature(self, done: float, rate: float) -> float:
        """The temperature after a share of the time, at so many moves per vertex and second."""
        most = HOTTEST[type(self.searches[0])]
        hot = min(most, max(COLDEST, HOT * math.sqrt(rate * self.until / MOVES_EACH)))
        return self.each * hot * (LAST / hot) ** done

    def _suits_windows(self, rate: float) -> bool:
        return self.nodes >= SOME_WINDOWS * REHEATED and rate * self.seconds >= MOVES_FOR_WINDOWS


def _advance(search: Searching, moves: int, temperature: float, seconds: float) -> int:
    """Try so many moves; how many take about so long."""
    begun = time.monotonic()
    search.search(moves, temperature)
    return min(MOST_MOVES, max(1, int(moves * min(4.0, seconds / max(1e-9, time.monotonic() - begun)))))
