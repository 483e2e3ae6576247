"""Runs that end by themselves have all the time that they need."""

from __future__ import annotations

import pytest

from solvers.registry import LocalRun

AMPLE_S = 250.0  # less than a test may take


@pytest.fixture(autouse=True)
def ample_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run whose test names no limit has more time than a busy machine needs, instead of 10 s."""
    monkeypatch.setitem(LocalRun.__init__.__kwdefaults__, "timeout", AMPLE_S)
