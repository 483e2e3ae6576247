"""Runs that are no longer current: of older versions, and of campaigns that were asked for again."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from shardmark.harness.results.claims import TOLERANCE
from shardmark.harness.results.database import Store
from shardmark.harness.results.ranking.selection import reports_of


@dataclass(frozen=True)
class History:
    """Data that compare versions and campaigns; they count in no score, rank or best known cost.

    ``runs``        runs that are not current, on instances with current runs; those of the newest campaign last. They
                    have the store's columns but the log, and as in ``Tables.runs``, but computed in floats, ``instance
                    division cost cost_exact lower_bound lower_bound_exact score bound_trusted bound_score
                    time_to_best_s time_to_bound_s``; a score is at most 1, also of a cost below the best known one
    ``incumbents``  their solutions, with the columns of ``Tables.incumbents``
    ``reported``    their lower bounds, with the columns of ``Tables.reported``
    ``asked``       ``campaign run``: all runs of each campaign, current or not
    """

    runs: pl.DataFrame
    incumbents: pl.DataFrame
    reported: pl.DataFrame
    asked: pl.DataFrame


def history_of(
    store: Store,
    dropped: pl.DataFrame,
    instances: pl.DataFrame,
    reports: tuple[pl.DataFrame, pl.DataFrame],
    asked: pl.DataFrame,
) -> History:
    """Return the history of a store; ``dropped`` has the runs that are not current, as the store has them.

    ``instances`` are those of ``Tables``; ``reports``, the incumbents and bounds of the current runs, give the types.
    """
    newest = asked.group_by(id="run").agg(asked=pl.col("campaign").max())
    known = instances.select("checksum", "instance", "division", best="best_cost")
    older = (
        dropped.join(known, on="checksum")
        .join(newest, on="id", how="left")
        .sort(pl.coalesce("asked", "campaign"), "started", "id")
        .drop("asked")
    )
    if older.is_empty():
        incumbents, reported = (frame.clear() for frame in reports)
    else:
        incumbents, reported = (reports_of(store, table, older) for table in ("incumbents", "bounds"))
    return History(_scored(older, incumbents, reported), incumbents, reported, asked)


def _scored(runs: pl.DataFrame, incumbents: pl.DataFrame, reported: pl.DataFrame) -> pl.DataFrame:
    """Add scores and times as in ``Tables.runs``, and drop ``best``, the best known cost."""
    cost, bound, best = (pl.col(name) for name in ("cost", "lower_bound", "best"))
    declined = pl.col("status") == "declined"
    trusted = best.is_null() | (bound <= best + best.abs() * float(TOLERANCE))
    scored = (
        runs.with_columns(
            cost=pl.col("cost_exact").cast(pl.Float64), lower_bound=pl.col("lower_bound_exact").cast(pl.Float64)
        )
        .with_columns(bound_trusted=trusted)
        .with_columns(
            score=pl.when(cost <= best).then(1.0).when(cost.is_not_null()).then(best / cost).when(~declined).then(0.0),
            bound_score=pl.when("bound_trusted").then(pl.when(bound >= best).then(1.0).otherwise(bound / best)),
        )
        .with_columns(pl.col("score", "bound_score").clip(0.0, 1.0))
        .drop("best")
    )
    found = incumbents.filter(pl.col("feasible") == 1).select("cost_exact", id="run", time_to_best_s="time_s")
    proved = reported.select(id="run", lower_bound_exact="value_exact", time_to_bound_s="time_s")
    for arrivals, value in ((found, "cost_exact"), (proved, "lower_bound_exact")):
        first = arrivals.unique(["id", value], keep="first", maintain_order=True)
        scored = scored.join(first, on=["id", value], how="left", maintain_order="left")
    return scored
