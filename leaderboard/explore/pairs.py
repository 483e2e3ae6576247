"""Pairs of the leading solvers of a ranking: wins, losses, ties, and if the difference may be chance."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import polars as pl

from shardmark.harness.results.ranking import Tables
from shardmark.leaderboard.explore.wilcoxon import TIE, signed_rank
from shardmark.leaderboard.pages.tracks import Division, Row

LEADERS = 6  # solvers of a ranking that are compared with each other


def pairs(tables: Tables, division: Division) -> list[Row]:
    """Return a row per pair of leading solvers: ``first second instances wins ties losses p``, in order of rank.

    Pairs without a common instance are left out. A win is a greater mean score over the seeds, by more than `TIE`.
    ``p`` is None if all are ties.
    """
    leaders = [row["solver"] for row in division.ranking[:LEADERS]]
    cells = tables.results.filter(
        (pl.col("track") == division.track)
        & (pl.col("division") == division.name)
        & pl.col("solver").is_in(leaders)
        & (pl.col("kind") == "solver")
    )
    scores: dict[str, dict[str, float]] = {solver: {} for solver in leaders}
    for solver, checksum, score in cells.select("solver", "checksum", "score").iter_rows():
        if score is not None:
            scores[solver][checksum] = score
    rows = [_pair(*names, *(scores[name] for name in names)) for names in combinations(leaders, 2)]
    return [row for row in rows if row["instances"]]


def _pair(first: str, second: str, of_first: dict[str, float], of_second: dict[str, float]) -> Row:
    shared = sorted(of_first.keys() & of_second.keys())
    differences: Sequence[float] = [of_first[checksum] - of_second[checksum] for checksum in shared]
    wins, losses = sum(d > TIE for d in differences), sum(d < -TIE for d in differences)
    return {
        "first": first,
        "second": second,
        "instances": len(shared),
        "wins": wins,
        "ties": len(shared) - wins - losses,
        "losses": losses,
        "p": signed_rank(differences),
    }
