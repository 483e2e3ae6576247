"""Safe rounding of lower bounds that are sums of floats."""

from __future__ import annotations

from typing import TypeVar

from shardmark.instances.files.columns import Floats

#: Least positive float64.
SMALLEST_FLOAT = 2.0**-1074

Bound = TypeVar("Bound", float, Floats)


def safely(bound: Bound, terms: int) -> Bound:
    """Round down a bound, or an array of bounds, that sums ``terms`` numbers >= 0; at least 0.

    Sequential summation overestimates by a relative ``terms`` times 2^-53 at most, and the referee's sum may be too
    small by as much. Both are subtracted, plus a margin for factors, at least 1e-12 in all. Below the normal range of
    float64, a factor or divisor may be off by half of the least number.
    """
    lowered = bound * (1 - max((terms + 8) * 2.0**-52, 1e-12)) - (terms + 8) * SMALLEST_FLOAT
    return abs((lowered > 0) * lowered)
