"""The number of cases that tests draw: all in the gate, which sets ``SHARDMARK_GATE=1``, a part under ``make test``."""

from __future__ import annotations

import os

GATE = os.environ.get("SHARDMARK_GATE") == "1"


def draws(in_gate: int, otherwise: int) -> int:
    """Return how many cases a test draws."""
    return in_gate if GATE else otherwise
