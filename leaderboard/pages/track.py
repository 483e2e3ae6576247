"""The page of a track: rankings, profiles, the matrix of solvers and instances, and published results."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl
from markupsafe import Markup

from shardmark.leaderboard import charts, published_results
from shardmark.leaderboard.charts import Curve
from shardmark.leaderboard.pages.axes import fractions, times
from shardmark.leaderboard.pages.cells import failed
from shardmark.leaderboard.pages.front import front
from shardmark.leaderboard.pages.site import Page, Site
from shardmark.leaderboard.pages.tracks import Division, Row, grouped
from shardmark.leaderboard.text import page_of

MAX_ROWS = 40  # at most, of a ranking chart
MAX_CURVES = 25  # at most, of a chart of curves
MAX_CELLS = 8000  # at most, of all matrices of a page; more would pass 2 MiB
FEW_SOLVERS = 10  # that a matrix always has, however many the instances are
PROFILE_LIMIT = 99.0  # performance profiles end at 100 times the best cost


def pages(site: Site) -> Iterator[Page]:
    """Yield a page per track."""
    for track in site.tracks:
        room = MAX_CELLS // len(track.divisions)
        parts = [_division(site, division, room) for division in track.divisions]
        content = {"track": track, "parts_of_track": parts, "failures": _counts(failed(track.runs))}
        yield site.page(page_of("tracks", track.name), "track.html", **content)


def _division(site: Site, division: Division, room: int) -> Row:
    """Content of a division's part of the page; ``room`` is the greatest number of cells of its matrix."""
    elsewhere = grouped(division.published, "instance")
    solved = division.runs.filter(pl.col("instance").is_in(list(elsewhere)) & pl.col("cost").is_not_null())
    ours = grouped(solved.select("instance", "solver", "cost", "cost_exact").iter_rows(named=True), "instance")
    compared = published_results.comparisons(division.instances, elsewhere, ours)
    solvers, matrix = _matrix(site, division, room)
    return front(division, "../", MAX_ROWS, charts.WIDE, site.newest[division.track]) | {
        "profile": _profile(site, division),
        "anytime": _anytime(site, division),
        "matrix": matrix,
        "matrix_solvers": solvers,
        "others": published_results.summary(division.published),
        "others_matrix": compared,
        "others_chart": published_results.chart(division, compared),
    }


def _matrix(site: Site, division: Division, room: int) -> tuple[list[str], list[tuple[Row, list[Row | None]]]]:
    """The first solvers of the ranking, and each of the first instances with its cells, as far as there is room."""
    solvers = [row["solver"] for row in division.ranking[: max(room // max(division.size, 1), FEW_SOLVERS)]]
    instances = division.instances[: max(room // max(len(solvers), 1), 1)]
    shown = _of(site.tables.results, division).filter(pl.col("solver").is_in(solvers))
    columns = ("solver", "checksum", "solved", "score", "best")
    cells = {(row["solver"], row["checksum"]): row for row in shown.select(columns).iter_rows(named=True)}
    return solvers, [(i, [cells.get((solver, i["checksum"])) for solver in solvers]) for i in instances]


def _of(frame: pl.DataFrame, division: Division) -> pl.DataFrame:
    """The rows of a division."""
    return frame.filter((pl.col("track") == division.track) & (pl.col("division") == division.name))


def _leaders(division: Division, newest: str | None) -> list[str]:
    """The solvers with a curve: the first of the ranking, and the newest."""
    return [name for place, name in enumerate(division.colours) if place < MAX_CURVES or name == newest]


def _curves(
    division: Division, newest: str | None, frame: pl.DataFrame, x: str, y: str, until: float, words: str
) -> list[Curve]:
    """One curve per solver, in the order of the ranking, as far as there are rows."""
    rows = grouped(frame.iter_rows(named=True), "solver")
    return [
        Curve(
            title=words.format(solver=name),
            points=[(rows[name][0][x], 0.0), *((row[x], row[y]) for row in rows[name])],
            until=until,
            style=style,
            label=name if style != "s0" or name == newest else "",
            solver=name,
        )
        for name, style in division.colours.items()
        if name in rows
    ]


def _profile(site: Site, division: Division) -> Markup | None:
    frame = _of(site.tables.profiles, division).filter(
        pl.col("solver").is_in(_leaders(division, site.newest[division.track]))
    )
    frame = frame.with_columns(gap=pl.col("ratio") - 1)
    if frame.is_empty():
        return None
    far = min(max(float(frame["gap"].max() or 0) * 1.2, 0.01), PROFILE_LIMIT)  # type: ignore[arg-type]
    near = frame.filter(pl.col("gap") <= far)
    lines = _curves(
        division, site.newest[division.track], near, "gap", "share", far, "{solver}: share of instances within a cost"
    )
    x = charts.gaps(0.0, far)
    return charts.figure(lines, x, fractions(), ("cost above the best known", "share of instances"), wide=charts.HALF)


def _anytime(site: Site, division: Division) -> Markup | None:
    frame = _of(site.tables.anytime, division).filter(
        pl.col("solver").is_in(_leaders(division, site.newest[division.track]))
    )
    if frame.is_empty():
        return None
    axis = times(frame["time_s"].to_list(), float(division.runs["timeout_s"].max()))  # type: ignore[arg-type]
    lines = _curves(
        division, site.newest[division.track], frame, "time_s", "score", axis.high, "{solver}: mean score over time"
    )
    return charts.figure(lines, axis, fractions(), ("time since the start", "mean score so far"), wide=charts.HALF)


def _counts(runs: pl.DataFrame) -> list[tuple[str, int]]:
    """Each status and its number of runs, most runs first."""
    return runs["status"].value_counts().sort("count", "status", descending=[True, False]).rows()
