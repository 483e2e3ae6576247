"""Every claim of ``scheduling`` against exact integers; see ``tests/support/fuzz.py``."""

from __future__ import annotations

from fractions import Fraction

from fuzz import Attack, blocks
from oracle_scheduling import draw, draw_solution, judge, optimum

from instances.scheduling import Instance

PARTITIONERS = ("hash", "batch-split", "critical-path", "mite", "dfs", "heft")


def says_falsely_that_none_fits(instance: Instance, optimum: Fraction | None, reason: str) -> bool:
    """Whether a solver declines because no schedule fits, though one does."""
    return reason.startswith("no schedule fits") and optimum is not None


ATTACK = Attack(
    "scheduling",
    draw,
    draw_solution,
    judge,
    optimum,
    seconds=1.0,
    every={"search": 500, "windows": 500, "search-windows": 500}
    | {f"{name}-{scheduler}": 5 for name in PARTITIONERS for scheduler in ("fifo", "pct", "msr")},
    false_reason=says_falsely_that_none_fits,
)


@blocks
def test_every_claim_holds(seeds: range) -> None:
    ATTACK.on(seeds)
