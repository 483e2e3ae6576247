"""What the pages say of an edition: its runs, one's own among them, and what is not taken or left out."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from operator import itemgetter

import polars as pl

from shardmark.harness.editions.comparing import Comparison
from shardmark.harness.results.ranking import Tables
from shardmark.leaderboard.pages.tracks import Row


def edition_of(comparison: Comparison | None, tables: Tables) -> Row | None:
    """The edition as the overview shows it; None if there is none.

    ``taken`` and ``own`` count runs, ``changed`` has the methods that are not taken by track, ``machines`` compares the
    machines, ``left_out`` the instances without runs by suite, ``accepted`` the reasons for parts of disturbed
    machines.
    """
    if comparison is None:
        return None
    edition = comparison.edition
    return {
        "name": edition.name,
        "taken": tables.runs.filter(pl.col("campaign") <= 0).height,
        "own": tables.runs.filter(pl.col("campaign") > 0).height,
        "changed": _grouped(comparison.changed),
        "machines": comparison.machines,
        "left_out": _grouped((row["suite"], row["instance"]) for row in edition.left_out),
        "accepted": [part for part in edition.parts if part.accepted],
    }


def _grouped(pairs: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """Group the second parts of pairs by the first."""
    ordered = sorted(pairs)
    return {key: [name for _, name in group] for key, group in groupby(ordered, itemgetter(0))}
