"""Every claim of ``placement`` against exact fractions; see ``tests/support/fuzz.py``."""

from __future__ import annotations

from fuzz import Attack, blocks
from oracle_placement import draw, judge, optimum
from placements import draw_solution

ATTACK = Attack("placement", draw, draw_solution, judge, optimum, settings={"search": {"most": 1000}})


@blocks
def test_every_claim_holds(seeds: range) -> None:
    ATTACK.on(seeds)
