"""Comparison with an edition: versions of methods, limits, and machines."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from shardmark.harness.campaign.discover import SolverInfo, discover
from shardmark.harness.editions.comparing import (
    Comparison,
    compared,
    published_runs,
    published_timeouts,
    published_versions,
)
from shardmark.harness.editions.creating import create
from shardmark.harness.editions.folder import Edition
from shardmark.harness.results.database import Store
from shardmark.harness.results.ranking import tables

YARDSTICK = {"integers": 0.1, "floats": 0.2, "memory": 0.4}


@pytest.fixture(scope="module")
def infos() -> list[SolverInfo]:
    return discover()


def test_an_edition_of_this_code_is_taken_whole(edition: Edition, infos: list[SolverInfo]) -> None:
    with compared(None, edition, infos) as (store, comparison):
        assert tables(store).runs.height == sum(part.runs for part in edition.parts)
    assert (list(comparison.changed), list(comparison.speeds), comparison.machines) == ([], [], "")


def test_a_method_whose_code_has_changed_is_not_taken(edition: Edition, infos: list[SolverInfo]) -> None:
    now = [replace(info, hash="new") if (info.track, info.name) == ("pipeline", "mla") else info for info in infos]
    with compared(None, edition, now) as (store, comparison):
        scored = comparison.noted(tables(store))
    assert comparison.changed == [("pipeline", "mla")]
    assert set(scored.runs.filter(track="pipeline")["solver"]) == {"random-1", "simple"}
    words = "Not taken from the edition 2026.12, as their code has changed since: mla."
    assert scored.notes.filter(note=words)["track"].to_list() == ["pipeline"]


def test_nor_is_one_of_which_own_runs_have_another_version(
    edition: Edition, infos: list[SolverInfo], changed: Callable[..., Path]
) -> None:
    mine = changed(
        "UPDATE runs SET solver_hash = 'other' WHERE solver = 'mla'",
        "UPDATE solvers SET hash = 'other' WHERE name = 'mla'",
    )
    with compared(mine, edition, infos) as (store, comparison):
        assert comparison.changed == [("pipeline", "mla")]
        assert comparison.own(tables(store).runs) == {("pipeline", name) for name in ("mla", "random-1", "simple")}


def measured(results: Path, folder: Path, factor: float) -> Path:
    """Return a copy of results whose machine takes a factor of the time of the yardstick, and was measured."""
    shutil.copytree(results, folder)
    with closing(Store.open(folder, create=True)) as store, store.transaction() as db:
        facts = {"cpu": "x", "yardstick": {kind: factor * seconds for kind, seconds in YARDSTICK.items()}}
        db.execute("UPDATE hosts SET facts = ?", (json.dumps(facts),))
    return folder


@pytest.mark.parametrize(("factor", "told"), [(1.0, "1.00 times"), (1 / 0.84, "0.84 times"), (2.0, "0.50 times")])
def test_times_are_those_of_this_machine(
    factor: float, told: str, small_campaign: dict[str, Path], infos: list[SolverInfo], tmp_path: Path
) -> None:
    edition = create([measured(small_campaign["pipeline"], tmp_path / "pipeline", 1.0)], tmp_path / "2026.12")
    mine = measured(small_campaign["pipeline"], tmp_path / "mine", factor)
    with closing(Store.open(mine, create=True)) as store, store.transaction() as db:
        for table, key in (("incumbents", "run"), ("bounds", "run"), ("runs", "id")):
            db.execute(f"DELETE FROM {table} WHERE {key} IN (SELECT id FROM runs WHERE solver = 'random-1')")
    with compared(mine, edition, infos) as (store, comparison):
        found = comparison.noted(tables(store))
    assert comparison.speeds == pytest.approx([1 / factor])
    assert comparison.machines.startswith(f"This machine is {told} as fast as the edition's, by its yardstick")
    assert ("hardly comparable" in comparison.machines) == (factor == 2.0)
    assert comparison.machines in set(found.notes.filter(track="pipeline")["note"])
    with closing(Store.open(small_campaign["pipeline"])) as store:
        there = tables(store)
    for name, table in (("wall_s", "runs"), ("cpu_s", "runs"), ("time_to_best_s", "runs"), ("time_to_bound_s", "runs")):
        ours, theirs = (getattr(x, table).sort("id").select("id", "solver", name) for x in (found, there))
        scale = pl.when(pl.col("solver") == "random-1").then(factor).otherwise(1.0)
        expected = theirs.with_columns(pl.col(name) * scale)[name].to_list()
        assert ours[name].to_list() == pytest.approx(expected, nan_ok=True)


def test_yardsticks_of_other_versions_are_not_compared(
    small_campaign: dict[str, Path], infos: list[SolverInfo], tmp_path: Path
) -> None:
    other = measured(small_campaign["pipeline"], tmp_path / "pipeline", 1.0)
    with closing(Store.open(other, create=True)) as store, store.transaction() as db:
        db.execute("""UPDATE hosts SET facts = '{"yardstick": {"letters": 1.0}}'""")
    edition = create([other], tmp_path / "2026.12")
    mine = measured(small_campaign["scheduling"], tmp_path / "mine", 2.0)
    with compared(mine, edition, infos) as (store, comparison):
        assert comparison.machines == ""
        assert tables(store).runs.filter(track="pipeline").height == 20


def test_machines_of_several_speeds_are_told_as_a_range() -> None:
    comparison = Comparison(Edition(Path("x"), "2026.12"), [], [0.9, 1.3])
    assert comparison.machines.startswith("This machine is 0.90 to 1.30 times as fast")
    assert "hardly comparable" in comparison.machines


def test_what_an_edition_has_is_known_by_checksum_version_and_id(
    edition: Edition, small_campaign: dict[str, Path]
) -> None:
    ids, versions, checksums = set(), {}, set()
    for folder in small_campaign.values():
        with closing(Store.open(folder)) as store:
            runs = tables(store).runs
            ids |= set(runs["id"])
            checksums |= set(runs["checksum"])
            versions |= {(row[0], row[1]): row[2] for row in runs.select("track", "solver", "solver_hash").iter_rows()}
    assert published_runs(edition) == ids
    assert published_versions(edition) == versions
    assert published_timeouts(edition) == dict.fromkeys(checksums, 10.0)
