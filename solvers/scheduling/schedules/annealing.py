"""Simulated annealing of schedules on all cores, from that of HEFT or that of the critical path."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from dataclasses import dataclass, field
from functools import partial
from typing import Generic, TypeVar

import numpy as np

from shardmark.instances.files.columns import Floats, Ints
from shardmark.solvers.registry import Run
from shardmark.solvers.scheduling._kernels import Execution, PathMoves, SimulatedMoves, Simulator
from shardmark.solvers.scheduling.heuristics.heft import earliest_finish
from shardmark.solvers.scheduling.heuristics.local import orders, path_computation_time
from shardmark.solvers.scheduling.heuristics.path import around_the_path
from shardmark.solvers.scheduling.schedules.memory import fits
from shardmark.solvers.scheduling.schedules.parts import Parts
from shardmark.solvers.scheduling.schedules.windows import COLD, WINDOW_VERTICES, reheat

#: First temperature, in mean times of a vertex, if there is time for HOT_MOVES moves per vertex; otherwise it is
#: proportional to the root of the moves per vertex.
HOT = 0.5
HOT_MOVES = 250

#: Least first temperature, in mean times of a vertex.
COLDEST = 0.25

#: Greatest first temperature, in mean times of a vertex: low for simulated moves, which begin near their best.
HOTTEST: Mapping[type, float] = {PathMoves: 2.5, SimulatedMoves: 0.5}

#: Seconds between two checks of the clock.
SLICE = 0.05

#: Seconds by which each vertex lengthens a slice.
SLICE_PER_VERTEX = 5e-6

#: Largest share of all seconds that a slice takes.
SLICE_SHARE = 0.02

#: Most moves of a slice.
MOST_MOVES = 10**9

#: Number of times in the second half that all threads continue from the best thread.
EXCHANGES = 5

#: Share of the time for windows; they need this many moves per vertex, and a graph with this many windows.
WINDOWS_SHARE = 0.5
MOVES_FOR_WINDOWS = 800
SOME_WINDOWS = 20

#: Share of the time for path moves if links are shared or memory is limited, which they ignore.
PATH_MOVES_SHARE = 0.25

#: Share of the time after which simulated moves have cooled down once, so that a good schedule is there early.
EARLY_SHARE = 0.07


@dataclass
class Best:
    """The best schedule so far: the shortest that fits the memory, which is reported, or else the shortest.

    ``device``     shape (n,)
    ``execution``  its simulation
    ``fits``       True if it fits the memory
    ``least``      time that the shortest reported schedule takes; only shorter ones are reported
    """

    run: Run
    simulator: Simulator
    device: Ints
    execution: Execution
    fits: bool = field(init=False)
    least: float = math.inf

    def __post_init__(self) -> None:
        self.fits = self._fits(self.device, self.execution)
        self._report()

    def take(self, device: Ints, execution: Execution) -> None:
        """Keep another schedule if it is better."""
        if self.fits and execution.makespan >= self.execution.makespan:
            return
        fits = self._fits(device, execution)
        if (not fits, execution.makespan) < (not self.fits, self.execution.makespan):
            self.device, self.execution, self.fits = device, execution, fits
            self._report()

    def _fits(self, device: Ints, execution: Execution) -> bool:
        return math.isfinite(execution.makespan) and fits(self.simulator.instance, device, execution)

    def _report(self) -> None:
        if self.fits and self.makespan < self.least:
            parts = orders(self.device, self.execution, self.simulator.instance.devices)
            self.run.report({"device": self.device, "order": parts}, self.makespan)
            self.least = self.makespan

    @property
    def makespan(self) -> float:
        """Time at which the last vertex has finished; infinite if some vertices never run."""
        return self.execution.makespan

    @property
    def done(self) -> bool:
        """True if no schedule can be better."""
        return self.fits and not self.makespan

    @property
    def sequence(self) -> Ints:
        """The vertices that run, at most n, by start."""
        return self.execution.sequence.astype(np.int64)

    @property
    def order(self) -> Ints:
        """The vertices that run, at most n, by device and then by start."""
        return self.sequence[np.argsort(self.device[self.sequence], kind="stable")]

    @property
    def priority(self) -> Floats:
        """Priorities, shape (n,), greater for vertices that start earlier; 0 for those that never start."""
        sequence = self.execution.sequence
        priority = np.zeros(len(self.device))
        priority[sequence] = len(sequence) - np.arange(len(sequence))
        return priority


def begin(simulator: Simulator, run: Run) -> Best:
    """The better schedule of two partitions, that of HEFT and that of the critical path, with PCT as priorities."""
    device = earliest_finish(simulator.instance)
    best = Best(run, simulator, device, _by_path(simulator, device))
    device = around_the_path(simulator.instance)
    best.take(device, _by_path(simulator, device))
    return best


def _by_path(simulator: Simulator, device: Ints) -> Execution:
    return simulator.by_priority(device, path_computation_time(simulator.instance, device))


def improve(best: Best, seconds: float) -> None:
    """Anneal moves of critical vertices on all cores, then simulated moves if links or memory count.

    As these take all the time to cool down, they do so once more beforehand, in little time.
    """
    if best.done:
        return
    instance = best.simulator.instance
    if instance.links == "independent" and bool((instance.capacity > instance.size.sum()).all()):
        _move_along_paths(best, seconds)
        return
    again = copy(best)
    _move(best, EARLY_SHARE * seconds)
    again.least = best.least
    _move(again, (1 - EARLY_SHARE) * seconds)
    best.least = again.least
    best.take(again.device, again.execution)


def _move(best: Best, seconds: float) -> None:
    """Anneal moves along paths, then simulated moves from the best of them."""
    end = time.monotonic() + seconds
    _move_along_paths(best, PATH_MOVES_SHARE * seconds)
    searches = [SimulatedMoves(best.simulator, best.device, best.priority, seed) for seed in _seeds(best.run)]
    _anneal(searches, best, end - time.monotonic())


def _move_along_paths(best: Best, seconds: float) -> None:
    if math.isfinite(best.makespan):
        searches = [PathMoves(best.simulator, best.device, best.order, seed) for seed in _seeds(best.run)]
        _anneal(searches, best, seconds)


def _seeds(run: Run) -> range:
    return range(run.seed * run.cores, (run.seed + 1) * run.cores)


Searching = TypeVar("Searching", SimulatedMoves, PathMoves)


def _anneal(searches: list[Searching], best: Best, seconds: float) -> None:
    """Cool searches down, one per thread; then reheat windows if they make path moves and time allows."""
    end = time.monotonic() + seconds
    cooling = _Cooling(searches, best, seconds)
    with ThreadPoolExecutor(len(searches)) as pool:
        while cooling.has_time():
            cooling.advance(pool)
    paths = [search for search in searches if isinstance(search, PathMoves)]
    if cooling.until < seconds:
        parts = Parts(best.simulator, paths, best.run.seed)
        reheat(parts, best.take, end - cooling.late, max(cooling.moves), cooling.mean_time)


class _Cooling(Generic[Searching]):
    """Searches that cool down from slice to slice.

    ``until``      seconds after which they are cold
    ``mean_time``  of a vertex
    ``length``     seconds of a slice; ``late`` is the most by which one has exceeded it
    ``moves``      moves of the next slice of each search
    """

    def __init__(self, searches: list[Searching], best: Best, seconds: float) -> None:
        instance = best.simulator.instance
        self.searches: list[Searching] = searches
        self.best, self.seconds, self.until = best, seconds, seconds
        self.nodes, self.mean_time = instance.nodes, float((instance.complexity / instance.speed[best.device]).mean())
        self.length = min(SLICE + SLICE_PER_VERTEX * self.nodes, SLICE_SHARE * seconds)
        self.late, self.exchanges, self.moves = 0.0, 0, [1] * len(searches)
        self.begun = time.monotonic()
        self.passed = 0.0

    def has_time(self) -> bool:
        """True if there is time for another slice."""
        self.passed = time.monotonic() - self.begun
        return self.passed < self.until - self.late

    def advance(self, pool: ThreadPoolExecutor) -> None:
        """Make the moves of a slice in each search; at times, let all continue from the best of them."""
        done, rate = self.passed / self.until, max(self.moves) / self.length / self.nodes
        search_slice = partial(_search_slice, temperature=self._temperature(done, rate), seconds=self.length)
        self.moves = list(pool.map(search_slice, self.searches, self.moves))
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
        """The temperature after the share ``done`` of the time, at a rate in moves per vertex and second."""
        most = HOTTEST[type(self.searches[0])]
        hot = min(most, max(COLDEST, HOT * math.sqrt(rate * self.until / HOT_MOVES)))
        return self.mean_time * hot * (COLD / hot) ** done

    def _suits_windows(self, rate: float) -> bool:
        return self.nodes >= SOME_WINDOWS * WINDOW_VERTICES and rate * self.seconds >= MOVES_FOR_WINDOWS


def _search_slice(search: Searching, moves: int, temperature: float, seconds: float) -> int:
    """Try ``moves`` moves; return the number for the next slice, which should take ``seconds``."""
    begun = time.monotonic()
    search.search(moves, temperature)
    return next_moves(moves, time.monotonic() - begun, seconds)


def next_moves(moves: int, took: float, seconds: float) -> int:
    """The number of moves that should take ``seconds`` if ``moves`` took ``took`` seconds; at most 4 ``moves``."""
    return min(MOST_MOVES, max(1, int(moves * min(4.0, seconds / max(1e-9, took)))))
