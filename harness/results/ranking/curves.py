"""Curves: performance profiles, scores over time, and improvements of single runs."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import polars as pl

from shardmark.harness.results.ranking.frames import CELL, DIVISION, ENTRY

AT_ONCE = 20  # solvers whose solutions are in memory several times


def profiles_of(runs: pl.DataFrame, instances: pl.DataFrame) -> pl.DataFrame:
    solved = _weighted(runs, instances).filter(pl.col("score") > 0)
    return _steps(solved.select("entry", ratio=1 / pl.col("score"), gain="weight"), "ratio", "share", runs)


def anytime_of(runs: pl.DataFrame, instances: pl.DataFrame, incumbents: pl.DataFrame) -> pl.DataFrame:
    known = instances.select("checksum", best="best_cost")
    weighted = _weighted(runs, instances).join(known, on="checksum", maintain_order="left").with_row_index("place")
    found = (
        incumbents.lazy()  # copies of all of them would be large
        .filter((pl.col("feasible") == 1) & pl.col("cost").is_not_null())
        .select("run", "time_s", "cost")
        .join(weighted.lazy().drop("checksum", "score"), on="run", maintain_order="left")
        .drop("run")
        .collect()
    )
    starts = range(0, max(_entries(runs).height, 1), AT_ONCE)
    some = (found.filter(pl.col("entry").is_between(start, start + AT_ONCE - 1)) for start in starts)
    return pl.concat([_steps(_gains(part), "time_s", "score", runs) for part in some])


def _gains(found: pl.DataFrame) -> pl.DataFrame:
    """Return ``entry time_s gain``: by how much each solution raises the score of its solver."""
    cost, best = pl.col("cost"), pl.col("best")
    score = pl.when(cost <= best).then(1.0).otherwise(best / cost).clip(0.0, 1.0)
    gain = pl.col("score") - pl.col("score").shift(1, fill_value=0.0).over("place")
    gains = found.with_columns(score=score.cum_max().over("place")).with_columns(gain=gain).filter(pl.col("gain") > 0)
    return gains.select("entry", "time_s", pl.col("gain") * pl.col("weight"))


def _entries(runs: pl.DataFrame) -> pl.DataFrame:
    """Number the entries, as texts are slow to group and to sort by."""
    return runs.select(ENTRY).unique().sort(ENTRY).with_row_index("entry")


def _weighted(runs: pl.DataFrame, instances: pl.DataFrame) -> pl.DataFrame:
    """Return ``run entry checksum score weight`` of the runs of solvers.

    Weights are equal for the instances of a division, and for the seeds of one instance.
    """
    size = instances.group_by(DIVISION).agg(instances=pl.len())
    solvers = runs.filter(pl.col("kind") == "solver").select(*ENTRY, "checksum", "score", run="id")
    return (
        solvers.join(size, on=DIVISION, maintain_order="left")
        .join(_entries(runs), on=ENTRY, maintain_order="left")
        .select("run", "entry", "checksum", "score", weight=1 / (pl.col("instances") * pl.len().over(CELL)))
    )


def _steps(rows: pl.DataFrame, at: str, total: str, runs: pl.DataFrame) -> pl.DataFrame:
    """Sum the column ``gain`` over all rows up to each value of ``at``, one curve per entry."""
    steps = rows.group_by("entry", at).agg(pl.col("gain").sum().alias(total)).sort("entry", at)
    summed = steps.with_columns(pl.col(total).cum_sum().over("entry"))
    return summed.join(_entries(runs), on="entry", maintain_order="left").select(*ENTRY, at, total)


def improvements(frame: pl.DataFrame, value: str, best: Any) -> dict[str, list[tuple[float, float]]]:
    so_far = best(pl.col(value)).over("run")
    better = (so_far != so_far.shift(1).over("run")).fill_null(True)
    kept = frame.filter(pl.col(value).is_not_null()).filter(better).select("run", "time_s", value)
    found: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for run, time_s, amount in kept.iter_rows():
        found[run].append((time_s, amount))
    return found
