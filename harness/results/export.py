"""Tables that `shardmark results` prints, and exports as Parquet and CSV."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

import polars as pl

from harness.results.ranking import Tables
from harness.results.ranking.frames import DIVISION
from instances.files.jsonfile import write_bytes

#: The columns that fit a terminal, of exported tables that have more.
_SHORT = {
    "runs": [
        *("track", "division", "instance", "solver", "seed", "status"),
        *("cost", "score", "lower_bound", "certified", "gap", "wall_s"),
    ],
    "solvers": [
        *("track", "division", "rank", "solver", "score_sum", "certified_sum"),
        *("instances", "solved", "expected", "best", "proven"),
    ],
}


def export_table(scored: Tables, name: str) -> pl.DataFrame:
    """Return a table that ``shardmark results`` prints and exports, with flat columns, by its name there."""
    if name == "runs":
        return run_table(scored)
    if name == "solvers":
        return scored.solvers.drop("kind", "missing")
    exported = {"incumbents": scored.incumbents, "bounds": scored.reported, "published": scored.published}
    return {**exported, "campaigns": scored.campaigns, "hosts": scored.hosts}[name]


def run_table(scored: Tables) -> pl.DataFrame:
    """Return the current runs with their scores, one per row, with flat columns."""
    first = ["track", "division", "instance", "solver", "kind", "seed", "status", "cost", "score"]
    bound = ["lower_bound", "certified"]
    then = ["gap", "best", "proven", "time_to_best_s", "wall_s", "cpu_s", "peak_mib", "timeout_s", "memory_mib"]
    limits = ["cores", "cpu_limit_s", "processes", "output_mib", "backend", "enforced", "co_runners", "host"]
    last = ["stop", "claimed", "verified", "started", "reason", "solver_hash", "checksum", "id"]
    order = ["track", "instance", "kind", "solver", "seed"]
    return scored.runs.select(*first, *bound, *then, *limits, *last).sort(order)


def shown_table(frame: pl.DataFrame, name: str) -> pl.DataFrame:
    """Return the columns that fit a terminal; divisions only if a track has several."""
    columns = _SHORT.get(name, frame.columns)
    divided = "division" in columns and frame.select(DIVISION).unique()["track"].is_duplicated().any()
    return frame.select(column for column in columns if divided or column != "division")


def write_parquet(frame: pl.DataFrame, path: str | Path) -> None:
    """Write a table as Parquet; InputError if the file cannot be written."""
    _write(path, frame.write_parquet)


def write_csv(frame: pl.DataFrame, path: str | Path) -> None:
    """Write a table as CSV, UTF-8, null as an empty field; InputError if the file cannot be written."""
    _write(path, frame.write_csv)


def _write(path: str | Path, write: Callable[[io.BytesIO], object]) -> None:
    content = io.BytesIO()
    write(content)
    write_bytes(path, content.getvalue())
