"""Random numbers that are the same on every machine, made from the raw 64-bit stream of PCG64 only.

NumPy promises that this stream never changes; the streams of its distributions may, from version to version.
"""

from __future__ import annotations

from statistics import NormalDist

import numpy as np

from shardmark.instances.files.columns import Floats, Ints


class Draws:
    """A seeded source of uniform and normal numbers, integers and permutations."""

    def __init__(self, seed: int) -> None:
        self._bits = np.random.PCG64(seed)

    def uniform(self, size: int) -> Floats:
        """Numbers strictly between 0 and 1, multiples of 2^-53, shape (size,)."""
        return ((self._bits.random_raw(size) >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52

    def integers(self, low: int, high: int, size: int) -> Ints:
        """Integers from ``low`` to ``high - 1``, shape (size,)."""
        return low + (self.uniform(size) * (high - low)).astype(np.int64)

    def normal(self, mean: float, deviation: float, size: int) -> Floats:
        """Normally distributed numbers, shape (size,)."""
        inverse = NormalDist().inv_cdf
        return np.array([mean + inverse(u) * deviation for u in self.uniform(size).tolist()])

    def permutation(self, size: int) -> Ints:
        """The numbers 0 to ``size - 1`` in a random order."""
        return np.argsort(self.uniform(size), kind="stable")

    def factors_around_one(self, spread: float, size: int) -> Floats:
        """Factors from ``1 - spread`` to ``1 + spread``, shape (size,), as the scatter of measured costs."""
        return 1 + spread * (2 * self.uniform(size) - 1)
