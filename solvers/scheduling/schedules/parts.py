"""Parts of a schedule: several searches change it at the same time, each its own vertices."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from shardmark.instances.files.columns import Ints
from shardmark.instances.graph import Index
from shardmark.solvers.scheduling._kernels import Execution, PathMoves, Simulator

#: Least number of vertices of a part, on average.
LEAST = 300

#: Greatest shift of the limits of a part, as a share of it, so that no two vertices are always separated.
SHIFT = 0.25


class Parts:
    """The best schedule, divided into consecutive parts, one per search.

    Gains of searches in different parts add up, unless paths between the parts become the longest ones.

    ``searches``  their best schedules; all begin with the best of these
    """

    def __init__(self, simulator: Simulator, searches: Sequence[PathMoves], seed: int) -> None:
        self.searches, self._simulator, self._draw = searches, simulator, np.random.default_rng(seed)
        self._part: Index = np.zeros(simulator.instance.nodes, dtype=np.int32)
        first = min(searches, key=lambda search: search.best)
        _, self._execution = first.run()
        self._begin_with(first.best_device.copy(), first.best_order.copy())

    @property
    def several(self) -> bool:
        """True if there are enough vertices for one part per search; else each search has the whole schedule."""
        return 1 < len(self.searches) <= len(self._part) // LEAST

    def divide(self) -> None:
        """Divide the schedule by starts, at varying places; from now on each search keeps to its own part."""
        count, n = len(self.searches) if self.several else 1, len(self._part)
        limits = (np.arange(1, count) + self._draw.uniform(-SHIFT, SHIFT)) * n / count
        self._part[self._execution.sequence] = np.searchsorted(limits, np.arange(n), side="right")
        for own, search in enumerate(self.searches):
            search.keep_to(self._part, own if self.several else 0)

    def join(self) -> tuple[Ints, Execution]:
        """Let all searches begin with the joined best parts, or with the best schedule of one search if shorter."""
        device, order = self._joined()
        self._execution = self._simulator.in_order(device, order)
        first = min(self.searches, key=lambda search: search.best)
        if first.best < self._execution.makespan:
            device, order = first.best_device.copy(), first.best_order.copy()
            _, self._execution = first.run()
        self._begin_with(device, order)
        return device.astype(np.int64), self._execution

    def _begin_with(self, device: Index, order: Index) -> None:
        for search in self.searches:
            search.begin_with(device, order, self._execution.makespan)

    def _joined(self) -> tuple[Index, Index]:
        """Devices and order of the schedule that takes each part from the best schedule of its own search."""
        device, place = np.empty_like(self._part), np.empty_like(self._part)
        for own, search in enumerate(self.searches):
            places = np.empty_like(place)
            places[search.best_order] = np.arange(len(places))
            mine = self._part == own
            device[mine], place[mine] = search.best_device[mine], places[mine]
        return device, np.lexsort((place, self._part, device)).astype(np.int32)
