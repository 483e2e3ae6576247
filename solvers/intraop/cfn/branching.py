"""Branch and bound on what variables pay for memory, until what is left is small enough for CP-SAT.

What messages and prices leave open is mostly the gap of a knapsack: at the best prices a few variables are split
between values that use little memory and values that use much. Fixing one of them on either side moves the prices, and
messages then rule out most of the rest. Bounds are those of `lagrangian`, exact integers; parts that become small are
solved by CP-SAT (`exact`).
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable
from functools import partial
from itertools import count
from typing import NamedTuple

import numpy as np

from instances.files.columns import Ints
from solvers.intraop.cfn.exact import ExactResult, MemoryRowSearch
from solvers.intraop.cfn.lagrangian import WARM, Dual
from solvers.intraop.network.model import Mask
from solvers.intraop.network.reduced_problem import Problem

#: Largest part that CP-SAT solves, in allowed values and cells; half of one that ran out of time, in its own parts.
LARGEST = 4000
#: Seconds for that.
SECONDS = 3.0
#: Last softness of the first bound.
HARD = 1e-5
#: First and last softness of a part's bound, as multiples of its parent's gap: memory that binds only slightly loses
#: its price if the first is larger.
SOFTEST, HARDEST = 10.0, 0.02
#: Targets lie above the bound by the gap to the top divided by these.
DIVISORS = (8, 4, 2, 1)
#: Least weight of all values of a variable together, to divide by.
LEAST_WEIGHT = 1e-300


class Part(NamedTuple):
    """Assignments of a problem that cost at least ``bound``: those within masks of values and cells, if there are any.

    ``number`` breaks ties, the latest first. ``multipliers`` are those of the parent, and ``gap`` is what it left open,
    as a fraction of the top; ``largest`` is the size of a part that CP-SAT tries.
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
    """Lower bound on the cost of any assignment of a problem that fits, found until a time; ``top`` if none costs less.

    ``top`` returns the cost that a solution must beat, which only falls. ``found`` receives assignments of parts of the
    problem, which need not fit. Targets below the top come first: messages rule out more below them. If memory is
    rounded (`Timeline.exact`), what is bounded are the assignments that fit it as rounded.
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
    """A search below the cost that ``top`` returns; ``settled`` is the least bound of parts that need no splitting."""

    def __init__(self, until: float, seed: int, top: Callable[[], int], found: Callable[[Problem, Ints], None]) -> None:
        self._until, self._seed, self._top, self._found = until, seed, top, found
        self._parts: list[Part] = []
        self._number, self._settled = count(), top()

    def bound(self, problem: Problem, multipliers: dict[int, float]) -> int:
        """The bound of `lower_bound`, from the part of least bound on."""
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
            if bound >= best:  # rounded costs may leave something open between them
                self._settled = min(self._settled, bound)
                return
        else:
            self._found(inside, dual.values())
        gap = (dual.top - dual.bound) / dual.top
        for half in _halves(dual):
            number = -next(self._number)
            heapq.heappush(self._parts, Part(bound, number, inside, half, dual.multipliers, gap, largest))

    def _only(self, problem: Problem, top: int) -> int:
        """Cost of the only assignment of a problem, the top if it does not fit."""
        value = np.zeros(problem.model.variables, dtype=np.int64)
        self._found(problem, value)
        return problem.model.cost(value) if (problem.overload(value) <= 0).all() else top

    def _solve(self, problem: Problem, dual: Dual) -> ExactResult:
        """Solve what a bound leaves by CP-SAT."""
        take, until = partial(self._found, problem), min(self._until, time.monotonic() + SECONDS)
        search = MemoryRowSearch(problem, dual.multipliers)
        answer = search.solve(dual.top, until, seed=self._seed, found=take)
        if answer.value is not None:
            take(answer.value)
        return answer


def _halves(dual: Dual) -> list[tuple[Mask, Mask]]:
    """Values and cells below the top, split by the values of one variable: those that pay little for memory, and more.

    The variable is that whose payment varies most under the weights of the last softened messages.
    """
    values, cells = dual.messages.prune()
    model, variable = dual.problem.model, dual.problem.variable
    starts, price = model.start[:-1], dual.price().astype(np.float64)
    weight = np.where(values, dual.weights(), 0.0)
    weight /= np.maximum(np.add.reduceat(weight, starts), LEAST_WEIGHT)[variable]
    mean = np.add.reduceat(weight * price, starts)
    variance = np.add.reduceat(weight * (price - mean[variable]) ** 2, starts)
    several = np.add.reduceat(values.astype(np.int64), starts) > 1
    chosen = int(np.argmax(np.where(several, variance, -1.0)))
    own = values & (variable == chosen)
    more = own & (price > mean[chosen])
    if not more.any() or (more == own).all():  # they pay the same: the likeliest value, and the others
        rows = np.flatnonzero(own)
        more = own.copy()
        more[rows[np.argmax(weight[rows])]] = False
    return [(values & ~(own & more), cells), (values & ~(own & ~more), cells)]
