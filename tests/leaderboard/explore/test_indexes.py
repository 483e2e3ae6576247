"""Rows of the indexes: what is added up over rankings, and what the filters need."""

from __future__ import annotations

import polars as pl
import pytest

from shardmark.harness.records.best import BestKnown
from shardmark.harness.records.history import Improvement
from shardmark.harness.results.ranking import Tables
from shardmark.harness.results.records import number
from shardmark.instances import catalog
from shardmark.leaderboard.explore.indexes import instance_rows, machine_class, solver_rows
from shardmark.leaderboard.pages.instance import beaten


@pytest.fixture(scope="module")
def methods(scored: Tables) -> dict[tuple[str, str], dict]:
    return {(row["track"], row["solver"]): row for row in solver_rows(scored)}


def test_every_method_and_instance_has_one_row(methods, scored: Tables) -> None:
    ran = set(scored.runs.select("track", "solver").iter_rows())
    assert set(methods) == ran
    assert [row["checksum"] for row in instance_rows(scored)] == list(scored.instances["checksum"])


def test_what_the_runs_have_better_than_the_record_is_named(scored: Tables) -> None:
    row = next(
        row for row in scored.instances.to_dicts() if not row["proven"] and type(number(row["best_cost_exact"])) is int
    )

    def better(cost: int, bound: int) -> list[str]:
        lines = [line(row["checksum"], kind, str(value)) for kind, value in (("cost", cost), ("bound", bound))]
        return beaten(row, BestKnown(catalog.find("chain"), lines))

    best = int(row["best_cost_exact"])
    assert better(best, best) == []
    assert better(best + 1, best + 1) == ["the cost here"]
    assert better(best + 1, 0) == ["the cost here", "the bound here"]


def line(checksum: str, kind: str, value: str) -> Improvement:
    return Improvement("chain", checksum, kind, value, "", "m", "v", 0, 1.0, 64.0, 1, 1.0, "x", "2025-01-02", "Ada")


def test_a_solver_with_one_ranking_shows_its_rank_and_score(methods, scored: Tables) -> None:
    [ranked] = scored.solvers.filter(pl.col("solver") == "brkga-100").to_dicts()
    row = methods["pipeline", "brkga-100"]
    assert row["rank_words"] == f"{ranked['rank']} of 8"
    assert row["mean_score"] == ranked["score_sum"] / ranked["instances"]
    assert (row["solved"], row["expected"], row["coverage"]) == (20, 20, 1.0)


def test_a_solver_with_several_rankings_has_no_mean_score(methods) -> None:
    row = methods["placement", "one-accelerator"]
    assert row["rank_words"] == "1 to 2 in 5 rankings"
    assert row["mean_score"] is None
    assert row["rank"] == 1


def test_a_solver_that_declined_everything_has_no_rank(methods) -> None:
    row = methods["placement", "picky"]
    assert (row["rank"], row["rank_words"], row["solved"], row["coverage"]) == (None, "–", 0, 0.0)


def test_totals_count_failures_and_the_largest_instance_solved(methods) -> None:
    row = methods["intraop", "greedy"]
    assert row["failed"] == 3
    assert row["largest"] == 8 * 8**3  # the last instance of the track; three before it failed
    assert methods["intraop", "simple"]["largest"] == 8 * 8**3


def test_machines_of_runs_are_named_by_class(methods, scored: Tables) -> None:
    name = "Example Processor 3000 <b>, 2 cores"
    assert methods["pipeline", "merge"]["machines"] == [name]
    assert all(row["machines"] == [name] for row in instance_rows(scored))
    assert machine_class({}) == "unknown processor, ? cores"
