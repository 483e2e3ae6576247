"""Every claim of ``pipeline`` against exact fractions; see ``tests/support/fuzz.py``."""

from __future__ import annotations

from fuzz import Attack, blocks
from oracle_pipeline import draw, draw_solution, judge, optimum

ATTACK = Attack(
    "pipeline",
    draw,
    draw_solution,
    judge,
    optimum,
    seconds=1.0,
    every={"annealing": 500, "brkga-10000": 50, "mla": 100, "mla-weighted": 100}
    | {"random-1": 10, "random-100": 10, "random-10000": 10, "brkga-100": 10},
)


@blocks
def test_every_claim_holds(seeds: range) -> None:
    ATTACK.on(seeds)
