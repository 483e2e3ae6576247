"""Branch and bound on what variables pay for memory, for the last costs that HiGHS's tolerances leave open.

A bound of HiGHS's is lowered by a millionth of the reduced costs (`floating_point`), which leaves a few costs below a
solution open. The problem is split until the Lagrangian bound of each part is near enough: its reduced costs are small.
"""

from __future__ import annotations

import time

import numpy as np

from solvers.intraop.cfn.lagrangian import Dual
from solvers.intraop.cfn.relaxation import HARD, solve
from solvers.intraop.network.model import Mask
from solvers.intraop.network.reduced_problem import Problem
from solvers.intraop.programs.floating_point import RELATIVE_TOLERANCE

#: Costs that the tolerances may leave open in a part: less than 1, as costs are integers.
LEFT_OPEN = 0.9
#: Values within this fraction of a part's gap above the cheapest of their variable are candidates for its optimum.
NEAR = 0.1


def nothing_below(top: int, problem: Problem | None, multipliers: dict[int, float], until: float, *, seed: int) -> bool:
    """Return True if no assignment of a problem costs less than ``top``; False if one may, or if time is up first."""
    parts = [(problem, multipliers)]
    while parts:
        problem, multipliers = parts.pop()
        if problem is None:
            continue
        if time.monotonic() >= until:
            return False
        part = Dual(problem, top, multipliers)
        part.climb(until, hard=HARD)
        left = part.prune()
        if left is None:
            continue
        if RELATIVE_TOLERANCE * (top - part.bound) < LEFT_OPEN:
            answer = solve(left, top, part.multipliers, until, seed=seed, found=lambda _: None)
            if not answer.done or (answer.bound is not None and answer.bound < top):
                return False
            continue
        if (left.model.sizes == 1).all():
            return False
        parts += [(half, part.multipliers) for half in _halves(part)]
    return True


def _halves(part: Dual) -> list[Problem | None]:
    """Split a problem by the values of one variable: those that pay little for memory, and the others."""
    values, cells = part.messages.prune(part.messages.top)
    return [part.problem.restrict(values & ~rows, cells) for rows in _by_memory(part, values)]


def _by_memory(part: Dual, values: Mask) -> tuple[Mask, Mask]:
    """Return masks of the values of one variable that pay little for memory, and of those that pay much.

    The variable is that whose candidates differ most in what they pay; of equal ones, that with most values.
    """
    model, reduced, price = part.problem.model, part.messages.state[0], part.price()
    starts, variable = model.start[:-1], part.problem.variable
    gap = part.messages.top - part.messages.bound
    near = values & (reduced - np.minimum.reduceat(reduced, starts)[variable] < NEAR * gap)
    most = np.maximum.reduceat(np.where(near, price, -1), starts)
    least = np.minimum.reduceat(np.where(near, price, np.iinfo(np.int64).max), starts)
    count = np.add.reduceat(values.astype(np.int64), starts)
    chosen = int(np.lexsort((count, np.where(count > 1, np.maximum(most - least, 0), -1)))[-1])
    own = values & (variable == chosen)
    dear = own & (price > (most[chosen] + least[chosen]) // 2)
    if not dear.any() or (dear == own).all():
        rows = np.flatnonzero(own)
        dear = np.zeros_like(own)
        dear[rows[len(rows) // 2 :]] = True
    return own & ~dear, dear
