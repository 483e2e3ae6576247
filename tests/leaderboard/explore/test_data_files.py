"""The data files of comparisons: scripts of one assignment each, with current and older runs told apart."""

from __future__ import annotations

import json
import re
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from shardmark.harness.results.database import Store
from shardmark.harness.results.ranking import Tables, tables
from shardmark.leaderboard.explore.data_files import INDEX, curves_file, files, runs_file
from shardmark.leaderboard.explore.newest import newest_solver
from shardmark.leaderboard.explore.pairs import pairs
from shardmark.leaderboard.pages.tracks import tracks_of
from tests.leaderboard.conftest import HOSTILE, fill
from tests.leaderboard.later import NEWER, add_later


def value(script: str) -> Any:
    """The value that a data file assigns."""
    assert script.isascii()
    assigned = re.fullmatch(
        r"(?:const shardmarkData|shardmarkData\.(?:runs|curves)\[\".*?\"\])=(.*);\n", script, re.DOTALL
    )
    assert assigned
    return json.loads(assigned[1])


@pytest.fixture(scope="module")
def written(scored: Tables) -> dict[str, str]:
    return dict(files(scored))


def test_there_is_a_file_per_method_and_per_instance(written: dict[str, str], scored: Tables) -> None:
    methods = {runs_file(*key) for key in scored.runs.select("track", "solver").unique().iter_rows()}
    instances = {curves_file(*key) for key in scored.instances.select("track", "instance").iter_rows()}
    assert set(written) == {INDEX} | methods | instances
    index = value(written[INDEX])
    assert {method["file"] for track in index["tracks"].values() for method in track["methods"]} == methods
    assert {path for track in index["tracks"].values() for path in track["instances"]["curves"]} == instances


def test_columns_are_those_of_the_runs(written: dict[str, str], scored: Tables) -> None:
    columns = value(written[runs_file("pipeline", "merge")])
    names = value(written[INDEX])["tracks"]["pipeline"]["instances"]["name"]
    rows = scored.runs.filter(scored.runs["solver"] == "merge")
    assert [names[place] for place in columns["instance"]] == rows["instance"].to_list()
    assert columns["value"] == rows["cost"].to_list()
    assert columns["score"] == pytest.approx(rows["score"].to_list(), abs=1e-11)
    assert [columns["statuses"][number] for number in columns["status"]] == rows["status"].to_list()
    assert columns["campaigns"] == [[2]]


def test_bounds_that_are_not_trusted_have_no_value(written: dict[str, str], scored: Tables) -> None:
    columns = value(written[runs_file("pipeline", "anchored")])
    trusted = scored.runs.filter(scored.runs["solver"] == "anchored")["bound_trusted"].to_list()
    assert [found is not None for found in columns["value"]] == trusted
    assert False in trusted


def test_curves_come_down_to_the_cost(written: dict[str, str], scored: Tables) -> None:
    lines = value(written[curves_file("intraop", "tight")])
    [(_, version, seed, times, values)] = [line for line in lines if line[0] == HOSTILE]
    [cost] = scored.runs.filter((scored.runs["solver"] == HOSTILE) & (scored.runs["instance"] == "tight"))["cost"]
    assert (len(version), seed, values[-1]) == (12, 0, cost)
    assert values == sorted(values, reverse=True)
    assert times == sorted(times)


def test_the_same_tables_give_the_same_bytes(written: dict[str, str], scored: Tables) -> None:
    assert dict(files(scored)) == written


def test_leaders_are_compared_pair_by_pair(scored: Tables) -> None:
    [track] = [track for track in tracks_of(scored, scored.runs) if track.name == "pipeline"]
    rows = pairs(scored, track.divisions[0])
    assert len(rows) == 15
    assert rows[0] == {
        "first": "brkga-10000",
        "second": "brkga-100",
        "instances": 10,
        "wins": 10,
        "ties": 0,
        "losses": 0,
        "p": 2 / 2**10,
    }


def test_older_versions_and_new_solvers_are_told_apart(tmp_path: Path) -> None:
    with closing(Store.open(tmp_path, create=True)) as store:
        fill(store)
        campaign = add_later(store)
        scored = tables(store)
    assert (newest_solver(scored, "pipeline"), newest_solver(scored, "intraop")) == ("newcomer", None)
    published = replace(  # as of an edition: pieces of one campaign
        scored,
        runs=scored.runs.with_columns(pl.col("campaign") - 10),
        history=replace(scored.history, runs=scored.history.runs.with_columns(pl.col("campaign") - 10)),
    )
    assert newest_solver(published, "pipeline") is None
    assert set(scored.history.runs["solver"]) == {"moves"}
    written = dict(files(scored))
    columns = value(written[runs_file("pipeline", "moves")])
    assert columns["versions"] == [NEWER[:12], "05" * 6]
    assert columns["version"] == [1] * 10 + [0] * 10
    assert [columns["campaigns"][number] for number in columns["asked"]] == [[2]] * 10 + [[campaign]] * 10
    old, new = columns["value"][1:10], columns["value"][11:20]
    assert new == pytest.approx([0.9 * cost for cost in old], rel=1e-6)
    curves = value(written[curves_file("pipeline", "regal-02-k2")])
    assert [line[1] for line in curves if line[0] == "moves"] == ["05" * 6, NEWER[:12]]
