"""The solver that a track gained last, which pages highlight until the reader chooses another."""

from __future__ import annotations

import polars as pl

from shardmark.harness.results.ranking import Tables


def newest_solver(tables: Tables, track: str) -> str | None:
    """Return the solver of a track whose first run, of any version, came last; None if no later campaign added one.

    The campaigns of an edition, whose numbers are not positive, are pieces of one.
    """
    columns = ("track", "solver", "kind", "campaign", "started")
    first = (
        pl.concat([frame.select(columns) for frame in (tables.history.runs, tables.runs)])
        .filter((pl.col("track") == track) & (pl.col("kind") == "solver"))
        .group_by("solver")
        .agg(pl.col("campaign").min().clip(lower_bound=0), pl.col("started").min())
    )
    added = first.filter(pl.col("campaign") > pl.col("campaign").min()).sort("started", "solver")
    return added["solver"][-1] if added.height else None
