"""The signed-rank test against scipy, and against all patterns of signs where sizes are equal."""

from __future__ import annotations

from itertools import product
from random import Random
from types import ModuleType

import pytest

from shardmark.leaderboard.explore.wilcoxon import signed_rank


@pytest.fixture(scope="module")
def stats() -> ModuleType:
    """The statistics of scipy, which take a second to import: not in each process that collects tests."""
    from scipy import stats

    return stats


@pytest.mark.thorough(cases=2)
@pytest.mark.parametrize("count", [1, 2, 7, 50, 51, 300])
def test_p_values_are_those_of_scipy(stats: ModuleType, count: int) -> None:
    random = Random(count)
    sample = [random.gauss(0.2, 1) for _ in range(count)]
    method = "exact" if count <= 50 else "approx"
    expected = stats.wilcoxon(sample, method=method, correction=False).pvalue
    assert signed_rank(sample) == pytest.approx(expected, rel=1e-9)


def test_large_samples_with_equal_sizes_are_corrected_as_by_scipy(stats: ModuleType) -> None:
    random = Random(0)
    sample = [0.125 * random.randint(-3, 5) for _ in range(150)]
    expected = stats.wilcoxon([x for x in sample if x], method="approx").pvalue
    assert signed_rank(sample) == pytest.approx(expected, rel=1e-9)


def test_small_samples_with_equal_sizes_are_counted_pattern_by_pattern(stats: ModuleType) -> None:
    sample = [0.5, 0.5, -0.5, 1.0, 2.0, 2.0, -3.0]
    ranks = stats.rankdata([abs(x) for x in sample])
    middle = sum(ranks) / 2
    far = abs(sum(rank for rank, x in zip(ranks, sample, strict=True) if x > 0) - middle)
    sums = [sum(rank for rank, sign in zip(ranks, signs, strict=True) if sign) for signs in product((0, 1), repeat=7)]
    assert signed_rank(sample) == sum(abs(total - middle) >= far for total in sums) / len(sums)


def test_ties_say_nothing() -> None:
    assert signed_rank([]) is None
    assert signed_rank([0.0, 1e-12, -1e-10]) is None
    assert signed_rank([0.0, 0.5, 1e-12]) == 1.0
