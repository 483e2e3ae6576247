"""Tables that `shardmark results` prints, and exports as Parquet and CSV."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from typing import Any

import polars as pl

from shardmark.harness.results.ranking import Tables
from shardmark.harness.results.ranking.frames import DIVISION

#: The columns that fit a terminal, of exported tables that have more.
_SHORT = {
    "runs": [
        *("track", "division", "instance", "solver", "seed", "status"),
        *("cost_exact", "score", "lower_bound_exact", "certified", "gap", "wall_s"),
    ],
    "solvers": [
        *("track", "division", "rank", "solver", "score_sum", "certified_sum"),
        *("instances", "solved", "expected", "best", "proven"),
    ],
    "incumbents": ["track", "instance", "solver", "seed", "time_s", "feasible", "cost_exact"],
    "bounds": ["track", "instance", "solver", "seed", "time_s", "value_exact"],
}
#: Columns whose text is a JSON object or list.
_JSON = ("params", "claimed", "enforced", "command", "facts", "disturbances")
#: Ending of the columns of exact decimal text; the column without it has the float.
_EXACT = "_exact"


def export_table(scored: Tables, name: str) -> pl.DataFrame:
    """Return a table that ``shardmark results`` prints and exports, with flat columns, by its name there."""
    if name == "runs":
        return run_table(scored).sort("track", "instance", "kind", "solver", "seed")
    if name == "solvers":
        return scored.solvers.drop("kind", "missing")
    if name in ("incumbents", "bounds"):
        return with_names(scored.incumbents if name == "incumbents" else scored.reported, scored.runs)
    return {"published": scored.published, "campaigns": scored.campaigns, "hosts": scored.hosts}[name]


def with_names(reports: pl.DataFrame, runs: pl.DataFrame) -> pl.DataFrame:
    """Return incumbents or bounds, preceded by track, instance, solver and seed of their runs."""
    names = ["track", "instance", "solver", "seed"]
    return (
        reports.join(runs.select(*names, run="id"), on="run").select(*names, pl.exclude(names)).sort(*names, "number")
    )


def as_values(frame: pl.DataFrame) -> list[dict[str, Any]]:
    """Return the rows of an exported table with costs as exact numbers, and JSON texts as objects and lists."""
    exact = [name for name in frame.columns if name.endswith(_EXACT)]
    floats = [name.removesuffix(_EXACT) for name in exact]
    single = frame.drop(floats, strict=False).rename(dict(zip(exact, floats, strict=True)))
    read = {name for name in (*_JSON, *floats) if single.schema.get(name) == pl.String}
    return [{key: _value(value) if key in read else value for key, value in row.items()} for row in single.to_dicts()]


def _value(text: str | None) -> Any:
    """Return the value of a JSON text; any other text, as a foreign database may hold, stays as it is."""
    try:
        return None if text is None else json.loads(text, object_hook=_numbers)
    except ValueError:
        return text


def _numbers(claimed: dict[str, Any]) -> dict[str, Any]:
    """Return an object with its decimals as numbers."""
    decimals = [key for key in ("cost", "lower_bound") if isinstance(claimed.get(key), str)]
    return claimed | {key: _value(claimed[key]) for key in decimals}


def run_table(scored: Tables) -> pl.DataFrame:
    """Return the current runs with their scores, one per row, with flat columns; the best of each instance first."""
    first = ["track", "division", "instance", "solver", "kind", "seed", "status", "cost", "cost_exact", "score"]
    bound = ["lower_bound", "lower_bound_exact", "certified"]
    then = ["gap", "best", "proven", "time_to_best_s", "wall_s", "cpu_s", "peak_mib", "timeout_s", "memory_mib"]
    limits = ["cores", "cpu_limit_s", "processes", "output_mib", "backend", "enforced", "co_runners", "host"]
    last = ["stop", "claimed", "verified", "started", "reason", "solver_hash", "checksum", "id"]
    return scored.runs.select(*first, *bound, *then, *limits, *last)


def shown_table(frame: pl.DataFrame, name: str) -> pl.DataFrame:
    """Return the columns that fit a terminal; divisions only if a track has several."""
    columns = _SHORT.get(name, frame.columns)
    divided = "division" in columns and frame.select(DIVISION).unique()["track"].is_duplicated().any()
    return frame.select(column for column in columns if divided or column != "division")


def parquet(frame: pl.DataFrame) -> bytes:
    """Return a table as Parquet."""
    return _written(frame.write_parquet)


def csv(frame: pl.DataFrame) -> bytes:
    """Return a table as CSV, UTF-8, null as an empty field."""
    return _written(frame.write_csv)


def _written(write: Callable[[io.BytesIO], object]) -> bytes:
    content = io.BytesIO()
    write(content)
    return content.getvalue()
