"""Whole weights of items, which the sizes of the items that a device can hold imply."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from shardmark.instances.files.columns import Floats
from shardmark.solvers.native import Longs

#: Most weight that a device can hold: states count it.
MOST = 64
#: Units are larger, and weights smaller, by this part, so that rounding only makes weights too small.
ABOVE, BELOW = 1 + 4e-9, 1 - 1e-9


@dataclass(frozen=True, eq=False)
class Weights:
    """Sizes in a ``unit``, rounded down: ``of`` each item, shape (items,), and ``most`` in a set; all 0 if unused."""

    of: Longs
    most: int
    unit: float


def weights(size: Floats, room: float) -> Weights:
    """Weights of which a set has q at most if the unit is just above the room divided by q + 1.

    Of all q, the one is taken for which all items weigh most, as a share of q.
    """
    units = [(most, room / (most + 1) * ABOVE) for most in range(1, MOST + 1)]
    found = [Weights(_rounded(size, unit), most, unit) for most, unit in units]
    return max(found, key=lambda weights: float(weights.of.sum()) / weights.most)


def _rounded(size: Floats, unit: float) -> Longs:
    return np.minimum(np.floor(size / unit * BELOW), 2 * MOST).astype(np.int64)


def no_weights(items: int) -> Weights:
    """Weights that bind nowhere."""
    return Weights(np.zeros(items, dtype=np.int64), 0, 0.0)
