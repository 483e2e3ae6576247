"""The Wilcoxon signed-rank test; `static/wilcoxon.js` computes the same in pages."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable

MOST_EXACT = 50  # differences whose sign patterns are counted; 2^50 patterns are still exact in a float64 of the script
UNIT = 1e-12  # differences are compared as multiples of this: rounding errors of scores are smaller
TIE = 1e-9  # differences up to this are ties


def signed_rank(differences: Iterable[float]) -> float | None:
    """Return the two-sided p value of paired differences of scores; None if all are ties.

    Ties are left out (Wilcoxon's rule) and equal sizes share their mean rank. Up to `MOST_EXACT` differences the
    distribution over all patterns of signs is counted; beyond, it is the normal one with the variance corrected for
    equal sizes, without continuity correction.

    Source: W. J. Conover, Practical Nonparametric Statistics, 3rd edition, 1999, section 5.7.
    """
    units = [round(value / UNIT) for value in differences if abs(value) > TIE]
    if not units:
        return None
    counts = Counter(map(abs, units))
    rank, below = {}, 0  # doubled ranks, which are integers
    for size in sorted(counts):
        rank[size] = 2 * below + counts[size] + 1
        below += counts[size]
    ranks = [rank[abs(unit)] for unit in units]
    positive = sum(rank[unit] for unit in units if unit > 0)
    return _exact(ranks, positive) if len(units) <= MOST_EXACT else _normal(ranks, positive, counts)


def _exact(ranks: list[int], positive: int) -> float:
    """Count the sign patterns whose sum of positive ranks lies at least as far from the middle."""
    total = sum(ranks)
    ways = [1] + [0] * total
    for rank in ranks:
        for amount in range(total, rank - 1, -1):
            ways[amount] += ways[amount - rank]
    tail = sum(ways[: min(positive, total - positive) + 1])
    return min(1.0, 2 * tail / 2 ** len(ranks))


def _normal(ranks: list[int], positive: int, counts: Counter[int]) -> float:
    n = len(ranks)
    variance = n * (n + 1) * (2 * n + 1) / 24 - sum(count**3 - count for count in counts.values()) / 48
    z = (positive / 2 - n * (n + 1) / 4) / math.sqrt(variance)
    return math.erfc(abs(z) / math.sqrt(2))
