"""How many cases tests run: a part under ``make test``, more in the gate, and all under ``make thorough``.

The gate sets ``SHARDMARK_GATE=1``, ``make thorough`` sets ``SHARDMARK_GATE=thorough``.
"""

from __future__ import annotations

import os

GATE = os.environ.get("SHARDMARK_GATE", "") in ("1", "thorough")
THOROUGH = os.environ.get("SHARDMARK_GATE", "") == "thorough"


def draws(in_gate: int, otherwise: int, thorough: int | None = None) -> int:
    """Return how many cases a test draws; ``thorough`` is ``in_gate`` if it is not given."""
    if THOROUGH and thorough is not None:
        return thorough
    return in_gate if GATE else otherwise
