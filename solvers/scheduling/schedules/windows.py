"""Reheating: windows of a schedule, each annealed separately."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from shardmark.instances.files.columns import Ints
from shardmark.solvers.scheduling._kernels import Execution, PathMoves
from shardmark.solvers.scheduling.schedules.parts import Parts

#: Vertices of a window, and moves per vertex.
WINDOW_VERTICES = 100
MOVES = 200

#: First temperature, in mean times of a vertex: low, so that earlier gains are not lost.
HOT = 0.3

#: Last temperature, in mean times of a vertex: almost no longer schedule is accepted.
COLD = 0.03

#: Number of times that the parts of all threads are joined.
EXCHANGES = 20


def reheat(parts: Parts, take: Callable[[Ints, Execution], None], end: float, most: int, mean_time: float) -> None:
    """Anneal windows of the best schedule, one search per thread, until the time ``end``.

    If a whole schedule is cooled down once, some places end badly; a window can be annealed again and again. Each
    search has the windows of a part, and ``take`` gets the best schedule after each exchange. No window takes more than
    ``most`` moves; ``mean_time`` is that of a vertex.
    """
    period = (end - time.monotonic()) / EXCHANGES
    with ThreadPoolExecutor(len(parts.searches)) as pool:
        while (now := time.monotonic()) < end:
            parts.divide()
            anneal = partial(_search, most=most, mean_time=mean_time, until=min(end, now + period))
            list(pool.map(anneal, parts.searches))
            take(*parts.join())


def _search(search: PathMoves, most: int, mean_time: float, until: float) -> None:
    moves = min(most, WINDOW_VERTICES * MOVES)
    while time.monotonic() < until:
        search.search_window(moves, HOT * mean_time, COLD * mean_time, WINDOW_VERTICES)
