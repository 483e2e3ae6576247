"""Index arithmetic on rows of unequal length, stored consecutively in a flat array."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from shardmark.instances.files.columns import Floats, Ints

Numbers = TypeVar("Numbers", Ints, Floats)


def offsets(counts: Ints) -> Ints:
    """Start of each row, then the total: shape (rows + 1,)."""
    start = np.zeros(len(counts) + 1, dtype=np.int64)
    np.cumsum(counts, out=start[1:])
    return start


def within(counts: Ints) -> Ints:
    """Index of each element in its row: 0..counts[0]-1, 0..counts[1]-1, and so on."""
    start = offsets(counts)
    return np.arange(start[-1]) - np.repeat(start[:-1], counts)


def spread(first: Ints, counts: Ints) -> Ints:
    """The integers first[i]..first[i]+counts[i]-1 of each row i, concatenated."""
    start = offsets(counts)
    return np.arange(start[-1]) + np.repeat(first - start[:-1], counts)


def argmin(flat: NDArray, start: Ints) -> Ints:
    """Index within its row of the least number of each row ``start[i]:start[i + 1]``, the first of equals."""
    order = np.lexsort((flat, np.repeat(np.arange(len(start) - 1), np.diff(start))))
    return order[start[:-1]] - start[:-1]


def interval_sums(number: Numbers, begin: Ints, end: Ints, steps: int) -> Numbers:
    """Sum, shape (steps,), at each step t of the numbers whose interval [begin, end) contains t."""
    change = np.zeros(steps + 1, dtype=number.dtype)
    np.add.at(change, begin, number)
    np.add.at(change, end, -number)
    sums: Numbers = np.cumsum(change)[:-1]
    return sums
