"""Answers to a newcomer's first questions: which solver for which kind of instance, and which instances are open."""

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
    return {"decisions": side_by_side(decisions(tables, limits), limits), "open": _open(tables, longest)}


def side_by_side(rows: list[Row], limits: list[float]) -> list[Row]:
    """Return a row per kind of instance, with the choice for each time; one of share 0 if nothing was found by then.

    Neighbouring sizes with the same choices are one kind.
    """
    kinds: dict[tuple[str, str, float, float], dict[float, Row]] = {}
    for row in rows:
        kinds.setdefault((row["track"], row["division"], row["least"], row["most"]), {})[row["limit_s"]] = row
    found: list[Row] = []
    for (track, division, least, most), by_limit in kinds.items():
        choices = [by_limit.get(limit, {"limit_s": limit, "share": 0.0, "instances": 0}) for limit in limits]
        last = found[-1] if found else {}
        if (track, division, least) == tuple(map(last.get, ("track", "division", "most"))) and all(
            one["share"] and other["share"] and one["solver"] == other["solver"]
            for one, other in zip(choices, last["choices"], strict=True)
        ):
            last["most"] = most
            for one, other in zip(choices, last["choices"], strict=True):
                other |= {key: one[key] + other[key] for key in ("close", "instances")}
        else:
            found.append({"track": track, "division": division, "least": least, "most": most, "choices": choices})
    return [row | {"size": _size(row["least"], row["most"])} for row in found]


def _size(least: float, most: float) -> str:
    if not least:
        return "any" if math.isinf(most) else f"up to {most:,g} nodes"
    return f"over {least:,g} nodes" if math.isinf(most) else f"{least + 1:,g} to {most:,g} nodes"


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
