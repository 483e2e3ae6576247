"""Costs against bounds: exact between integers, with a stated tolerance between floats."""

from __future__ import annotations

import math
from fractions import Fraction

Number = int | float | Fraction

#: Two float costs, or a float cost and a bound, that differ relatively by no more than this count as equal.
TOLERANCE = Fraction(1, 10**9)
#: A float bound this close below a cost, relatively, proves the cost optimal: the bounds of mixed-integer programs are
#: lowered by about a millionth for the solvers' own tolerances, so nothing closer can be asked for.
PROVEN = Fraction(1, 10**5)


def contradicts(bound: Number, cost: Number, integral: bool) -> bool:
    """Whether a lower bound lies above a verified cost."""
    slack = Fraction(0) if integral else TOLERANCE * abs(Fraction(cost))
    return Fraction(bound) > Fraction(cost) + slack


def proves(bound: Number, cost: Number, integral: bool) -> bool:
    """Whether a lower bound leaves no room below a cost: less than 1 for integers, a relative 1e-5 for floats."""
    room = Fraction(cost) - Fraction(bound)
    return room < 1 if integral else room <= PROVEN * abs(Fraction(cost))


def gap(cost: int | float | None, bound: int | float | None) -> float | None:
    """cost / bound - 1: how far from the optimum the cost can be at most; None if that says nothing.

    0 if the bound proves the cost optimal; any remaining difference is rounding or solver tolerance.
    """
    if cost is None or bound is None:
        return None
    if cost <= bound or proves(bound, cost, isinstance(cost, int)):
        return 0.0
    ratio = cost / bound if bound > 0 else math.inf
    return ratio - 1 if math.isfinite(ratio) else None


def optimal(cost: int | float | None, bound: int | float | None) -> bool | None:
    """Whether a lower bound proves a verified cost optimal, and is not above it; None without a cost."""
    if cost is None:
        return None
    integral = isinstance(cost, int)
    return bound is not None and proves(bound, cost, integral) and not contradicts(bound, cost, integral)
