"""Curves: performance profiles, scores over time, and improvements of single runs."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import polars as pl

from harness.results.ranking.frames import CELL, DIVISION, ENTRY

AT_ONCE = 20  # solvers whose incumbents are in memory several times


def _weighted(runs: pl.DataFrame, instances: pl.DataFrame) -> pl.DataFrame:
    """Solver runs with the weight of each in its division: equal for instances, and for seeds of one instance."""
    size = instances.group_by(DIVISION).agg(instances=pl.len())
    weight = 1 / (pl.col("instances") * pl.len().over(CELL))
    return runs.filter(pl.col("kind") == "solver").join(size, on=DIVISION).with_columns(weight=weight)


def _steps(rows: pl.DataFrame, at: str, gain: pl.Expr, total: str) -> pl.DataFrame:
    """Sum gains over all rows up to each value of ``at``, one curve per division and solver."""
    steps = rows.group_by(*ENTRY, at).agg(gain.sum().alias(total)).sort(*ENTRY, at)
    return steps.with_columns(pl.col(total).cum_sum().over(ENTRY))


def profiles_of(runs: pl.DataFrame, instances: pl.DataFrame) -> pl.DataFrame:
    solved = _weighted(runs, instances).filter(pl.col("score") > 0).with_columns(ratio=1 / pl.col("score"))
    return _steps(solved, "ratio", pl.col("weight"), "share")


def anytime_of(runs: pl.DataFrame, instances: pl.DataFrame, incumbents: pl.DataFrame) -> pl.DataFrame:
    weighted = _weighted(runs, instances).select(*ENTRY, "checksum", "weight", run="id")
    known = instances.select("checksum", "best_cost_float")
    solvers = weighted["solver"].unique(maintain_order=True)
    some = (solvers[start : start + AT_ONCE] for start in range(0, max(len(solvers), 1), AT_ONCE))
    parts = [_anytime(incumbents, weighted.filter(pl.col("solver").is_in(names.implode())), known) for names in some]
    return pl.concat(parts).sort(*ENTRY, "time_s")


def _anytime(incumbents: pl.DataFrame, weighted: pl.DataFrame, known: pl.DataFrame) -> pl.DataFrame:
    """Return the curves of some solvers."""
    cost, best = pl.col("cost_float"), pl.col("best_cost_float")
    score = pl.when(cost <= best).then(1.0).otherwise(best / cost).clip(0.0, 1.0)
    reached = (
        incumbents.filter((pl.col("feasible") == 1) & cost.is_not_null())
        .join(weighted, on="run", maintain_order="left")
        .join(known, on="checksum", maintain_order="left")
        .with_columns(score=score.cum_max().over("run"))
        .with_columns(gain=pl.col("score") - pl.col("score").shift(1, fill_value=0.0).over("run"))
        .filter(pl.col("gain") > 0)
    )
    return _steps(reached, "time_s", pl.col("gain") * pl.col("weight"), "score")


def improvements(frame: pl.DataFrame, value: str, best: Any) -> dict[str, list[tuple[float, float]]]:
    so_far = best(pl.col(value)).over("run")
    better = (so_far != so_far.shift(1).over("run")).fill_null(True)
    kept = frame.filter(pl.col(value).is_not_null()).filter(better).select("run", "time_s", value)
    found: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for run, time_s, amount in kept.iter_rows():
        found[run].append((time_s, amount))
    return found
