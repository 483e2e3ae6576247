"""The cells of a site: one row per method and instance, the runs of all seeds merged."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import polars as pl

from shardmark.harness.results.ranking import Tables
from shardmark.leaderboard.pages.tracks import DECLINED, FAILED
from shardmark.leaderboard.rerun_commands import LIMITS

CELL = ["track", "solver", "checksum"]
#: Columns of runs that failed or were declined, as `parts.failures` shows them.
TOLD = ["instance", "solver", "seed", "status", "reason"]
#: Columns of runs that charts of convergence show.
DRAWN = [
    *("id", "checksum", "solver", "kind", "seed", "timeout_s", "cost_exact"),
    *("lower_bound_exact", "lower_bound", "bound_trusted"),
]
MOST_DRAWN = 30  # runs of solvers, and of bound methods, of a chart of convergence
#: Columns of runs that a command which repeats them needs, see `shardmark.leaderboard.rerun_commands`.
ASKED = ["seed", "campaign", *LIMITS]
MOST_SEEDS = 10  # whose runs a cell names


class Parts:
    """The rows of a frame by the values of some columns; unlike `partition_by` it copies one part at a time."""

    def __init__(self, rows: pl.DataFrame, *columns: str) -> None:
        places = rows.select(columns).with_row_index("place").group_by(columns).agg("place").sort(columns)
        self.rows = rows
        self.places: dict[Any, pl.Series] = dict(zip(places.select(columns).rows(), places["place"], strict=True))

    def __getitem__(self, key: tuple[Any, ...]) -> pl.DataFrame:
        """Return the rows of some values, in their order."""
        return self.rows[self.places[key]]

    def __iter__(self) -> Iterator[Any]:
        """Iterate over the values that rows have, sorted."""
        return iter(self.places)


def cells_of(tables: Tables, runs: pl.DataFrame) -> pl.DataFrame:
    """Return ``tables.results`` with the best cost and bound of all seeds, their times, and the runs themselves.

    The cells are in the order of ``runs``, the best of each instance first. ``cost cost_exact gap time_to_best_s`` are
    those of the best run, ``lower_bound lower_bound_exact bound_trusted grade time_to_bound_s`` those of the greatest
    trusted bound, or of any if none is trusted. ``statuses`` has each status once; ``seeds`` has ``seed status
    cost_exact lower_bound_exact log`` of the first `MOST_SEEDS` seeds; ``asked`` has the columns `ASKED` of the first
    seed's run.
    """
    by_bound = [pl.col("bound_trusted").fill_null(False), pl.col("lower_bound")]
    greatest = pl.col("lower_bound", "lower_bound_exact", "bound_trusted", "grade", "time_to_bound_s")
    facts = runs.group_by(CELL, maintain_order=True).agg(
        pl.col("cost", "cost_exact", "gap", "time_to_best_s").first(),
        greatest.sort_by(by_bound, descending=True, nulls_last=True).first(),
        pl.col("wall_s").mean(),
        pl.col("timeout_s", "peak_mib").max(),
        asked=pl.struct(ASKED).sort_by("seed").first(),
        statuses=pl.col("status").unique(maintain_order=True),
        seeds=pl.struct("seed", "status", "cost_exact", "lower_bound_exact", "log").sort_by("seed").head(MOST_SEEDS),
    )
    means = tables.results.drop("time_to_best_s", "time_to_bound_s")
    return facts.join(means, on=CELL, how="left", maintain_order="left")


def drawn(runs: pl.DataFrame) -> pl.DataFrame:
    """Return the runs that charts of convergence draw: of each instance the first of each kind."""
    return runs.select(DRAWN).filter(pl.int_range(pl.len()).over("checksum", "kind") < MOST_DRAWN)


def unfinished(runs: pl.DataFrame) -> pl.DataFrame:
    """Return the runs that failed or were declined, as far as pages tell of them."""
    return runs.filter(FAILED | (pl.col("status") == DECLINED)).select(TOLD)


def failed(runs: pl.DataFrame) -> pl.DataFrame:
    """Return the runs that failed."""
    return runs.filter(FAILED)
