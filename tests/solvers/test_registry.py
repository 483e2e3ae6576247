"""What the decorators make of a function: names and parameters."""

from __future__ import annotations

import math
from typing import Any

import pytest

from solvers import registry
from solvers.registry import Solver, solver


@pytest.fixture
def declared(monkeypatch: pytest.MonkeyPatch) -> list[Solver]:
    """What is declared from here on, forgotten at the end."""
    made: list[Solver] = []
    monkeypatch.setattr(registry, "_declared", made)
    return made


def method(
    instance: Any, run: Any, share: float = 0.5, *, tries: int = 3, mode: str = "all", most: float = math.inf
) -> None:
    """Do nothing."""


def test_parameters_are_the_defaults_that_can_be_shown_and_set(declared: list[Solver]) -> None:
    solver(track="pipeline")(method)
    assert [(x.name, x.params) for x in declared] == [("method", {"share": 0.5, "tries": 3, "mode": "all"})]


def test_variants_have_the_defaults_of_what_they_leave_out(declared: list[Solver]) -> None:
    solver(track="pipeline", variants={"much": {"tries": 9}, "rest": {"most": 2.0}})(method)
    assert [(x.name, x.params) for x in declared] == [
        ("much", {"share": 0.5, "tries": 9, "mode": "all"}),
        ("rest", {"share": 0.5, "tries": 3, "mode": "all", "most": 2.0}),
    ]
