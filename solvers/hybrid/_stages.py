"""Stages in a row: their times and memory, and the solution that they are."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from shardmark.instances.files.columns import Floats, Ints
from shardmark.instances.graph import Index
from shardmark.instances.hybrid import Instance


@dataclass(frozen=True, eq=False)
class Chain:
    """Stages from the front of the pipeline to its end.

    ``stage``          shape (n,), int32: stage of each node of the instance
    ``configuration``  shape (n,), int64: index into the columns of the instance
    ``tensor``         shape (stages,), int64: tensor-parallel degree of each stage
    ``data``           shape (stages,), int64: data-parallel degree of each stage
    """

    instance: Instance
    stage: Index
    configuration: Ints
    tensor: Ints
    data: Ints

    @property
    def solution(self) -> dict[str, Any]:
        """The solution as the referee reads it."""
        kinds = self.instance.kinds
        return {
            "stage": self.stage.tolist(),
            "configuration": [kinds[k] for k in self.instance.kind[self.configuration].tolist()],
            "data_parallel": self.data.tolist(),
            "tensor_parallel": self.tensor.tolist(),
        }

    @property
    def cost(self) -> float:
        """The objective, up to rounding."""
        if self.instance.objective == "throughput":
            return self.slowest
        return math.fsum([*self.microbatch.tolist(), self.repeated, float(self.synchronising.max())])

    @property
    def slowest(self) -> float:
        """Seconds per microbatch of the slowest stage."""
        return float((self.microbatch / self.data + self.synchronising / self.instance.batch).max())

    @property
    def repeated(self) -> float:
        """Most seconds in which a replica works on all its microbatches but the first."""
        return float(((self.instance.batch // self.data - 1) * self.microbatch).max())

    @cached_property
    def microbatch(self) -> Floats:
        """Seconds of one microbatch on one replica of each stage, shape (stages,)."""
        work = self.instance
        crossing = self.stage[work.graph.tail] != self.stage[work.graph.head]
        start, edge = work.incident
        node = np.repeat(np.arange(work.nodes), np.diff(start))
        at = work.sync_start[self.configuration][node] + np.arange(len(edge)) - start[node]
        outer = crossing[edge]
        moved = 2 * np.concatenate([work.communicated[edge[outer]], work.sync[at[outer]]]) / work.bandwidth
        gathered = self._sums(self.stage, work.gathered[self.configuration])
        stages = np.concatenate([self.stage, np.tile(self.stage[node[outer]], 2)])
        times = self._sums(stages, np.concatenate([work.time[self.configuration], moved]))
        return times + (self.data - 1) * (gathered / self._speed) / self.data

    @cached_property
    def synchronising(self) -> Floats:
        """Seconds in which the replicas of each stage synchronise, once per batch, shape (stages,)."""
        moved = self._sums(self.stage, self.instance.parameters[self.configuration])
        return 4 * (self.data - 1) * (moved / self._speed) / self.data

    @property
    def _speed(self) -> Floats:
        pairs = zip(self.data.tolist(), self.tensor.tolist(), strict=True)
        return np.array([self.instance.speed(data, tensor) for data, tensor in pairs])

    @property
    def fits(self) -> bool:
        """True if the exact memory of every stage is at most the capacity of a device."""
        work, later = self.instance, 0
        for i in range(len(self.data) - 1, -1, -1):
            data = int(self.data[i])
            later += data
            chosen = self.configuration[self.stage == i]
            columns = work.stashed[chosen] * -(-later // data), work.fixed[chosen], work.shared[chosen] / data
            if math.fsum(np.concatenate(columns).tolist()) <= work.capacity * (1 - 1e-12):
                continue
            factors = Fraction(-(-later // data)), Fraction(1), Fraction(1, data)
            columns = work.stashed[chosen], work.fixed[chosen], work.shared[chosen]
            exact = (sum(map(Fraction, column.tolist())) * x for column, x in zip(columns, factors, strict=True))
            if sum(exact) > Fraction(work.capacity):
                return False
        return True

    def _sums(self, stage: Ints | Index, values: Floats) -> Floats:
        """Sums of the values of each stage, correctly rounded, shape (stages,)."""
        order = np.argsort(stage, kind="stable")
        cuts = np.cumsum(np.bincount(stage, minlength=len(self.data)))[:-1]
        return np.array([math.fsum(piece.tolist()) for piece in np.split(values[order], cuts)])
