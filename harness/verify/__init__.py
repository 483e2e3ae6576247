"""Verdicts on solutions, from the definitions, in NumPy; imports nothing from solvers.

One module a track, each with one function ``verify(instance, solution) -> Verdict``.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Verdict:
    """What a solution is worth.

    ``cost`` is exact (int) for ``intraop`` and a float for the other tracks; None where a solution is so
    malformed that it has no cost. ``violations`` holds a sentence with place and amount for each broken rule.
    """

    feasible: bool
    cost: int | float | None
    violations: tuple[str, ...] = ()


def malformed(reason: str) -> Verdict:
    """The verdict on something that is no solution at all."""
    return Verdict(False, None, (reason,))


def verify(instance: Any, solution: Any) -> Verdict:
    """Judge a solution (plain JSON) of any track against its instance."""
    return importlib.import_module(f"harness.verify.{instance.track}").verify(instance, solution)
