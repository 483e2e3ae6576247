"""Lower bounds that hold although sums in floating point are rounded."""

from __future__ import annotations

from typing import TypeVar

from instances.files.columns import Floats

#: The least number above 0.
LEAST = 2.0**-1074

Bound = TypeVar("Bound", float, Floats)


def safely(bound: Bound, terms: int) -> Bound:
    """A bound that is a sum of so many numbers >= 0, or several bounds, shape (any,), rounded down, 0 at least.

    Added one after the other they come out too great by at most ``terms`` times 2^-53, relatively, and what the referee
    adds up is too small by at most that. Both are taken off, and some more for factors: 1e-12 in any case. Below the
    normal range of float64 a factor or divisor may be off by half of the least number there is.
    """
    lowered = bound * (1 - max((terms + 8) * 2.0**-52, 1e-12)) - (terms + 8) * LEAST
    return abs((lowered > 0) * lowered)
