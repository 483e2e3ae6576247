"""Bounds against costs, at the very edge."""

from __future__ import annotations

import pytest

from harness.results.claims import contradicts, proves

HUGE = 10**30


@pytest.mark.parametrize(
    ("bound", "cost", "integral", "expected"),
    [
        (HUGE + 1, HUGE, True, True),  # one too many, far beyond what a float can tell
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
