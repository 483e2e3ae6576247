"""Searching topological orders: decode node priorities, keep the best slicing, report it when it improves."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from functools import partial
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from shardmark.instances.graph import Index
from shardmark.instances.pipeline import Instance
from shardmark.solvers.native import Floats, kahn
from shardmark.solvers.pipeline._kernels import PipelineCore, Slicing
from shardmark.solvers.registry import Run

Result = TypeVar("Result")

#: Costs with a smaller relative difference are equal: the referee's rounding may differ.
TOLERANCE = 1e-9

#: Nodes times rows per call of the core: enough to hide the overhead of a call, few enough to stop in time.
BATCH = 20_000

#: Parts of a batch per core, so that no core waits long for the others.
PARTS = 4


class Search:
    """The best slicing of all orders so far, within a ``share`` of the remaining time.

    ``cost``    its cost, infinite before the first
    ``order``   its order, shape (n,), int32
    ``cut``     its cuts, as in `Slicing`
    ``target``  a slicing is better if it costs less than this
    ``memory``  MiB that the run may take
    ``pool``    as many threads as the run has cores; the core computes without the interpreter lock
    """

    def __init__(self, instance: Instance, run: Run, share: float = 1.0) -> None:
        self.instance = instance
        self.core = PipelineCore(instance)
        self.cost = self.target = math.inf
        self.order = self.cut = np.empty(0, dtype=np.int32)
        self.rows = max(1, BATCH // max(1, instance.nodes))
        self.memory = run.memory
        self.pool = ThreadPoolExecutor(run.cores)
        self._run = run
        self._deadline = time.monotonic() + share * run.remaining()
        self._slowest = self._reporting = 0.0

    def over(self) -> bool:
        """True if nothing better exists (Lemma 3.3), or another batch like the slowest could pass the deadline."""
        return self.optimal() or self.remaining() == 0.0

    def remaining(self) -> float:
        """Seconds left, less twice the time of the slowest batch so far, for safety."""
        return max(0.0, self._left() - 2.0 * self._slowest)

    def extend(self, share: float) -> None:
        """Let the search last for a share of the time remaining now."""
        self._deadline = time.monotonic() + share * self._run.remaining()

    def optimal(self) -> bool:
        """True if the best slicing meets the bound of Lemma 3.3."""
        return self.target <= self.instance.work_bound()

    def decode(self, priorities: Floats, upper: float) -> Floats:
        """Costs of a batch of priorities, shape (rows, n); infinite if not below ``upper``. Reports the best."""
        self.begin()
        began = time.monotonic()
        if len(priorities) == 1:
            slicing = self.offer_order(kahn(self.instance.graph, priorities[0]), upper)
            costs = np.array([slicing.cost if slicing else math.inf])
        else:
            costs = self._batch(lambda rows: self.core.decode(rows, upper), priorities, self._left())
            if costs.min() < self.target:
                self.offer(priorities[np.argmin(costs)])
        self._slowest = max(self._slowest, time.monotonic() - began)
        return costs

    def arrange(self, priorities: Floats, *, weighted: bool) -> Floats:
        """Lengths of the orders of a batch of priorities, shape (rows, n), as linear arrangements; reports nothing."""
        began = time.monotonic()
        lengths = self._batch(lambda rows: self.core.arrange(rows, weighted=weighted), priorities, self.remaining())
        self._slowest = max(self._slowest, time.monotonic() - began)
        return lengths

    def _batch(self, function: Callable[[Floats], Floats], rows: Floats, seconds: float) -> Floats:
        """Results of a function of the core for each row, on all cores; cut short after ``seconds``."""
        parts = np.array_split(rows, min(PARTS * self._run.cores, len(rows)))
        return np.concatenate(self._timed([partial(function, part) for part in parts], seconds))

    def _timed(self, calls: list[Callable[[], Result]], seconds: float) -> list[Result]:
        """Results of calls of the core, which is stopped after ``seconds``."""
        futures = [self.pool.submit(call) for call in calls]
        late = wait(futures, timeout=seconds).not_done
        self.core.stop[0] = bool(late)
        try:
            return [future.result() for future in futures]
        finally:
            self.core.stop[0] = 0

    def _left(self) -> float:
        """Seconds until the core must stop, so that what it has found can be reported."""
        return max(0.0, self._deadline - time.monotonic() - 3.0 * self._reporting)

    def begin(self) -> None:
        """First report nearly equal cuts of some order if slicing one optimally could take long."""
        if self.instance.nodes <= BATCH or self.cost < math.inf:
            return
        began = time.monotonic()
        order = self.instance.graph.topological_order
        self.core.stop[0] = 1
        slicing = self.core.slice(order)
        self.core.stop[0] = 0
        assert slicing is not None  # only a slicing below an upper limit can be missing
        self._take(order, slicing)
        self._reporting = time.monotonic() - began

    def time_slicing(self) -> None:
        """Slice some order without reporting it, to measure the time; for at most a third of the time."""
        self.begin()
        began = time.monotonic()
        self._timed([partial(self.core.slice, self.instance.graph.topological_order, self.target)], self._left() / 3)
        self._slowest = max(self._slowest, time.monotonic() - began)

    def offer(self, priority: ArrayLike) -> None:
        """Slice the order of one vector of priorities, and report the slicing if it is better than all before."""
        self.offer_order(kahn(self.instance.graph, priority))

    def offer_order(self, order: Index, upper: float = -math.inf) -> Slicing | None:
        """Slice a topological order, shape (n,), int32, and report the slicing if it is better than all before.

        Returns the slicing if it is better or costs less than ``upper``.
        """
        (slicing,) = self._timed([partial(self.core.slice, order, max(upper, self.target))], self._left())
        if slicing is not None and slicing.cost < self.target:
            self._take(order, slicing)
        return slicing

    def offer_slicing(self, order: Index, slicing: Slicing) -> None:
        """Offer an order with some slicing: sliced optimally or, if time does not suffice, as it is."""
        self.offer_order(order)
        if slicing.cost < self.target:
            self._take(order, slicing)

    def _take(self, order: Index, slicing: Slicing) -> None:
        self.order, self.cut = order, slicing.cut
        self.cost, self.target = slicing.cost, slicing.cost * (1 - TOLERANCE)
        self._run.report(_solution(self.instance, order, slicing))


def stage_numbers(order: Index, slicing: Slicing) -> Index:
    """Stage number of each node, shape (n,), int32: 0, 1, ... along the order."""
    stage = np.empty(len(order), dtype=np.int32)
    stage[order] = np.repeat(np.arange(len(slicing.cut) - 1, dtype=np.int32), np.diff(slicing.cut))
    return stage


def _solution(instance: Instance, order: Index, slicing: Slicing) -> Any:
    """A slicing as the track's JSON, with the execution order if there is a memory limit."""
    stage = stage_numbers(order, slicing).tolist()
    return stage if instance.memory is None else {"block": stage, "order": order.tolist()}
