"""Branch and bound on the memory payments of variables, until the parts are small enough for CP-SAT.

The gap that messages and prices leave is mostly that of a knapsack: at the best prices, a few variables are split
between values that use little memory and values that use much. Fixing one of them on either side moves the prices, and
messages then rule out most of the rest. Bounds are those of `lagrangian`, in exact integers; CP-SAT solves parts that
are small enough (`exact`).
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable
from functools import partial
from itertools import count
from typing import NamedTuple

import numpy as np

from shardmark.instances.files.columns import Ints
from shardmark.solvers.intraop.cfn.exact import ExactResult, MemoryRowSearch
from shardmark.solvers.intraop.cfn.lagrangian import HARDEST, SOFTEST, WARM, Dual
from shardmark.solvers.intraop.network.model import Mask
from shardmark.solvers.intraop.network.reduced_problem import Problem

#: Largest part for CP-SAT, in allowed values and cells; within a part that ran out of time, half its size.
LARGEST = 4000
#: Seconds for that.
SECONDS = 3.0
#: Last softness in the computation of the first bound.
HARD = 1e-5
#: Targets lie above the bound by the gap to the top divided by these.
DIVISORS = (8, 4, 2, 1)


class Part(NamedTuple):
    """The assignments of a problem within masks of values and cells, if any; they cost at least ``bound``.

    ``number`` breaks ties, latest first. ``multipliers`` are those of the parent, ``gap`` is the parent's gap as a
    fraction of the top, and ``largest`` is the largest size that CP-SAT tries.
    """

    bound: int
    number: int
    problem: Problem
    within: tuple[Mask, Mask] | None
    multipliers: dict[int, float]
    gap: float
    largest: int


def lower_bound(
    problem: Problem,
    multipliers: dict[int, float],
    until: float,
    *,
    seed: int,
    top: Callable[[], int],
    found: Callable[[Problem, Ints], None],
) -> int:
    """Lower bound on the cost of any fitting assignment of a problem, found by a time; ``top`` if none costs less.

    ``top`` returns the cost that a solution must beat, which never rises. ``found`` receives assignments of parts of
    the problem; they need not fit. Targets below the top are tried first, as messages rule out more below them. If
    memory is rounded (`Timeline.exact`), the bound is for the assignments that fit the rounded memory.
    """
    root = Dual(problem, top(), multipliers)
    root.climb(until, hard=HARD)
    bound = root.bound
    for divisor in DIVISORS:
        target = bound - (bound - top()) // divisor  # rounded up
        search = _Search(until, seed, partial(_least, target, top), found)
        bound = max(bound, search.bound(problem, root.multipliers))
        if bound >= top() or bound < target:
            break
    return bound


def _least(target: int, top: Callable[[], int]) -> int:
    return min(target, top())


class _Search:
    """A search below the cost that ``top`` returns; ``settled`` is the least bound of the finished parts."""

    def __init__(self, until: float, seed: int, top: Callable[[], int], found: Callable[[Problem, Ints], None]) -> None:
        self._until, self._seed, self._top, self._found = until, seed, top, found
        self._parts: list[Part] = []
        self._number, self._settled = count(), top()

    def bound(self, problem: Problem, multipliers: dict[int, float]) -> int:
        """The bound of `lower_bound`; parts of least bound come first."""
        self._parts = [Part(0, 0, problem, None, multipliers, 1.0, LARGEST)]
        while self._parts and self._parts[0].bound < self._least and time.monotonic() < self._until:
            self._open(heapq.heappop(self._parts))
        return min([self._least, *(part.bound for part in self._parts[:1])])

    @property
    def _least(self) -> int:
        return min(self._settled, self._top())

    def _open(self, part: Part) -> None:
        """Settle a part, or split it."""
        inside = part.problem if part.within is None else part.problem.restrict(*part.within)
        if inside is None:
            return
        dual = Dual(inside, self._top(), part.multipliers)
        softest = WARM if part.within is None else min(WARM, SOFTEST * part.gap)
        dual.climb(self._until, warm=softest, hard=min(HARD, HARDEST * part.gap))
        left = dual.prune()
        if left is None:
            return
        bound, largest = max(part.bound, dual.bound), part.largest
        if (left.model.sizes == 1).all():
            self._settled = min(self._settled, max(bound, self._only(left, dual.top)))
            return
        if left.allowed <= largest:
            answer = self._solve(left, dual)
            bound, largest = max(bound, dual.top if answer.bound is None else answer.bound), left.allowed // 2
            best = dual.top if answer.value is None else min(dual.top, left.model.cost(answer.value))
            if bound >= best:  # rounded costs can leave a gap between them
                self._settled = min(self._settled, bound)
                return
        else:
            self._found(inside, dual.values())
        gap = (dual.top - dual.bound) / dual.top
        for half in dual.halves(*dual.messages.prune())[1]:
            number = -next(self._number)
            heapq.heappush(self._parts, Part(bound, number, inside, half, dual.multipliers, gap, largest))

    def _only(self, problem: Problem, top: int) -> int:
        """Cost of the only assignment of a problem, the top if it does not fit."""
        value = np.zeros(problem.model.variables, dtype=np.int64)
        self._found(problem, value)
        return problem.model.cost(value) if (problem.overload(value) <= 0).all() else top

    def _solve(self, problem: Problem, dual: Dual) -> ExactResult:
        """Solve the part that a bound leaves by CP-SAT."""
        take, until = partial(self._found, problem), min(self._until, time.monotonic() + SECONDS)
        search = MemoryRowSearch(problem, dual.multipliers)
        answer = search.solve(dual.top, until, seed=self._seed, found=take)
        if answer.value is not None:
            take(answer.value)
        return answer
