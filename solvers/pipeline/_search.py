"""Searching topological orders: decode node priorities, keep the best slicing, report it when it improves."""

from __future__ import annotations

import math
import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from instances.graph import Index
from instances.pipeline import Instance
from solvers.native import PipelineCore, Slicing, kahn
from solvers.registry import Run

Floats = NDArray[np.float64]

#: Costs that differ by less than this, relatively, are equal: the referee's rounding may differ.
TOLERANCE = 1e-9

#: Nodes times rows of one call of the core: long enough to hide the call, short enough to stop in time.
BATCH = 20_000


class Search:
    """The best slicing of any order seen so far.

    ``cost``    its cost, infinite before the first
    ``target``  what a slicing must cost less than to be better
    """

    def __init__(self, instance: Instance, run: Run) -> None:
        self.core = PipelineCore(instance)
        self.cost = self.target = math.inf
        self.rows = max(1, BATCH // max(1, instance.nodes))
        self._instance = instance
        self._run = run
        self._slowest = 0.0

    def over(self) -> bool:
        """Whether nothing better exists (Lemma 3.3), or another batch like the slowest could pass the deadline."""
        return self.target <= self._instance.work_bound() or self._run.remaining() <= 2.0 * self._slowest

    def decode(self, priorities: Floats, upper: float) -> Floats:
        """Costs of a batch of priorities, shape (rows, n); infinite where not below ``upper``. Reports the best."""
        began = time.monotonic()
        costs = self.core.decode(priorities, upper)
        if costs.min() < self.target:
            self.offer(kahn(self._instance.graph, priorities[np.argmin(costs)]))
        self._slowest = max(self._slowest, time.monotonic() - began)
        return costs

    def offer(self, order: Index) -> None:
        """Slice ``order``, and report the slicing if it is better than all before."""
        slicing = self.core.slice(order, self.target)
        if slicing is not None:
            self.cost, self.target = slicing.cost, slicing.cost * (1 - TOLERANCE)
            self._run.report(solution(self._instance, order, slicing))


def solution(instance: Instance, order: Index, slicing: Slicing) -> Any:
    """A slicing as the track's JSON: block numbers, with the execution order where memory makes it matter."""
    block = np.empty(instance.nodes, dtype=np.int32)
    block[order] = np.repeat(np.arange(len(slicing.cut) - 1, dtype=np.int32), np.diff(slicing.cut))
    if instance.memory is None:
        return block.tolist()
    return {"block": block.tolist(), "order": order.tolist()}
