"""Costs against bounds: exact between integers, with a stated tolerance between floats."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

Number = int | float | Fraction

#: Two float costs, or a float cost and a bound, that differ relatively by no more than this count as equal.
TOLERANCE = Fraction(1, 10**9)
#: A float bound this close below a cost, relatively, proves the cost optimal: the bounds of mixed-integer programs are
#: lowered by about a millionth for the solvers' own tolerances, so nothing tighter can be required.
PROVEN = Fraction(1, 10**5)


def _exact(value: Number) -> Any:
    """Return the exact value of a number; an integer stays one, as its arithmetic is many times as fast."""
    return Fraction(value) if isinstance(value, float) else value


def _within(excess: Any, share: Fraction, whole: Any) -> bool:
    """Return True if ``excess`` is at most a share of the absolute value of a number."""
    return bool(excess * share.denominator <= abs(whole) * share.numerator)


def contradicts(bound: Number, cost: Number, integral: bool) -> bool:
    """Return True if a lower bound lies above a verified cost."""
    bound, cost = _exact(bound), _exact(cost)
    return bool(bound > cost) if integral else not _within(bound - cost, TOLERANCE, cost)


def proves(bound: Number, cost: Number, integral: bool, unit: int = 1) -> bool:
    """Return True if a bound proves a cost optimal: less than 1 below it for integers, a relative 1e-5 for floats.

    ``unit`` is the value that counts as 1, of numbers that were multiplied by it.
    """
    bound, cost = _exact(bound), _exact(cost)
    return bool(cost - bound < unit) if integral else _within(cost - bound, PROVEN, cost)


def quotient(part: Number, whole: Number) -> float:
    """Return ``part / whole``, rounded once, infinite beyond float64; ZeroDivisionError if ``whole`` is 0."""
    part, whole = _exact(part), _exact(whole)
    try:
        return float(part / whole)  # division of integers rounds once too
    except OverflowError:
        return math.inf if (part > 0) == (whole > 0) else -math.inf


def relative_gap(cost: Number, bound: Number) -> float | None:
    """Return cost / bound - 1, 0 if the bound reaches the cost, infinite beyond float64; None for a bound up to 0."""
    if cost <= bound:
        return 0.0
    return quotient(_exact(cost) - _exact(bound), bound) if bound > 0 else None


def excess(cost: int | float | None, best: int | float | None) -> float | None:
    """Return cost / best - 1 of two verified or published costs, 0 if they count as equal; None if one is missing or 0.

    It is negative if the first cost is the better one.
    """
    if cost is None or best is None:
        return None
    integral = isinstance(cost, int) and isinstance(best, int)
    if not contradicts(cost, best, integral) and not contradicts(best, cost, integral):
        return 0.0
    return quotient(_exact(cost) - _exact(best), best) if best > 0 else None


def gap(cost: Number | None, bound: Number | None) -> float | None:
    """Return the greatest possible gap of a cost to the optimum, see `relative_gap`; None without cost or bound.

    0 if the bound proves the cost optimal: any remaining difference is rounding or solver tolerance.
    """
    if cost is None or bound is None:
        return None
    return 0.0 if proves(bound, cost, isinstance(cost, int)) else relative_gap(cost, bound)


def optimal(cost: Number | None, bound: Number | None) -> bool | None:
    """Return True if a lower bound proves a verified cost optimal, and is not above it; None without a cost."""
    if cost is None:
        return None
    integral = isinstance(cost, int)
    return bound is not None and proves(bound, cost, integral) and not contradicts(bound, cost, integral)
