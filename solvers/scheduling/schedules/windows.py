"""Windows of a schedule, each heated and cooled down on its own."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from instances.files.columns import Ints
from solvers.scheduling._kernels import Execution, PathMoves

#: Vertices of a window, and moves for each of them.
REHEATED = 100
REHEATED_EACH = 200

#: First temperature, in mean times of a vertex: what is won before the window cools down is not lost.
WARM = 0.3

#: Last temperature, in mean times of a vertex: hardly anything longer is accepted any more.
LAST = 0.03

#: Number of times that all threads go on from the best of them.
EXCHANGES = 5


def reheat(
    searches: Sequence[PathMoves], take: Callable[[Ints, Execution], None], end: float, most: int, each: float
) -> None:
    """Anneal windows of the best schedule, one search a thread, until a time of `time.monotonic`.

    A whole schedule that cools down once keeps what was bad luck somewhere; a window can be tried again and again.
    ``take`` is told the best schedule now and then. No window takes more than ``most`` moves; ``each`` is the mean time
    of a vertex.
    """
    period = (end - time.monotonic()) / EXCHANGES
    with ThreadPoolExecutor(len(searches)) as pool:
        while (now := time.monotonic()) < end:
            list(pool.map(partial(_search, most=most, each=each, until=min(end, now + period)), searches))
            first = min(searches, key=lambda search: search.best)
            take(*first.run())
            for search in searches:
                search.adopt(first)


def _search(search: PathMoves, most: int, each: float, until: float) -> None:
    moves = min(most, REHEATED * REHEATED_EACH)
    while time.monotonic() < until:
        search.search_window(moves, WARM * each, LAST * each, REHEATED)
