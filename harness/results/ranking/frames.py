"""Frames of the ranking: column types, keys, and tables of the store as frames."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import repeat
from typing import Any

import polars as pl

from shardmark.harness.results.database import Store

#: Types of columns that are not text.
_TYPES: dict[str, Any] = {
    **dict.fromkeys(["campaign", "seed", "cores", "number", "feasible", "processes", "co_runners", "jobs"], pl.Int64),
    **dict.fromkeys(["timeout_s", "cpu_limit_s", "memory_mib", "output_mib"], pl.Float64),
    **dict.fromkeys(["wall_s", "cpu_s", "peak_mib", "time_s"], pl.Float64),
    **dict.fromkeys(["cost", "best_cost", "lower_bound", "bound", "value"], pl.Float64),
    **dict.fromkeys(["score", "certified", "gap", "bound_score", "score_low", "score_high", "first_share"], pl.Float64),
    **dict.fromkeys(["best", "proven", "bound_trusted", "bound_best", "bound_proves"], pl.Boolean),
    **dict.fromkeys(["of_cost", "of_bound"], pl.Float64),
    **dict.fromkeys(["better", "contradicted"], pl.Boolean),
    **dict.fromkeys(["best_by", "bound_by"], pl.List(pl.String)),
}
#: Columns of long texts, many of them equal, of which a loaded table keeps one copy.
_REPEATED = ("checksum", "solver_hash", "enforced", "run")

#: Columns of exact decimal text and of floats, by their names in the store.
_RENAMED = {
    **{name: f"{name}_exact" for name in ("cost", "lower_bound", "value")},
    **{f"{name}_float": name for name in ("cost", "lower_bound", "value")},
}

METHOD = ["track", "solver"]
DIVISION = ["track", "division"]
ENTRY = [*DIVISION, "solver"]
CELL = ["track", "solver", "checksum"]


def frame(columns: Sequence[str], rows: Sequence[Sequence[Any]], **types: Any) -> pl.DataFrame:
    known = {**_TYPES, **types}
    values = zip(*rows, strict=True) if rows else repeat((), len(columns))
    return pl.DataFrame([pl.Series(n, v, known.get(n, pl.String)) for n, v in zip(columns, values, strict=True)])


def left_join(rows: pl.DataFrame, others: pl.DataFrame, on: Sequence[str]) -> pl.DataFrame:
    """Join other rows, at most one per key, to ``rows``, whose columns are not copied."""
    found = rows.select(on).join(others, on=list(on), how="left", maintain_order="left")
    return rows.hstack(found.drop(on))


def load(store: Store, table: str, without: Collection[str] = (), **types: Any) -> pl.DataFrame:
    """Return a table of the store, less some columns; InputError for the first value that its column cannot hold.

    The store keeps a cost as ``cost``, exact text, and ``cost_float``. A frame has them as ``cost_exact`` and ``cost``.
    """
    names, batches = store.batches(table, without)
    names = [_RENAMED.get(name, name) for name in names]
    types |= dict.fromkeys(_REPEATED, pl.Categorical)
    loaded = pl.concat([frame(names, (), **types), *(frame(names, batch, **types) for batch in batches)])
    return loaded.with_columns(pl.col(pl.Categorical).cast(pl.String))
