"""Pages of reproductions: a paper's tables and figures compared with ours, in a folder that later builds keep."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from markupsafe import Markup

from shardmark.leaderboard import charts, published_results
from shardmark.leaderboard.build import (
    REPRODUCE,
    File,
    InputError,
    has_docs,
    has_regressions,
    held,
    menu,
    publish,
    reproductions,
    static,
)
from shardmark.leaderboard.charts import Bar, Curve, Rule, Scale, Strip
from shardmark.leaderboard.drawings import pictures
from shardmark.leaderboard.pages.environment import environment
from shardmark.leaderboard.report import PAPER, Axis, Bars, Ladder, Line, Picture, Plot, Report, Strips, Table
from shardmark.leaderboard.text import BEYOND, short

WITHOUT_RUNS = '<meta name="runs" content="none"/>'  # marks a page whose figures are all published ones


def write(report: Report, output: Path) -> Path:
    """Write the page of a report into the site in ``output``, which may still be empty; return its path.

    Raises InputError for a folder that holds anything but a site or cannot be written, and for a report without runs
    that would replace a page with some.
    """
    output = Path(output).resolve()
    page = output / REPRODUCE / f"{report.name}.html"
    with held(output):
        _keep_runs(report, page)
        publish(output, _files(report, output), keep=True)
    return page


def _files(report: Report, folder: Path) -> Iterator[File]:
    """The page of a report, the list of all reports, and static files."""
    around: dict[str, Any] = {"menu": menu(folder), "regressions": has_regressions(folder), "docs": has_docs(folder)}
    around["leaderboard"] = (folder / "index.html").is_file()
    page = render(report, **around)
    titles = {**reproductions(folder), report.name: report.title}
    yield from static()
    yield f"{REPRODUCE}/{report.name}.html", page
    yield f"{REPRODUCE}/index.html", render_list(dict(sorted(titles.items())), **around)


def _keep_runs(report: Report, page: Path) -> None:
    """Raise InputError if a report without runs would replace a page with some."""
    if report.empty and page.is_file() and WITHOUT_RUNS not in page.read_text(encoding="utf-8"):
        words = "expected runs: nothing was run here, so the earlier page, which shows runs, is kept"
        raise InputError(page, "", words)


def render(report: Report, *, leaderboard: bool, **menu: Any) -> str:
    """The page of a report; ``leaderboard`` is True if there is one to link to; ``menu`` has the other links."""
    template = environment().get_template("reproduction.html")
    sections = [(section, [grid(x) for x in section.tables], figures(section.pictures)) for section in report.sections]
    return template.render(root="../", report=report, sections=sections, leaderboard=leaderboard, **menu)


def render_list(titles: Mapping[str, str], *, leaderboard: bool, **menu: Any) -> str:
    """The page that lists all reports, by name, with their titles."""
    template = environment().get_template("reproductions.html")
    return template.render(root="../", titles=titles, leaderboard=leaderboard, **menu)


@dataclass(frozen=True)
class Cell:
    """A cell of a table; ``key`` is its sort key, None for words."""

    shown: str
    key: str | None


@dataclass(frozen=True)
class Grid:
    """A table for a page: (heading, numeric) for each column, and (published, cells) for each row."""

    title: str
    note: str
    headings: Sequence[tuple[str, bool]]
    rows: Sequence[tuple[bool, Sequence[Cell]]]


def grid(table: Table) -> Grid:
    """The cells of a table."""
    names = list(table.rows[0]) if table.rows else []
    numeric = {name: all(not isinstance(row[name], str) for row in table.rows) for name in names}
    decimals = table.decimals
    rows = [
        (PAPER in row.values(), [_cell(row[name], numeric[name], decimals[name]) for name in names])
        for row in table.rows
    ]
    return Grid(table.title, table.note, list(numeric.items()), rows)


def _cell(value: Any, numeric: bool, digits: int) -> Cell:
    if value is None:
        return Cell("–", "" if numeric else None)
    if value == math.inf:
        return Cell(BEYOND, "Infinity")
    if isinstance(value, float):
        return Cell(f"{value:,.{digits}f}".replace("-", "−"), repr(value))
    return Cell(f"{value:,}", str(value)) if numeric else Cell(value, None)


def figures(pictures: Sequence[Picture]) -> list[tuple[Picture, Markup]]:
    """Pictures with their drawings; several in a section are half as wide."""
    wide = charts.HALF if len(pictures) > 1 else charts.WIDE
    return [(x, _drawing(x, wide)) for x in pictures]


def _drawing(picture: Picture, wide: int) -> Markup:
    drawn: dict[type, Callable[[Any, int], Markup]] = {Plot: plot, Ladder: ladder, Bars: bars, Strips: strips}
    return drawn.get(type(picture), pictures.draw)(picture, wide)


def strips(picture: Strips, wide: int) -> Markup:
    """Rows of dots."""
    rows = [
        Strip(
            name,
            None,
            [
                published_results.mark(dot.name, dot.value, dot.role, _style(dot.colour), name, picture.zero)
                for dot in dots
            ],
        )
        for name, dots in picture.rows
    ]
    return published_results.draw(rows, picture.axis, picture.zero, wide)


def ladder(picture: Ladder, wide: int) -> Markup:
    """One bar per bracket, from the proven bound up to 1."""
    bars = [
        Bar(
            name=bracket.name,
            href=None,
            value=1.0,
            floor=bracket.low,
            words=f"{bracket.low:.4f}",
            title=f"{bracket.name}: the optimum lies between {bracket.low:.4f} and 1",
            style="s0" if bracket.published else "s1",
        )
        for bracket in picture.brackets
    ]
    return charts.responsive(lambda width: charts.ranking(bars, width, picture.axis), wide)


def bars(picture: Bars, wide: int) -> Markup:
    """One bar per mean, from 0, with its deviation; four digits of the greatest mean set the decimals of all."""
    digits = max(3 - math.floor(math.log10(max((row.value for row in picture.rows), default=1.0) or 1.0)), 0)
    rows = [
        Bar(
            name=row.name,
            href=None,
            value=row.value,
            floor=0.0,
            words=f"{row.value:,.{digits}f}",
            title=f"{row.name}: {row.value:.6g}{f', standard deviation {row.deviation:.3g}' if row.deviation else ''}",
            style=_style(row.colour),
            whisker=(row.value - row.deviation, row.value + row.deviation),
        )
        for row in picture.rows
    ]
    scale = charts.linear(0.0, 1.04 * max((row.value + row.deviation for row in picture.rows), default=1.0))
    return charts.responsive(lambda width: charts.ranking(rows, width, picture.axis, scale, picture.bound), wide)


def plot(picture: Plot, wide: int) -> Markup:
    """Lines or points on the axes of the picture."""
    x = _scale(picture.x, [a for line in picture.lines for a, _ in line.points])
    spread = [value for line in picture.lines for _, *ends in line.spread for value in ends]
    heights = [b for line in picture.lines for _, b in line.points]
    y = _scale(picture.y, [*heights, *spread, *(value for value, _ in picture.rules)])
    lines = [_curve(line, x.high) for line in picture.lines if line.points]
    rules = [Rule(value, words, f"{words}: {value:.3g}{picture.y.unit}") for value, words in picture.rules]
    return charts.figure(lines, x, y, (picture.x.words, picture.y.words), rules=rules, wide=wide)


def _curve(line: Line, until: float) -> Curve:
    style = f"{_style(line.colour)}{' published' if line.published else ''}"
    label = "" if line.published else line.name
    until = line.points[-1][0] if line.shape == "steps" else until
    return Curve(line.name, line.points, until, style, label, True, line.shape, line.spread)


def _style(colour: int) -> str:
    """The class of a colour."""
    return f"s{(colour - 1) % charts.COLOURS + 1}" if colour else "s0"


def _scale(axis: Axis, values: Sequence[float]) -> Scale:
    """A scale that covers the values, or the span that the axis asks for."""
    if axis.at:
        return Scale(
            min(axis.at), max(axis.at), math.log10 if axis.logarithmic else float, [(v, short(v)) for v in axis.at]
        )
    values = [value for value in values if math.isfinite(value)]
    empty = (1.0, 10.0) if axis.logarithmic else (0.0, 1.0)
    low, high = axis.span or ((min(values), max(values)) if values else empty)
    if axis.distances:
        return charts.gaps(min(low, 0.0), max(1.2 * high, 0.002))

    def label(value: float) -> str:
        return f"{short(value)}{axis.unit}"

    if axis.logarithmic:
        return charts.logarithmic(low * 0.95, high * 1.05, label)
    margin = 0.04 * (high - low) or 1.0
    return charts.linear(low - margin, high + margin, label)
