"""Every claim of ``intraop`` against exact integers; see ``tests/support/fuzz.py``."""

from __future__ import annotations

from fuzz import Attack, blocks
from oracle_intraop import draw, draw_solution, false_reason, judge, optimum

ATTACK = Attack(
    "intraop",
    draw,
    draw_solution,
    judge,
    optimum,
    false_reason=false_reason,
)


@blocks
def test_every_claim_holds(seeds: range) -> None:
    ATTACK.on(seeds)
