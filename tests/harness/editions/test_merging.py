"""One's own runs among those of an edition, in one database."""

from __future__ import annotations

import shutil
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from shardmark.harness.editions.folder import Edition
from shardmark.harness.editions.merging import merged
from shardmark.harness.results.database import Store
from shardmark.harness.results.ranking import tables
from shardmark.instances import InputError

APART = ("campaign", "host")


def test_an_edition_alone_scores_like_the_results_that_it_is_of(
    edition: Edition, small_campaign: dict[str, Path]
) -> None:
    with merged(None, edition) as store:
        found = tables(store)
    for track, folder in small_campaign.items():
        with closing(Store.open(folder)) as store:
            scored = tables(store)
        for name in ("runs", "instances", "results", "solvers", "bounds", "anytime", "profiles"):
            ours = getattr(found, name).filter(pl.col("track") == track)
            assert_frame_equal(ours.drop(APART, strict=False), getattr(scored, name).drop(APART, strict=False))
    assert set(found.campaigns["id"]) == {-1, 0}
    assert set(found.hosts["runs"]) == set(found.campaigns["runs"])


def test_own_runs_replace_those_of_the_edition_cell_by_cell(edition: Edition, small_campaign: dict[str, Path]) -> None:
    with closing(Store.open(small_campaign["pipeline"])) as store:
        own = {row[0] for row in store.rows("runs")[1]}
    with merged(small_campaign["pipeline"], edition) as store:
        found = tables(store)
    theirs = found.runs.filter(pl.col("campaign") <= 0)
    assert set(theirs["track"]) == {"scheduling"}
    assert set(found.runs.filter(pl.col("campaign") > 0)["id"]) == own


def test_only_the_runs_that_are_missing_are_taken(
    edition: Edition, small_campaign: dict[str, Path], tmp_path: Path
) -> None:
    mine = tmp_path / "mine"
    shutil.copytree(small_campaign["pipeline"], mine)
    with closing(Store.open(mine, create=True)) as store, store.transaction() as db:
        for table, key in (("incumbents", "run"), ("bounds", "run"), ("runs", "id")):
            db.execute(f"DELETE FROM {table} WHERE {key} IN (SELECT id FROM runs WHERE solver != 'mla' OR seed != 1)")
    with merged(mine, edition) as store:
        found = tables(store).runs
        best = (
            found.filter(pl.col("cost").is_not_null())
            .sort("cost", "time_to_best_s", "id")
            .unique("checksum", keep="first")
        )
        assert all(store.solution(run) is not None for run in best["id"])
    own = found.filter(pl.col("campaign") > 0)
    assert set(own.select("solver", "seed").iter_rows()) == {("mla", 1)}
    assert len(found) == sum(part.runs for part in edition.parts)
    assert found.select("track", "solver", "checksum", "seed").is_unique().all()


def test_runs_that_are_not_wanted_are_left_out(edition: Edition) -> None:
    with merged(None, edition, lambda run: run["solver"] != "mla") as store:
        assert set(tables(store).runs["solver"]) == {"random-1", "simple", "heft-fifo", "hash-fifo", "load"}


@pytest.mark.parametrize(
    ("table", "column", "value", "expected"),
    [
        ("campaigns", "id", 7, "hosts.parquet: hosts campaign 1 name '' campaign: expected the id of"),
        ("hosts", "campaign", -(2**63), "hosts.parquet: hosts campaign -9223372036854775808 name ''"),
        ("runs", "campaign", 7, "campaign: expected the id of a row of campaigns.parquet, found 7"),
        ("instances", "checksum", "gone", "checksum: expected the checksum of a row of instances.parquet, found"),
        ("matrix", "campaign", 7, "campaign: expected the id of a row of campaigns.parquet, found 7"),
        ("incumbents", "run", "gone", "run: expected the id of a row of runs.parquet, found 'gone'"),
        ("bounds", "run", "gone", "run: expected the id of a row of runs.parquet, found 'gone'"),
        ("runs", "id", "gone", "run: expected the id of a row of runs.parquet, found"),
    ],
)
def test_rows_that_refer_to_missing_ones_are_refused(
    table: str, column: str, value: object, expected: str, edition: Edition, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(edition.folder, tmp_path / "2026.12"))
    path = folder / "pipeline" / f"{table}.parquet"
    content = pl.read_parquet(path)
    content.with_columns(pl.lit(value, content.schema[column]).alias(column)).write_parquet(path)
    with pytest.raises(InputError) as error, merged(None, replace(edition, folder=folder)):
        pass
    assert str(error.value).startswith(f"{folder}/pipeline/")
    assert expected in str(error.value)
