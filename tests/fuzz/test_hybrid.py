"""Every claim of ``hybrid`` against exact fractions; see ``tests/support/fuzz.py``."""

from __future__ import annotations

from fuzz import Attack, blocks
from oracle_hybrid import draw, draw_solution, judge, optimum

ATTACK = Attack("hybrid", draw, draw_solution, judge, optimum)


@blocks
def test_every_claim_holds(seeds: range) -> None:
    ATTACK.on(seeds)
