"""Search for the least limit on the times of stages that some chain of stages keeps."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from shardmark.instances.graph import Index
from shardmark.instances.hybrid import Instance
from shardmark.instances.rounding import SMALLEST_FLOAT, safely
from shardmark.solvers._ideals import IdealEnumerator, Ideals, MemoryBudget, listed
from shardmark.solvers.hybrid._kernels import StageProblem, Undecided
from shardmark.solvers.hybrid._stages import Chain
from shardmark.solvers.registry import Run

#: Share of the memory for ideals, and bytes of one with its first link, and of a further link.
SHARE, IDEAL_BYTES, LINK_BYTES = 0.3, 200, 32
#: Relative error of the kernel's claim that no chain keeps a limit; see ``chains/chain.h``.
CLAIM = 1e-12
#: Relative distance below the cost of the best chain of the limit that is refuted last.
STEP = 4e-12
#: Quotient of the limits between which the search goes on just below the best chain.
NEAR = 1.0005
#: First growth of the limit above the simple bound.
FIRST = 1.15


def least(instance: Instance) -> float:
    """Lower bound on the time per sample of the slowest stage."""
    return instance.simple_bound() / (instance.batch if instance.objective == "step" else 1)


def largest(instance: Instance) -> float:
    """Upper bound on the time per sample of every stage."""
    slowest = min(instance.bandwidth, instance.inside or instance.bandwidth)
    moved = 2 * (instance.sync.sum() + instance.communicated[instance.incident[1]].sum())
    moved += 4 * instance.parameters.sum() + instance.gathered.sum()
    return float((instance.time.sum() + moved / slowest) * 2)


def suffixes(instance: Instance, run: Run, stop: Index, other: str) -> Ideals:
    """The sets of nodes of the last stages; Declined, with their number, if memory or time do not suffice."""
    room = MemoryBudget(run.memory, SHARE, IDEAL_BYTES, LINK_BYTES)
    return listed(IdealEnumerator(StageProblem(instance, strict=False).graph, stop), stop, room, other)


@dataclass(eq=False)
class LimitSearch:
    """Bisection over limits on the time per sample of every stage.

    No chain is sought below ``low``; the best one known has the time ``high``.
    ``find(limit)``  a chain that keeps the limit; None if there is none, or if stopped; Undecided if it cannot tell
    ``stop``         shape (1,), int32: ends the search once it is 1
    ``better``       called with each better chain
    ``refuted``      called with each greater lower bound
    """

    find: Callable[[float], Chain | None]
    stop: Index
    low: float
    better: Callable[[Chain], object]
    refuted: Callable[[float], None]
    high: float = math.inf

    def run(self, most: float) -> None:
        """Search until the best chain is proven, or stopped; ``high`` stays infinite if no chain keeps ``most``."""
        self.start(most)
        descend = False
        while math.isfinite(self.high) and not self.stop[0]:
            limit = self._next(descend)
            if not self.low < limit < self.high:
                return
            descend = not (self._try(limit) and descend)

    def start(self, most: float) -> None:
        """Raise the limit from ``low`` until there is some chain."""
        growth, limit = FIRST, min(self.low * FIRST or most, most) or 1.0
        while not self._try(limit) and limit < most and not self.stop[0]:
            growth *= growth
            limit = min(self.low * growth, most)

    def _next(self, descend: bool) -> float:
        if self.low <= 0:
            return max(self.high * 2.0**-20, SMALLEST_FLOAT)
        if self.high > self.low * NEAR or not descend:
            return math.sqrt(self.low) * math.sqrt(self.high)
        return self.high * (1 - STEP)

    def _try(self, limit: float) -> bool:
        """True if a chain keeps the limit; ``low`` or ``high`` is then better."""
        try:
            found = self.find(limit)
        except Undecided:
            self.low = limit  # nothing is refuted, but a greater limit may be easier
            return False
        if found is not None:
            if found.slowest < self.high:
                self.high = found.slowest
                self.better(found)
            self.high = min(self.high, limit)
        elif not self.stop[0]:
            self.low = limit
            self.refuted(safely(limit * (1 - CLAIM), 0))
        return found is not None
