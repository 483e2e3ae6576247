"""Every claim of ``placement`` against exact fractions; see ``tests/support/fuzz.py``."""

from __future__ import annotations

from dataclasses import replace

from fuzz import Attack, blocks
from oracle_placement import draw, draw_solution, false_reason, judge, optimum

ENGINES = ("cpsat", "scip", "highs")
ATTACK = Attack(
    "placement",
    draw,
    draw_solution,
    judge,
    optimum,
    every={"ip-contiguous": 2, "ip-noncontiguous": 2, "search": 4, "scotch": 5, "metis": 5, "pipedream": 2},
    settings={"search": {"most": 1000}},
    false_reason=false_reason,
)


@blocks
def test_every_claim_holds(seeds: range) -> None:
    engine = ENGINES[seeds.start // len(seeds) % len(ENGINES)]
    settings = {"ip-contiguous": {"engine": engine}, "ip-noncontiguous": {"engine": engine}}
    replace(ATTACK, settings={**ATTACK.settings, **settings}).on(seeds)
