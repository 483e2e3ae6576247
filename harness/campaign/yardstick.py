"""The yardstick: how long this machine takes for fixed pieces of work, by which machines are compared."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Mapping
from functools import cache, partial

import numpy as np

from shardmark.solvers.native import array_in, array_out, lib

#: Rounds of each piece, about 0.12 s on a server of 2024.
INTEGERS, FLOATS, MEMORY = 13_000_000, 2_700, 1_000_000
CYCLE = 1 << 23  # links of 4 bytes: 32 MiB, more than a core's own caches
REPEATS = 5  # the median counts, so that an interruption does not
WORTH_S = 60.0  # a campaign whose runs take less at most is not measured, as that would be much of its time


@cache
def measured() -> Mapping[str, float]:
    """Return the seconds that a piece of work takes, by kind: ``integers``, ``floats`` and ``memory``; 2 s in all."""
    links = np.empty(CYCLE, np.int32)
    lib.shard_yardstick_cycle(CYCLE, array_out(links))
    pieces: dict[str, Callable[[], object]] = {
        "integers": partial(lib.shard_yardstick_integers, INTEGERS),
        "floats": partial(lib.shard_yardstick_floats, FLOATS),
        "memory": partial(lib.shard_yardstick_memory, CYCLE, array_in(links), MEMORY),
    }
    times = [{kind: _seconds(work) for kind, work in pieces.items()} for _ in range(REPEATS)]  # in turn, as noise lasts
    return {kind: round(statistics.median(taken[kind] for taken in times), 5) for kind in pieces}


def _seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def speed(here: Mapping[str, float], there: Mapping[str, float]) -> float:
    """Return how many times as fast one machine is as another: the geometric mean over the kinds of work."""
    return math.prod(there[kind] / here[kind] for kind in there) ** (1 / len(there))
