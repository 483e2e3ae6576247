"""Index arithmetic on rows of unequal length that lie one after another in a flat array."""

from __future__ import annotations

import numpy as np

from instances.files.columns import Ints


def offsets(counts: Ints) -> Ints:
    """Start of every row, and the total: shape (rows + 1,)."""
    start = np.zeros(len(counts) + 1, dtype=np.int64)
    np.cumsum(counts, out=start[1:])
    return start


def within(counts: Ints) -> Ints:
    """Place of every element in its row: 0..counts[0]-1, 0..counts[1]-1, and so on."""
    start = offsets(counts)
    return np.arange(start[-1]) - np.repeat(start[:-1], counts)


def spread(first: Ints, counts: Ints) -> Ints:
    """The integers first[i]..first[i]+counts[i]-1 of every row i, one after another."""
    start = offsets(counts)
    return np.arange(start[-1]) + np.repeat(first - start[:-1], counts)
