"""Scores of runs and instances, and of each method on each instance."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl

from shardmark.harness.results.ranking.cases import Case
from shardmark.harness.results.ranking.frames import CELL, frame, left_join

#: A solution is early if it comes within this share of the time limit, and costs at most so much more than the last.
EARLY, NEAR = 0.1, 0.05


def scored_runs(
    runs: pl.DataFrame, cases: Mapping[str, Case], incumbents: pl.DataFrame, reported: pl.DataFrame
) -> pl.DataFrame:
    """Add the scores of runs, the times at which their final cost and bound came, and whether solutions came early."""
    of_cost = ("cost", "score", "certified", "gap", "best", "proven")
    of_bound = ("lower_bound", "bound_trusted", "bound_score", "bound_best", "bound_proves", "grade")
    claims = runs.select("checksum", "id", "kind", "cost_exact", "lower_bound_exact").iter_slices()
    worth = [
        frame((*of_cost, *of_bound), [_score_run(cases[checksum], *claim) for checksum, *claim in part.iter_rows()])
        for part in claims
    ]
    scored = runs.hstack(pl.concat([frame((*of_cost, *of_bound), ()), *worth]))
    found = incumbents.filter(pl.col("feasible") == 1).select("cost_exact", id="run", time_to_best_s="time_s")
    proved = reported.select(id="run", lower_bound_exact="value_exact", time_to_bound_s="time_s")
    for arrivals, value in ((found, "cost_exact"), (proved, "lower_bound_exact")):
        final = arrivals.join(scored, on=["id", value], how="semi", maintain_order="left")
        first = final.unique(["id", value], keep="first", maintain_order=True)
        scored = left_join(scored, first, ["id", value])
    return left_join(scored, _early(scored, incumbents), ["id"])


def _early(runs: pl.DataFrame, incumbents: pl.DataFrame) -> pl.DataFrame:
    """Return ``id early``: whether a run with a solution had one by `EARLY` of its limit that was `NEAR` its last."""
    solved = runs.filter(pl.col("cost").is_not_null()).select("id", "timeout_s", last="cost")
    found = incumbents.filter((pl.col("feasible") == 1) & pl.col("cost").is_not_null())
    near = pl.col("cost") <= pl.col("last") + NEAR * pl.col("last").abs()
    early = (pl.col("time_s") <= EARLY * pl.col("timeout_s")) & near
    reported = solved.join(found.select("time_s", "cost", id="run"), on="id", how="left")
    return reported.group_by("id").agg(early=early.any())


def best_first(runs: pl.DataFrame) -> pl.DataFrame:
    """Sort runs by track and instance, the best of each instance first."""
    scores = [-pl.col(column).fill_null(-1.0) for column in ("score", "bound_score")]
    return runs.sort("track", "instance", pl.col("cost").is_null(), *scores, "solver", "seed")


def _score_run(case: Case, run: str, kind: str, cost: str | None, bound: str | None) -> tuple[Any, ...]:
    """Return the scores of a run: those of its cost, then those of its bound. A bound method needs no cost."""
    if cost is not None:
        of_cost: tuple[Any, ...] = (float(cost), *case.of_cost(cost))
    elif kind == "bound":
        of_cost = (None, None, None, None, False, False)
    else:
        of_cost = (None, 0.0, None if case.bound is None else 0.0, None, False, False)
    if bound is None:
        return *of_cost, None, None, None, False, False, None
    of_bound = case.of_bound(bound)
    return *of_cost, float(bound), *of_bound, case.grade_of_run(bound, run) if of_bound[0] else None


def scored_instances(instances: pl.DataFrame, runs: pl.DataFrame, cases: Mapping[str, Case]) -> pl.DataFrame:
    """Add the best cost and the trusted bound of each instance, their authors, and its grade, gap and proof."""
    of_best, of_bound = ("best_cost_exact", "best_cost", "best_by"), ("lower_bound_exact", "lower_bound", "bound_by")
    known = [_known(cases[checksum]) for checksum in instances["checksum"]]
    counted = runs.group_by("checksum").agg(runs=pl.len(), solved=pl.col("cost").is_not_null().sum())
    scored = instances.hstack(frame((*of_best, *of_bound, "grade", "gap", "proven"), known))
    return scored.join(counted, on="checksum", how="left", maintain_order="left")


def _known(case: Case) -> tuple[Any, ...]:
    best, bound = case.best, case.bound
    gap, proven = case.of_cost(best.text)[2::2] if best else (None, False)
    return (
        *((best.text, float(best.text)) if best else (None, None)),
        list(dict.fromkeys(claim.by for claim in case.costs if case.is_best(claim.value))),
        *((bound.text, float(bound.text)) if bound else (None, None)),
        list(dict.fromkeys(claim.by for claim in case.trusted if case.is_best_bound(claim.value))),
        *(case.grade, gap, proven),
    )


def method_results(runs: pl.DataFrame) -> pl.DataFrame:
    """Return one row per method and instance: a score is the mean over seeds, 0 for a seed without a solution."""
    trusted = pl.col("bound_trusted").fill_null(False)
    return (
        runs.group_by(*CELL, "division", "instance")
        .agg(
            pl.col("kind").last(),
            pl.col("score", "certified", "time_to_best_s").mean(),
            pl.col("best", "proven", "bound_best", "bound_proves").any(),
            runs=pl.len(),
            solved=pl.col("cost").is_not_null().sum(),
            early=pl.col("early").sum(),
            bounded=trusted.sum(),
            bound_score=pl.col("bound_score").fill_null(0.0).mean(),
            time_to_bound_s=pl.col("time_to_bound_s").filter(trusted).mean(),
        )
        .sort("track", "solver", "instance")
    )
