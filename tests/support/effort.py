"""The effort of tests: how many cases run, and modules that are imported once they are used.

A part of the cases runs under ``make test``, more in the gate, and all under ``make thorough``.
The gate sets ``SHARDMARK_GATE=1``, ``make thorough`` sets ``SHARDMARK_GATE=thorough``.
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any

GATE = os.environ.get("SHARDMARK_GATE", "") in ("1", "thorough")
THOROUGH = os.environ.get("SHARDMARK_GATE", "") == "thorough"


def draws(in_gate: int, otherwise: int, thorough: int | None = None) -> int:
    """Return how many cases a test draws; ``thorough`` is ``in_gate`` if it is not given."""
    if THOROUGH and thorough is not None:
        return thorough
    return in_gate if GATE else otherwise


def some_of(count: int) -> int:
    """Return a third of so many draws, or of what at least is found among them; all under ``make thorough``."""
    return count if THOROUGH else max(1, count // 3)


class Deferred:
    """A module that its first public attribute imports: every process collects all tests, few run those of JAX."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        if attribute.startswith("_"):
            raise AttributeError(attribute)
        return getattr(import_module(self._name), attribute)
