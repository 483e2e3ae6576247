"""Bounds against costs at the limits of exactness and tolerance."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest

from shardmark.harness.results.claims import contradicts, proves, quotient, relative_gap

HUGE = 10**30


@pytest.mark.parametrize(
    ("bound", "cost", "integral", "expected"),
    [
        (HUGE + 1, HUGE, True, True),  # one too many, far below the resolution of a float
        (HUGE, HUGE, True, False),
        (10.0 * (1 + 2e-9), 10.0, False, True),
        (10.0 * (1 + 5e-10), 10.0, False, False),
        (1e-300, 0.0, False, True),
        (0.0, 0.0, False, False),
    ],
)
def test_contradicts(bound, cost, integral, expected):
    assert contradicts(bound, cost, integral) is expected


@pytest.mark.parametrize(
    ("bound", "cost", "integral", "expected"),
    [
        (HUGE - 1, HUGE, True, False),
        (99.5, 100, True, True),  # no integer between
        (99, 100, True, False),
        (100.0 * (1 - 9e-6), 100.0, False, True),
        (100.0 * (1 - 2e-5), 100.0, False, False),
    ],
)
def test_proves(bound, cost, integral, expected):
    assert proves(bound, cost, integral) is expected


@pytest.mark.parametrize(
    ("part", "whole", "expected"),
    [
        (1, 3, 1 / 3),
        (10**400, 10**399, 10.0),
        (1e308, 1e-308, math.inf),
        (-1e308, 1e-308, -math.inf),
        (5e-324, 1e308, 0.0),
        (Fraction(1, 3), 2, 1 / 6),
    ],
)
def test_quotient(part, whole, expected):
    assert quotient(part, whole) == expected


@pytest.mark.parametrize(
    ("cost", "bound", "expected"),
    [
        (3, 2, 0.5),
        (HUGE + 1, HUGE, 1e-30),  # 0 if rounded before the difference
        (2, 2, 0.0),
        (0, 0, 0.0),
        (-1, 0, 0.0),
        (1, 0, None),
        (1.0, -1.0, None),
        (6, 5e-324, math.inf),
        (1e300, 1e-300, math.inf),
        (1.0, 1e-308, 1e308),
    ],
)
def test_relative_gap(cost, bound, expected):
    assert relative_gap(cost, bound) == expected
