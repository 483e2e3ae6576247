"""Costs against bounds: exact between integers, with a stated tolerance between floats."""

from __future__ import annotations

import math
from fractions import Fraction

Number = int | float | Fraction

#: Two float costs, or a float cost and a bound, that differ relatively by no more than this count as equal.
TOLERANCE = Fraction(1, 10**9)
#: A float bound this close below a cost, relatively, proves the cost optimal: the bounds of mixed-integer programs are
#: lowered by about a millionth for the solvers' own tolerances, so nothing tighter can be required.
PROVEN = Fraction(1, 10**5)


def contradicts(bound: Number, cost: Number, integral: bool) -> bool:
    """Return True if a lower bound lies above a verified cost."""
    slack = Fraction(0) if integral else TOLERANCE * abs(Fraction(cost))
    return Fraction(bound) > Fraction(cost) + slack


def proves(bound: Number, cost: Number, integral: bool) -> bool:
    """Return True if a bound proves a cost optimal: less than 1 below it for integers, a relative 1e-5 for floats."""
    room = Fraction(cost) - Fraction(bound)
    return room < 1 if integral else room <= PROVEN * abs(Fraction(cost))


def quotient(part: Number, whole: Number) -> float:
    """Return ``part / whole``, rounded once, infinite beyond float64; ZeroDivisionError if ``whole`` is 0."""
    exact = Fraction(part) / Fraction(whole)
    try:
        return float(exact)
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


def relative_gap(cost: Number, bound: Number) -> float | None:
    """Return cost / bound - 1, 0 if the bound reaches the cost, infinite beyond float64; None for a bound up to 0."""
    if cost <= bound:
        return 0.0
    return quotient(Fraction(cost) - Fraction(bound), bound) if bound > 0 else None


def gap(cost: int | float | None, bound: int | float | None) -> float | None:
    """Return the greatest possible gap of a cost to the optimum, see `relative_gap`; None without cost or bound.

    0 if the bound proves the cost optimal: any remaining difference is rounding or solver tolerance.
    """
    if cost is None or bound is None:
        return None
    return 0.0 if proves(bound, cost, isinstance(cost, int)) else relative_gap(cost, bound)


def optimal(cost: int | float | None, bound: int | float | None) -> bool | None:
    """Return True if a lower bound proves a verified cost optimal, and is not above it; None without a cost."""
    if cost is None:
        return None
    integral = isinstance(cost, int)
    return bound is not None and proves(bound, cost, integral) and not contradicts(bound, cost, integral)
