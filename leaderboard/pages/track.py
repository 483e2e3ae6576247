"""The page of a track: rankings, profiles, the matrix of solvers and instances, and published results."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

import polars as pl
from markupsafe import Markup

from leaderboard import charts, published_results
from leaderboard.charts import Curve
from leaderboard.pages.axes import fractions, times
from leaderboard.pages.front import front
from leaderboard.pages.site import Page, Site
from leaderboard.pages.tracks import Division, Row, grouped
from leaderboard.text import page_of

MAX_ROWS = 40  # at most, of a ranking chart
PROFILE_LIMIT = 99.0  # performance profiles end at 100 times the best cost


def pages(site: Site) -> Iterator[Page]:
    """Yield a page per track."""
    for track in site.tracks:
        parts = [_division(site, division) for division in track.divisions]
        content = {"track": track, "parts_of_track": parts, "failures": _counts(track.failed)}
        yield site.page(page_of("tracks", track.name), "track.html", **content)


def _division(site: Site, division: Division) -> Row:
    cells = site.by_cell
    matrix = [
        (instance, [cells.get((division.track, s["solver"], instance["checksum"])) for s in division.ranking])
        for instance in division.instances
    ]
    of_each = grouped(division.published, "instance"), grouped(division.runs, "instance")
    beside = published_results.beside(division.instances, *of_each)
    return front(division, "../", MAX_ROWS, charts.WIDE) | {
        "profile": _profile(site, division),
        "anytime": _anytime(site, division),
        "matrix": matrix,
        "others": published_results.summary(division.published),
        "others_matrix": beside,
        "others_chart": published_results.chart(division, beside),
    }


def _of(frame: pl.DataFrame, division: Division) -> pl.DataFrame:
    """The rows of a division."""
    return frame.filter((pl.col("track") == division.track) & (pl.col("division") == division.name))


def _curves(division: Division, frame: pl.DataFrame, x: str, y: str, until: float, words: str) -> list[Curve]:
    """One curve per solver, in the order of the ranking."""
    rows = grouped(frame.iter_rows(named=True), "solver")
    return [
        Curve(
            title=words.format(solver=name),
            points=[(rows[name][0][x], 0.0), *((row[x], row[y]) for row in rows[name])],
            until=until,
            style=style,
            label=name if style != "s0" else "",
            solver=name,
        )
        for name, style in division.colours.items()
        if name in rows
    ]


def _profile(site: Site, division: Division) -> Markup | None:
    frame = _of(site.tables.profiles, division).with_columns(gap=pl.col("ratio") - 1)
    if frame.is_empty():
        return None
    far = min(max(float(frame["gap"].max() or 0) * 1.2, 0.01), PROFILE_LIMIT)  # type: ignore[arg-type]
    near = frame.filter(pl.col("gap") <= far)
    lines = _curves(division, near, "gap", "share", far, "{solver}: share of instances within a cost")
    x = charts.gaps(0.0, far)
    return charts.figure(lines, x, fractions(), ("cost above the best known", "share of instances"), wide=charts.HALF)


def _anytime(site: Site, division: Division) -> Markup | None:
    frame = _of(site.tables.anytime, division)
    if frame.is_empty():
        return None
    axis = times(frame["time_s"].to_list(), max(run["timeout_s"] for run in division.runs))
    lines = _curves(division, frame, "time_s", "score", axis.high, "{solver}: mean score over time")
    return charts.figure(lines, axis, fractions(), ("time since the start", "mean score so far"), wide=charts.HALF)


def _counts(failed: Iterable[Row]) -> list[tuple[str, int]]:
    return sorted(Counter(run["status"] for run in failed).items(), key=lambda item: (-item[1], item[0]))
