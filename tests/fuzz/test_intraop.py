"""Every claim of ``intraop`` against exact integers; see ``tests/support/fuzz.py``."""

from __future__ import annotations

import pytest
from fuzz import Attack, blocks
from oracle_intraop import draw, draw_solution, false_reason, judge, optimum

from solvers.intraop.cfn import portfolio

ATTACK = Attack(
    "intraop",
    draw,
    draw_solution,
    judge,
    optimum,
    every={"random": 1000, "local-search": 250, "greedy": 20}
    | {"cfn-penalty": 250, "cfn-penalty-global": 250, "cfn-penalty-nopost": 250}
    | {"ilp-highs": 4, "cfn-native": 2, "toulbar2": 2, "lp": 2, "cfn-relaxed": 2},
    seconds=1.0,
    false_reason=false_reason,
)


@blocks
def test_every_claim_holds(seeds: range, monkeypatch: pytest.MonkeyPatch) -> None:
    size = seeds.start // len(seeds) % 3  # small instances go to CP-SAT at once; others to bounds first, then HiGHS
    if size > 0:
        monkeypatch.setattr(portfolio, "SMALL", 0)
    if size > 1:
        monkeypatch.setattr(portfolio, "LARGEST_SEARCH", 0)
    ATTACK.on(seeds)
