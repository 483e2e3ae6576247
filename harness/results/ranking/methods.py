"""Rankings of solvers and of bound methods within a division."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from shardmark.harness.results.ranking.frames import DIVISION, ENTRY, METHOD, frame, left_join
from shardmark.harness.sandbox.contract import KILLED

#: Bootstrap samples: times that the instances are drawn with replacement to estimate how firm a ranking is.
RESAMPLES = 2000


#: Fewer instances than this say nothing about how firm a ranking is.
FEWEST_RESAMPLED = 5


def declined_divisions(runs: pl.DataFrame) -> pl.DataFrame:
    """Return the methods that declined every run of a division and reported neither cost nor bound there."""
    nothing = (pl.col("status") == "declined") & pl.col("cost").is_null() & pl.col("lower_bound").is_null()
    counted = runs.group_by(ENTRY).agg(nothing.all().alias("declined"), runs=pl.len())
    return counted.filter("declined").drop("declined").sort(ENTRY)


def without_declined_scores(runs: pl.DataFrame, declined: pl.DataFrame) -> pl.DataFrame:
    """Remove the scores of methods that declined a whole division."""
    kept = declined.select(*ENTRY, pl.lit(False).alias("scored"))
    score = pl.when(pl.col("scored").fill_null(True)).then(pl.col("score", "certified"))
    return left_join(runs, kept, ENTRY).with_columns(score).drop("scored")


def counted(runs: pl.DataFrame) -> pl.DataFrame:
    """Return the runs that count for their method: all that were not killed from outside."""
    return runs.filter(pl.col("status") != KILLED)


def without_killed_scores(runs: pl.DataFrame) -> pl.DataFrame:
    """Remove the scores of runs that were killed from outside; what they found stays known."""
    kept = pl.col("status") != KILLED
    scores, marks = pl.col("score", "certified", "bound_score"), pl.col("best", "proven", "bound_best", "bound_proves")
    return runs.with_columns(pl.when(kept).then(scores), marks & kept)


def expected_runs(runs: pl.DataFrame, instances: pl.DataFrame) -> pl.DataFrame:
    """Count the runs that each method should have in the divisions of its runs.

    These are its runs, plus one per instance of the division that it never ran on.
    """
    size = instances.group_by(DIVISION).agg(instances=pl.len())
    seen = runs.group_by(ENTRY).agg(runs=pl.len(), attempted=pl.col("checksum").n_unique())
    missing = pl.col("instances") - pl.col("attempted")
    return seen.join(size, on=DIVISION).select(
        *ENTRY, "runs", "instances", missing=missing, expected=pl.col("runs") + missing
    )


def _geomean(column: str, where: pl.Expr) -> pl.Expr:
    """Geometric mean of the values whose rows meet a condition: 0 if one of them is 0, null if there is none."""
    return pl.col(column).filter(where).log().mean().exp()


def solver_totals(results: pl.DataFrame, expected: pl.DataFrame) -> pl.DataFrame:
    covered = pl.col("solved") > 0
    certified = covered & (pl.col("certified") > 0)
    totals = (
        results.filter(pl.col("kind") == "solver")
        .group_by(ENTRY)
        .agg(
            pl.col("solved", "early", "best", "proven").sum(),
            pl.col("time_to_best_s").median(),
            score_sum=pl.col("score").sum(),
            score_geomean=_geomean("score", covered),
            certified_sum=pl.col("certified").sum(),
            certified_geomean=_geomean("certified", certified),
            certified_instances=certified.sum(),
            covered=covered.sum(),
        )
    )
    return totals.join(expected, on=ENTRY).with_columns(coverage=pl.col("solved") / pl.col("expected"))


def bound_totals(results: pl.DataFrame, expected: pl.DataFrame, contradictions: pl.DataFrame) -> pl.DataFrame:
    covered = pl.col("bounded") > 0
    totals = (
        results.filter((pl.col("kind") == "bound") | covered.any().over(ENTRY))
        .group_by(ENTRY)
        .agg(
            pl.col("bounded", "bound_best", "bound_proves").sum(),
            pl.col("time_to_bound_s").median(),
            bound_sum=pl.col("bound_score").sum(),
            bound_geomean=_geomean("bound_score", covered & (pl.col("bound_score") > 0)),
            covered=covered.sum(),
        )
    )
    wrong = contradictions.group_by(ENTRY).agg(contradictions=pl.len())
    order = [*DIVISION, pl.col("bound_sum").round(9), "bound_geomean", "solver"]
    return (
        totals.join(expected, on=ENTRY)
        .join(wrong, on=ENTRY, how="left")
        .with_columns(pl.col("contradictions").fill_null(0), coverage=pl.col("bounded") / pl.col("expected"))
        .sort(order, descending=[False, False, True, True, False])
    )


def with_facts(methods: pl.DataFrame, runs: pl.DataFrame, facts: pl.DataFrame) -> pl.DataFrame:
    """Add the facts of the newest version of each method: kind, hash, source, description, params."""
    newest = runs.group_by(METHOD).agg(hash=pl.col("solver_hash").last())
    plain = pl.col("description").str.replace_all("``", "", literal=True)
    facts = facts.rename({"name": "solver"}).with_columns(plain)
    return methods.join(newest, on=METHOD, maintain_order="left").join(
        facts, on=[*METHOD, "hash"], how="left", maintain_order="left"
    )


def ranked(solvers: pl.DataFrame, results: pl.DataFrame) -> pl.DataFrame:
    """Rank the solvers of each division by score sum, ties sharing a rank; add how firm each rank is; best first."""
    total = pl.col("score_sum").round(9)
    ranked = solvers.with_columns(rank=total.rank("min", descending=True).over(DIVISION).cast(pl.Int64))
    firm = [_firmness(cells) for cells in results.filter(pl.col("kind") == "solver").partition_by(DIVISION)]
    firmness = frame((*ENTRY, "score_low", "score_high", "first_share"), [row for rows in firm for row in rows])
    order = [*DIVISION, "rank", "score_geomean", "solver"]
    return ranked.join(firmness, on=ENTRY, how="left").sort(order, descending=[False, False, False, True, False])


def _firmness(cells: pl.DataFrame) -> list[tuple[Any, ...]]:
    """``track, division, solver, score_low, score_high, first_share`` of a division's solvers.

    The instances are drawn anew `RESAMPLES` times, with replacement, from a fixed seed. Low and high enclose the
    middle 95 % of the sums of scores; the share counts how often a sum is the greatest. Null for few instances.
    """
    table = cells.pivot("checksum", index="solver", values="score").sort("solver").fill_null(0.0)
    scores = table.drop("solver").to_numpy()
    count = scores.shape[1]
    where = cells.select(DIVISION).row(0)
    if count < FEWEST_RESAMPLED:
        return [(*where, solver, None, None, None) for solver in table["solver"]]
    drawn = np.random.default_rng(0).multinomial(count, np.full(count, 1 / count), size=RESAMPLES)
    sums = drawn @ scores.T
    low, high = np.percentile(sums, [2.5, 97.5], axis=0)
    first = (sums >= sums.max(axis=1, keepdims=True) - 1e-9).mean(axis=0)
    return [
        (*where, solver, *map(float, firm)) for solver, *firm in zip(table["solver"], low, high, first, strict=True)
    ]
