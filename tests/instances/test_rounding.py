"""Bounds compared with exact sums."""

from __future__ import annotations

import math
import random
from itertools import accumulate

import numpy as np
import pytest

from shardmark.instances.rounding import safely


@pytest.mark.parametrize("terms", [1, 10, 10_000, 1_000_000])
def test_a_sum_one_after_the_other_is_no_more_than_one_the_other_way_round(terms: int) -> None:
    draw = random.Random(terms)
    for value in (0.1, draw.random(), 1e-9 * draw.random()):
        numbers = [3.0, *[value] * (terms - 1)]
        (*_, up), (*_, down) = accumulate(numbers), accumulate(numbers[::-1])
        least = min(up, down, math.fsum(numbers))
        assert least * (1 - max(terms, 10_000) * 1e-15) <= safely(max(up, down), terms) <= least


def test_several_bounds_at_once() -> None:
    assert safely(np.array([0.0, 1.0]), 5).tolist() == [0.0, 1 - 1e-12]
