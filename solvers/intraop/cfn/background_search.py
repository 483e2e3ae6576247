"""Generational search on the cores that bounds and integer programs leave idle, from the first rounded bound on."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

from shardmark.instances.files.columns import Floats, Ints
from shardmark.solvers.intraop.cfn.generations import GenerationalSearch


class BackgroundSearch:
    """A generational search in its own thread on some cores; while `run` is called, on all cores.

    Only one thread runs the search at a time, and only that thread changes it; new starts take effect between
    generations.

    ``cores``   cores of the thread; 0: no thread
    ``best``    returns the best assignment that fits, None if none is known
    ``enough``  returns True once the search may end for good
    """

    def __init__(
        self, search: GenerationalSearch, *, cores: int, best: Callable[[], Ints | None], enough: Callable[[], bool]
    ) -> None:
        self._search, self._cores, self._best, self._enough = search, cores, best, enough
        self._starts: deque[tuple[Ints, Floats]] = deque(maxlen=1)
        self._running: Future[None] | None = None
        self._paused = True

    def start_from(self, value: Ints, multipliers: dict[int, float]) -> None:
        """Continue from an assignment, shape (v,), and prices per byte of some steps, after the present generation."""
        self._starts.append((value, self._search.blocks.span_prices(multipliers)))

    def resume(self) -> None:
        """Start the thread unless it is running; reraises the exception of a thread that died."""
        if self._running is not None and self._running.done():
            self.pause()
        if self._cores and self._running is None:
            self._paused, self._search.cores = False, self._cores
            pool = ThreadPoolExecutor(1)
            self._running = pool.submit(self._search.run, math.inf, lambda: self._paused or self._between(self._enough))
            pool.shutdown(wait=False)

    def pause(self) -> None:
        """End the thread's search, usually within half a second; reraises its exception."""
        if (error := self.stop()) is not None:
            raise error

    def stop(self) -> BaseException | None:
        """End the thread's search as `pause` does; return its exception, None if there is none."""
        self._paused = True
        running, self._running = self._running, None
        if running is None:
            return None
        self._search.halt()
        return running.exception()

    def run(self, until: float, enough: Callable[[], bool], *, cores: int) -> None:
        """Search in the calling thread until a time, or until ``enough`` returns True between two generations."""
        self.pause()
        self._search.cores = cores
        self._search.run(until, lambda: self._between(enough))

    def _between(self, enough: Callable[[], bool]) -> bool:
        """Ask whether to end, then take the latest start and the best assignment."""
        over = enough()
        if self._starts:
            self._search.begin(*self._starts.pop())
        self._search.best = self._best()
        return over
