"""The ideals of a graph, listed by the C core within the time and memory of a run."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from shardmark.instances.graph import Graph, Index
from shardmark.solvers.native import Longs, array_in, array_out, check, ffi, lib, shaped
from shardmark.solvers.registry import Declined, Run

#: The most ideals.
LARGEST = 2**31 - 2


@dataclass(frozen=True)
class Ideals:
    """All ideals of a graph, subsets first; the first one is empty, the last one is the whole graph.

    ``start``  shape (ideals + 1,), int64: the maximal nodes of ideal i are ``node[start[i]:start[i + 1]]``, ascending
    ``node``   shape (links,), int32
    ``less``   shape (links,), int32: the ideal without that node
    """

    start: Longs
    node: Index
    less: Index

    def __len__(self) -> int:
        return len(self.start) - 1


class IdealEnumerator:
    """The ideals of a graph whose edges lead to greater numbers, else ValueError; see ``ideals.h``.

    ``stop``  shape (1,), int32: if another thread sets it to 1, counting and listing end early
    """

    def __init__(self, graph: Graph, stop: Index) -> None:
        self._columns = [array_in(column) for column in (*graph.out_csr, *graph.in_csr)]
        self._order = ffi.new("struct shard_dag *", (graph.nodes, *self._columns))
        self._stop = array_in(shaped(stop, (1,)))

    def count(self, most: int, most_links: int) -> tuple[int, int]:
        """Numbers of ideals and of their maximal nodes; counting ends soon after one exceeds its limit."""
        ideals, links = ffi.new("int64_t *"), ffi.new("int64_t *")
        check(lib.shard_count_ideals(self._order, most, most_links, self._stop, ideals, links))
        return ideals[0], links[0]

    def list(self, count: int, links: int) -> Ideals:
        """List ``count`` < 2^31 ideals with ``links`` maximal nodes in total; only the first ones if stopped."""
        listed = ffi.new("int64_t *")
        start = np.empty(count + 1, dtype=np.int64)
        node, less = np.empty(links, dtype=np.int32), np.empty(links, dtype=np.int32)
        columns = array_out(start), array_out(node), array_out(less)
        check(lib.shard_list_ideals(self._order, count, self._stop, listed, *columns))
        end = int(start[listed[0]])
        return Ideals(start[: listed[0] + 1], node[:end], less[:end])


class MemoryBudget(NamedTuple):
    """Memory for ideals: a share of ``memory`` MiB; bytes per ideal with its first link, and per further link."""

    memory: float
    share: float
    ideal: int
    link: int


def listed(core: IdealEnumerator, stop: Index, room: MemoryBudget, other: str) -> Ideals:
    """All ideals; Declined, with their number and the method to use instead, if memory or time do not suffice."""
    free = room.share * room.memory * 2**20
    most = min(LARGEST, int(free / room.ideal))
    count, links = core.count(most, int(free / room.link))
    if count > most or room.ideal * count + room.link * (links - count) > free:
        found = f"the graph has more than {count:,} ideals, too many for {room.memory:,.0f} MiB"
        raise Declined(f"{found}; {other} takes any graph")
    ideals = None if stop[0] else core.list(count, links)
    if ideals is None or len(ideals) < count:
        raise Declined(f"the time ended before the ideals were listed ({count:,} counted); {other} takes any graph")
    return ideals


@contextmanager
def deadline(run: Run, share: float = 1.0) -> Iterator[Index]:
    """A flag, shape (1,), int32, that becomes 1 after a share of the remaining time."""
    stop = np.zeros(1, dtype=np.int32)
    timer = threading.Timer(share * run.remaining(), stop.fill, (1,))
    timer.start()
    try:
        yield stop
    finally:
        timer.cancel()
        timer.join()
