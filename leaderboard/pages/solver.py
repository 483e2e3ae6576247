"""The page of a solver or bound method: its places, its results, and its runs."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from shardmark.leaderboard.charts import Bar
from shardmark.leaderboard.pages.axes import losses
from shardmark.leaderboard.pages.cells import Parts, unfinished
from shardmark.leaderboard.pages.machines import ways
from shardmark.leaderboard.pages.site import Page, Site
from shardmark.leaderboard.pages.tracks import Division, Row, Track
from shardmark.leaderboard.text import page_of, score_text

MAX_BARS = 40  # at most, of the chart of its results
MAX_ENDS = 200  # runs whose end is told
#: Columns of runs that the page needs.
SHOWN = [
    *("instance", "solver", "seed", "status", "reason", "stop", "claimed", "verified"),
    *("cpu_s", "cpu_limit_s", "co_runners", "host", "backend", "enforced", "cost", "bound_trusted"),
]


def pages(site: Site) -> Iterator[Page]:
    """Yield a page per solver and bound method."""
    for track in site.tracks:
        cells = site.cells.drop("seeds", "asked").filter(pl.col("track") == track.name)
        cells_of, runs_of = Parts(cells, "solver"), Parts(track.runs.select(SHOWN), "solver")
        for name, method in (track.solvers | track.methods).items():
            content = _solver(track, method, runs_of[name,].sort("instance", "seed"), cells_of[name,])
            yield site.page(page_of("solvers", track.name, name), "solver.html", **content)


def _solver(track: Track, method: Row, runs: pl.DataFrame, results: pl.DataFrame) -> Row:
    name = method["solver"]
    by_instance = {row["checksum"]: row for row in results.sort("instance").iter_rows(named=True)}
    cells = [(d, i, by_instance.get(i["checksum"])) for d in track.divisions for i in d.instances]
    ranked = [(d, cell) for d, _, cell in cells if cell is not None and d.places(name)]
    few = 0 < len(ranked) <= MAX_BARS  # otherwise the table below suffices
    axis = "1 − lower bound / best known cost" if method["kind"] == "bound" else "1 − score: 1 − best / cost"
    return {
        "track": track,
        "method": method,
        "leader": _leader(track, name) if method["kind"] == "solver" else None,
        "places": [(division, row) for division in track.divisions for row in division.places(name)],
        "declined": [d for d in track.divisions if any(row["solver"] == name for row in d.declined)],
        "cells": list(by_instance.values()),
        "ended": runs.head(MAX_ENDS).to_dicts(),
        "runs": runs.height,
        "unfinished": unfinished(runs).to_dicts(),
        "ways": ways(runs),
        "chart": losses([_cell_bar(d, cell) for d, cell in ranked], axis) if few else None,
        "contradictions": [c for c in track.contradictions if c["solver"] == name],
        "absent": [instance["instance"] for _, instance, cell in cells if cell is None],
    }


def _leader(track: Track, name: str) -> str | None:
    """Return the first solver, other than itself, of a ranking that a solver takes part in."""
    firsts = (division.ranking[0]["solver"] for division in track.divisions if division.places(name))
    return next((first for first in firsts if first != name), None)


def _cell_bar(division: Division, cell: Row) -> Bar:
    bound = cell["kind"] == "bound"
    value, floor = (cell["bound_score"], None) if bound else (cell["score"], cell["certified"])
    return Bar(
        name=cell["instance"],
        href="../../" + page_of("instances", division.track, cell["instance"]),
        value=value,
        floor=floor,
        words=score_text(value),
        title=f"{cell['instance']}: {score_text(value)}" + (f", certified {score_text(floor)}" if floor else ""),
        style=division.colours.get(cell["solver"], "s0"),
    )
