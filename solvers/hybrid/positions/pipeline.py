"""The dynamic program over pipelines of which only devices, replicas and positions are known."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from shardmark.instances.files.columns import LARGEST_TOTAL, Ints
from shardmark.instances.graph import Index
from shardmark.instances.hybrid import Instance
from shardmark.solvers.hybrid.positions.cells import Cells
from shardmark.solvers.hybrid.positions.types import LEAST_LIMIT, Reaches

#: Numbers of microbatches in flight up to which they are exact; beyond, they are rounded down to powers of `STEP`.
EXACT, STEP = 24, 1.08


class Stopped(Exception):
    """Time is up."""


@dataclass(eq=False)
class Pipeline:
    """For each number of devices and sum of data-parallel degrees, the farthest position that the last stages reach.

    ``cost``  limit on the objective
    ``stop``  shape (1,), int32: once it is 1, `Stopped` is raised
    """

    reaches: Reaches
    cost: float
    stop: Index
    _known: dict[tuple[int, int, int], tuple[Index, int]] = field(default_factory=dict)

    @property
    def cells(self) -> Cells:
        """The cells of positions."""
        return self.reaches.cells

    @property
    def refuted(self) -> bool:
        """True if no pipeline reaches the first node."""
        return int(self.farthest[:, -1].max()) < int(self.cells.high[-1])

    @cached_property
    def farthest(self) -> Ints:
        """Shape (sums + 1, devices + 1), int64; -1: no such stages."""
        work, degrees = self.reaches.types.instance, self.reaches.types.degrees.tolist()
        devices = most_devices(work)
        sums = min(devices, work.batch)
        found = np.full((sums + 1, devices + 1), -1)
        found[0, 0] = 0
        for later in range(sums):
            row = np.maximum.accumulate(found[later], out=found[later])
            if row[-1] < 0:
                continue
            cell = np.searchsorted(self.cells.low, row, side="right") - 1
            for data in work.replicas[work.replicas <= sums - later].tolist():
                for t, degree in enumerate(degrees):
                    used = data * degree
                    if used <= devices and row[devices - used] >= 0:
                        ends, most = self._reach(t, data, later)
                        start = slice(0, devices + 1 - used)
                        new = np.where(row[start] < 0, -1, np.minimum(ends[cell[start]], row[start] + most))
                        np.maximum(found[later + data, used:], new, out=found[later + data, used:])
        np.maximum.accumulate(found, axis=1, out=found)
        return found

    def _reach(self, t: int, data: int, later: int) -> tuple[Index, int]:
        """The farthest position by cell, and the greatest distance, of a stage of such degrees before others."""
        key = t, data, rounded_down(-(-(later + data) // data))
        if key not in self._known:
            if self.stop[0]:
                raise Stopped
            seconds, weight = stage_limit(self.reaches.types.instance, self.cost, data)
            reach, distance = self.reaches.reach(*key, seconds, weight)
            self._known[key] = self.cells.high[reach].astype(np.int32), distance
        return self._known[key]


def stage_limit(instance: Instance, cost: float, data: int) -> tuple[float, float]:
    """A limit on the seconds of a microbatch, plus the synchronisation times a weight, in a stage of ``data`` replicas.

    For a batch, all stages together take at least the fastest configurations of all nodes. So the repeated time and the
    synchronisation of a stage are at most the ``cost`` less those.
    """
    batch, limit, weight = instance.batch, cost * data, data / instance.batch
    if instance.objective == "step":
        fastest = float(np.minimum.reduceat(instance.time, instance.start[:-1]).sum()) * (1 - 1e-9)
        if fastest * batch > limit and data < batch:
            limit, weight = (cost - fastest) * data / (batch - data), data / (batch - data)
        else:
            limit /= batch
    return min(max(limit, LEAST_LIMIT), LARGEST_TOTAL), weight


def most_devices(instance: Instance) -> int:
    """Upper bound on the devices that stages of at least one node each occupy."""
    largest = int((instance.most_replicas * instance.degree).max())
    return min(instance.devices, instance.nodes * largest)


def rounded_down(in_flight: int) -> int:
    """A number of microbatches in flight, or one little less, so that there are few of them."""
    if in_flight <= EXACT:
        return in_flight
    return min(in_flight, int(EXACT * STEP ** np.floor(np.log(in_flight / EXACT) / np.log(STEP) + 1e-9)))
