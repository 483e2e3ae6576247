"""Costs against bounds: exact between integers, with a stated tolerance between floats."""

from __future__ import annotations

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
