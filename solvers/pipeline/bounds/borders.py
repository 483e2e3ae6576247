"""A bound for graphs of any size: a path over the work done at the borders of stages, whose steps are minimum cuts."""

from __future__ import annotations

import math
from itertools import pairwise
from threading import Timer

import numpy as np
from numpy.typing import NDArray

from shardmark.instances.pipeline import Instance
from shardmark.instances.rounding import safely
from shardmark.solvers.native import Longs
from shardmark.solvers.pipeline._kernels import closure_work
from shardmark.solvers.pipeline.programs.border_cuts import BorderCuts, Cell
from shardmark.solvers.pipeline.programs.incumbent import Bounds
from shardmark.solvers.registry import Run, bound

#: All work and sizes together become integers below 2 to this power.
BITS = 40
#: Cells per stage at first, and most cells.
CELLS, MOST_CELLS = 4, 600
#: No cell is narrower than all work divided by 2 to this power.
FINEST = 12
#: Share of the time after which no cut begins, and the kernels stop.
SHARE = 0.8


@bound(track="pipeline", source="this project; minimum cuts")
def borders(instance: Instance, run: Run) -> None:
    """Find the least bottleneck of a path over the work done at the borders between stages.

    The nodes done when a stage ends form an ideal, whose work lies in one of several cells. For two cells, the nodes
    that must be in one ideal and those that cannot be in another leave a minimum cut: the least that a stage between
    them works, sends and receives (`BorderCuts`). Every split is a path of k such stages over the cells, so the path
    with the least bottleneck is a bound. Steps of this path are bounded by a cut once they are on it; when all are, its
    widest cell is halved. Computed in integers that are rounded down; the overflow is left out. OR-tools proposes the
    flows, whose values are computed here.
    """
    bounds = Bounds(instance, run)
    moved = instance.output_size / instance.bandwidth
    total = float(instance.work.sum() + moved.sum())
    if not 0 < total < math.inf:
        return
    scale = 2.0 ** min(BITS - math.frexp(total)[1], 1000)
    work, size = (instance.work * scale).astype(np.int64), (moved * scale).astype(np.int64)
    stop = np.zeros(1, dtype=np.int32)
    timer = Timer(SHARE * run.remaining(), stop.fill, (1,))
    timer.start()
    try:
        closures = closure_work(instance.graph, work, stop), closure_work(instance.graph, work, stop, reverse=True)
        cuts = BorderCuts(instance.graph, work, size, closures)
        grid = Grid(cuts, min(instance.stages, instance.nodes))
        while not stop[0] and grid.advance(stop):
            bounds.offer(safely(grid.bottleneck / scale, instance.nodes + instance.edges))
    finally:
        timer.cancel()


class Grid:
    """Cells in the order of work, and for each pair of them a bound on the cost of a stage between.

    ``bottleneck``  the greatest cost on the best path, as far as known: a bound for every split
    """

    def __init__(self, cuts: BorderCuts, stages: int) -> None:
        whole, number = cuts.whole, CELLS * stages
        number = max(1, min(number, MOST_CELLS // 2, whole))
        ends = [whole * i // number for i in range(number + 1)]
        inner = [Cell(low + (low > 0), high) for low, high in pairwise(ends)]
        self.cuts, self.stages, self.bottleneck = cuts, stages, 0
        self.cells = [Cell(0, 0, ideal=False), *inner, Cell(whole, whole, ideal=True)]
        self.cost = np.zeros((len(self.cells),) * 2, dtype=np.int64)
        self.cut = np.eye(len(self.cells), dtype=bool)  # a stage within a cell may be empty
        self._count_work()

    def advance(self, stop: NDArray[np.int32]) -> bool:
        """Cut the steps of the best path, or halve a cell; False if nothing is left to do."""
        path, self.bottleneck = self._best_path()
        steps = [step for step in pairwise(path) if not self.cut[step]]
        for a, b in steps:
            if stop[0]:
                return False
            found = self.cuts.least_cost(self.cells[a], self.cells[b], self.bottleneck)
            self.cost[a, b] = max(int(self.cost[a, b]), found)
            self.cut[a, b] = found <= self.bottleneck  # else the search ended early
            if found > self.bottleneck:
                break
        return bool(steps) or self._halve(max(path, key=lambda at: self.cells[at].high - self.cells[at].low))

    def _best_path(self) -> tuple[list[int], int]:
        """The path of least bottleneck, of several that of the least sum; and its bottleneck."""
        cells = len(self.cells)
        never = 2 * self.cuts.whole + 1
        bottleneck, total = np.full(cells, never), np.zeros(cells, dtype=np.int64)
        bottleneck[0] = 0
        origins: list[Longs] = []
        for _ in range(self.stages):
            reached = np.maximum(bottleneck[:, None], self.cost)
            bottleneck = reached.min(axis=0)
            sums = np.where(reached == bottleneck, total[:, None] + self.cost, np.iinfo(np.int64).max)
            origins.append(sums.argmin(axis=0))
            total = sums.min(axis=0)
        path = [cells - 1]
        for origin in reversed(origins):
            path.append(int(origin[path[-1]]))
        return path[::-1], int(bottleneck[-1])

    def _halve(self, at: int) -> bool:
        """Halve a cell unless it is narrow; its halves inherit the costs."""
        cell, cells = self.cells[at], len(self.cells)
        if cell.high - cell.low <= self.cuts.whole >> FINEST or cells >= MOST_CELLS:
            return False
        middle = (cell.low + cell.high) // 2
        self.cells[at : at + 1] = [Cell(cell.low, middle), Cell(middle + 1, cell.high)]
        twice = np.insert(np.arange(cells), at, at)
        self.cost, self.cut = self.cost[np.ix_(twice, twice)], self.cut[np.ix_(twice, twice)]
        for half in (at, at + 1):
            self.cut[half, :] = self.cut[:, half] = False
        np.fill_diagonal(self.cut, val=True)
        self._count_work()
        return True

    def _count_work(self) -> None:
        """Raise costs to the work between cells; no stage ends before it begins."""
        low, high = (np.array([getattr(cell, end) for cell in self.cells], dtype=np.int64) for end in ("low", "high"))
        np.maximum(self.cost, low[None, :] - high[:, None], out=self.cost)
        self.cost[np.tril_indices(len(self.cells), -1)] = self.cuts.whole + 1
