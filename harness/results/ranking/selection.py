"""Selection of the current runs and the rows they refer to; unique names and divisions of instances."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence

import polars as pl

from shardmark.harness.results.database import Store
from shardmark.harness.results.ranking.frames import CELL, METHOD, load
from shardmark.harness.results.rows import named, shown
from shardmark.instances import TRACKS, InputError, catalog, track_module
from shardmark.instances.options import division


def referred_rows(store: Store, runs: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
    """Return instances, solvers and campaigns; InputError for a run that refers to a row they do not have."""
    instances, solvers = load(store, "instances"), load(store, "solvers")
    campaigns = load(store, "campaigns", id=pl.Int64)
    _require(store, runs, ["checksum", "track"], instances.select("checksum", "track"), "instances")
    _require(store, runs, ["track", "solver", "solver_hash"], solvers.select("track", "name", "hash"), "solvers")
    _require(store, runs, ["campaign"], campaigns.select("id"), "campaigns")
    return instances, solvers, campaigns


def _require(store: Store, rows: pl.DataFrame, columns: Sequence[str], others: pl.DataFrame, table: str) -> None:
    """Raise InputError for the first run that refers to a row that another table does not have."""
    for lost in rows.join(others, left_on=columns, right_on=others.columns, how="anti").iter_rows(named=True):
        found = ", ".join(shown(lost[column]) for column in columns)
        expected = f"expected {', '.join(others.columns)} of a row of {table}, found {found}"
        raise InputError(store.path, f"{named('runs', lost)} {', '.join(columns)}", expected)


def reports_of(store: Store, table: str, runs: pl.DataFrame) -> pl.DataFrame:
    """Return incumbents or bounds of the current runs, in the order of arrival."""
    return load(store, table).join(runs, left_on="run", right_on="id", how="semi").sort("run", "number")


def current_runs(runs: pl.DataFrame, matrix: pl.DataFrame) -> pl.DataFrame:
    """Keep one run of each method's newest version per content and seed: the one that was asked for last."""
    asked = matrix.group_by(id="run").agg(asked=pl.col("campaign").max())
    keys = runs.select(*CELL, "seed", "solver_hash", "campaign", "started", "id").with_row_index("place")
    ordered = keys.join(asked, on="id", how="left").sort(pl.coalesce("asked", "campaign"), "started", "id")
    newest_version = pl.col("solver_hash") == pl.col("solver_hash").last().over(METHOD)
    kept = ordered.filter(newest_version).unique([*CELL, "seed"], keep="last", maintain_order=True)
    return runs[kept["place"]]


def with_unique_names(instances: pl.DataFrame) -> pl.DataFrame:
    """Name instances uniquely in their track: contents (or options) that share an id are told apart by checksum."""
    shared = pl.len().over("track", "id") > 1
    name = pl.when(shared).then(pl.concat_str("id", pl.lit("@"), pl.col("checksum").str.head(8))).otherwise("id")
    return instances.with_columns(instance=name).sort("track", "instance")


def with_notes(instances: pl.DataFrame) -> pl.DataFrame:
    """Add the notes of the catalog; an instance of other content or options than its entry has none."""
    notes = {(entry.track, entry.id): entry.note for entry in catalog.entries()}
    about = [notes.get((track, name), "") for track, name in instances.select("track", "instance").iter_rows()]
    return instances.with_columns(pl.Series("about", about, pl.String))


def with_divisions(instances: pl.DataFrame) -> tuple[pl.DataFrame, dict[str, list[str]]]:
    """Add the division to instances; return also the names of the divisions of each track, in their order."""
    found = [_division(*row) for row in instances.select("track", "summary").iter_rows()]
    divided = instances.with_columns(pl.Series("division", [name for _, name in found], pl.String))
    names: dict[str, list[str]] = defaultdict(list)
    for track, (_, name) in sorted(set(zip(instances["track"], found, strict=True))):
        names[track].append(name)
    return divided, names


def _division(track: str, summary: str) -> tuple[tuple[int, ...], str]:
    return division(track_module(track).OPTIONS, json.loads(summary))


def track_titles(runs: pl.DataFrame) -> dict[str, str]:
    """Return the tracks that have runs, each with its description: the first line of its module's docstring."""
    found = set(runs["track"])
    return {track: _describe(track) for track in TRACKS if track in found}


def _describe(track: str) -> str:
    line = (track_module(track).__doc__ or "").strip().split("\n")[0]
    return re.sub(r"^Track\s+`*\w+`*:\s*", "", line).replace("``", "")


def with_run_counts(rows: pl.DataFrame, runs: pl.DataFrame, key: Mapping[str, str]) -> pl.DataFrame:
    """Add to campaigns or machines the number of their runs; ``key`` maps columns of ``runs`` to theirs."""
    counted = runs.group_by(list(key)).agg(runs=pl.len()).rename(key)
    names = list(key.values())
    return rows.join(counted, on=names, how="left").with_columns(pl.col("runs").fill_null(0)).sort(names)
