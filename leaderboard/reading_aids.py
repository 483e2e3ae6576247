"""What a newcomer asks first: which solver for which kind of instance, and which instances are open."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

import polars as pl

from shardmark.harness.results.ranking import Tables
from shardmark.harness.results.ranking.advice import advice, decisions, nearest, shares
from shardmark.instances import catalog

Row = dict[str, Any]

SHORT_S = 1.0  # the shorter time for which a solver is recommended
MOST_OPEN = 12  # instances with the largest gaps
PATIENCE_S = 300  # time of the command to try on an open instance


def aids(tables: Tables) -> Mapping[str, list[Row]]:
    """Return ``decisions``, rows of `advice.decisions`, and the ``open`` instances of the catalog by gap.

    An open instance has no proof; ``gap`` is None without a bound, and ``command`` is one that may improve on it.
    """
    longest = float(tables.runs["timeout_s"].max() or SHORT_S)  # type: ignore[arg-type]
    usual = tables.runs["timeout_s"].median()
    limits = sorted({min(SHORT_S, longest), float(usual or longest)})  # type: ignore[arg-type]
    return {"decisions": _side_by_side(decisions(tables, limits), limits), "open": _open(tables, longest)}


def _side_by_side(rows: list[Row], limits: list[float]) -> list[Row]:
    """Return a row per kind of instance, with the choice for each time; one of share 0 if nothing was found by then."""
    kinds: dict[tuple[str, str, str], dict[float, Row]] = {}
    for row in rows:
        kinds.setdefault((row["track"], row["division"], row["size"]), {})[row["limit_s"]] = row
    return [
        {"track": track, "division": division, "size": size}
        | {"choices": [choices.get(limit, {"limit_s": limit, "share": 0.0, "instances": 0}) for limit in limits]}
        for (track, division, size), choices in kinds.items()
    ]


def _open(tables: Tables, seconds: float) -> list[Row]:
    known = {(entry.track, entry.id) for entry in catalog.entries()}
    rows = [row for row in tables.instances.iter_rows(named=True) if not row["proven"]]
    rows = [row for row in rows if row["best_cost"] is not None and (row["track"], row["instance"]) in known]
    rows.sort(key=lambda row: (-(math.inf if row["gap"] is None else row["gap"]), row["track"], row["instance"]))
    found = shares(tables, seconds)
    return [row | {"command": _command(row, found)} for row in rows[:MOST_OPEN]]


def _command(row: Row, found: pl.DataFrame) -> str:
    """Return the command that runs the solver to use on an instance for a longer time."""
    nodes = json.loads(row["summary"]).get("nodes") or 1
    of_track = found.filter(pl.col("track") == row["track"])
    choice = advice(nearest(of_track.filter(pl.col("division") == row["division"]), nodes), of_track)
    solver = f" --solver {choice[0]['solver']}" if choice else ""
    return f"shardmark solve {row['instance']}{solver} --timeout {PATIENCE_S}"
