"""Runs that end by themselves have all the time that they need; an engine whose numbers are wrong."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

from shardmark.solvers.registry import LocalRun

AMPLE_S = 250.0  # less than a test may take


@pytest.fixture(autouse=True)
def ample_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run whose test names no limit has more time than a busy machine needs, instead of 10 s."""
    monkeypatch.setitem(LocalRun.__init__.__kwdefaults__, "timeout", AMPLE_S)


@pytest.fixture
def lying_glop(monkeypatch: pytest.MonkeyPatch) -> Callable[[np.random.Generator, float], list[float]]:
    """Return a function that lets GLOP lie; see `lie`."""
    return partial(lie, monkeypatch)


def lie(monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator, share: float) -> list[float]:
    """Let GLOP give wrong values of columns and rows, a ``share`` of them; return the list that they are noted in.

    Some are off a little or much, of the wrong sign, huge, infinite or NaN: what is computed from them has to hold all
    the same.
    """
    from ortools.linear_solver import pywraplp

    told: list[float] = []

    def wrong(value: float) -> float:
        draws: list[Callable[[], float]] = [
            lambda: value * (1 + 1e-6 * rng.normal()),
            lambda: value + rng.normal(),
            lambda: -value,
            lambda: float(rng.normal() * 10.0 ** rng.integers(-12, 12)),
            lambda: float(rng.choice([math.nan, math.inf, -math.inf, 1e300, 0.0])),
        ]
        kind = rng.choice(len(draws), p=[0.3, 0.3, 0.2, 0.15, 0.05])
        told.append(draws[kind]())
        return told[-1]

    def patch(of: type, name: str) -> None:
        right = getattr(of, name)

        def maybe(self: Any) -> float:
            value = float(right(self))
            return wrong(value) if rng.random() < share else value

        monkeypatch.setattr(of, name, maybe)

    patch(pywraplp.Variable, "solution_value")
    patch(pywraplp.Constraint, "dual_value")
    return told
