"""A proof that runs during a search: in its own thread, or alternating with the search."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType

from shardmark.instances.graph import Index
from shardmark.solvers import registry

Bound = tuple[float, registry.Proof | None]


class Proof:
    """Takes bounds as they are proved, within a ``with`` statement, whose end stops the proof.

    ``bounds``  yields a bound and its proof, None if it has none, after every step, and ends soon after ``stop``, shape
                (1,), int32, is 1
    ``take``    is called with each bound and its proof, from another thread if ``aside``
    """

    def __init__(self, bounds: Iterator[Bound], take: Callable[..., None], stop: Index, *, aside: bool) -> None:
        self._bounds, self._take, self._stop, self._aside = bounds, take, stop, aside
        self._pool = ThreadPoolExecutor(1)
        self._thread: Future[None] | None = None

    def __enter__(self) -> Proof:
        if self._aside:
            self._thread = self._pool.submit(self._run, lambda: False)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._stop.fill(1)
        self._pool.shutdown()
        if self._thread is not None and error is None:
            self._thread.result()  # reraises an exception of the thread

    @property
    def threads(self) -> int:
        """Number of threads of the proof."""
        return int(self._thread is not None and not self._thread.done())

    def advance(self, seconds: float) -> None:
        """If not ``aside``: take steps for some seconds, at least one."""
        end = time.monotonic() + seconds
        if not self._aside:
            self._run(lambda: time.monotonic() >= end)

    def _run(self, over: Callable[[], bool]) -> None:
        for bound, proof in self._bounds:
            self._take(bound, proof)
            if over() or self._stop[0]:
                return
