"""Lower bounds that hold although sums in floating point are rounded."""

from __future__ import annotations

from typing import TypeVar

from instances.files.columns import Floats

Bound = TypeVar("Bound", float, Floats)


def safely(bound: Bound, terms: int) -> Bound:
    """A bound that is a sum of so many numbers >= 0, or several bounds, shape (any,), rounded down.

    Added one after the other they come out too great by at most ``terms`` times 2^-53, relatively, and what the referee
    adds up is too small by at most that. Both are taken off, and some more for factors: 1e-12 in any case.
    """
    return bound * (1 - max((terms + 8) * 2.0**-52, 1e-12))
