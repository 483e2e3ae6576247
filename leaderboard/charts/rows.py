"""Charts of rows on a shared axis: rankings, and strips of marks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

from shardmark.leaderboard.charts.elements import NARROW, named, svg, tag, text, tooltip
from shardmark.leaderboard.charts.scales import Scale, linear
from shardmark.leaderboard.text import printable, shorten


def ruled(scale: Scale, left: int, inner: int, top: int, foot: int, axis: str) -> list[Markup]:
    """The grid lines and labels of an axis that rows share; it is ``inner`` wide."""
    ticks = [(left + inner * scale(value), words) for value, words in scale.ticks]
    lines = [tag("line", class_="grid", x1=x, x2=x, y1=float(top), y2=float(foot)) for x, _ in ticks]
    labels = [text(words, x, foot + 16.0, class_="tick", text_anchor="middle") for x, words in without_overlaps(ticks)]
    return [*lines, *labels, text(axis, left + inner / 2, foot + 34.0, class_="axis", text_anchor="middle")]


def without_overlaps(ticks: Iterable[tuple[float, str]]) -> list[tuple[float, str]]:
    """The labels that do not overlap, with their positions."""
    kept: list[tuple[float, str]] = []
    for x, words in ticks:
        if not kept or x - kept[-1][0] > 3.6 * (len(words) + len(kept[-1][1])) + 6:
            kept.append((x, words))
    return kept


def row_name(words: str, left: int, y: float) -> Markup:
    """The name of a row, left of the marks that begin at ``left``."""
    return text(shorten(printable(words), (left - 8) // 7), left - 12.0, y + 4.5, class_="name", text_anchor="end")


@dataclass(frozen=True)
class Bar:
    """A row of a ranking: a dot at ``value``, and a bar down to ``floor``, the certified part, if that is known.

    ``whisker`` has the two ends of a line through the dot; ``solver`` is the solver that the row is of, if it is one.
    """

    name: str
    href: str | None
    value: float
    floor: float | None
    words: str
    title: str
    style: str
    whisker: tuple[float, float] | None = None
    solver: str | None = None


def ranking(
    bars: Sequence[Bar], width: int, axis: str, scale: Scale | None = None, limit: float | None = None
) -> Markup:
    """One row per bar on a shared axis, by default of fractions up to 1, with a line across the rows at ``limit``."""
    left, right, row = (150, 66, 28) if width > NARROW else (104, 50, 30)
    top, bottom = 8, 40
    low = lowest([value for bar in bars for value in (bar.value, bar.floor) if value is not None])
    scale = scale or linear(low, 1.0, "{:.4g}".format)
    height = top + row * len(bars) + bottom
    inner = width - left - right

    def x(value: float) -> float:
        return left + inner * scale(value)

    parts = ruled(scale, left, inner, top, top + row * len(bars), axis)
    for i, bar in enumerate(bars):
        parts.append(_bar(bar, x, top + row * (i + 0.5), left, width))
    if limit is not None:
        parts.append(tag("line", class_="limit", x1=x(limit), x2=x(limit), y1=top, y2=height - bottom))
    return svg(width, height, f"{len(bars)} rows: {axis}", parts)


def lowest(values: Iterable[float]) -> float:
    """Start of the axis of a ranking: 0, or closer to 1 if all scores are close to it."""
    least = min(values, default=0.0)
    return next((start for start in (0.99, 0.9, 0.8, 0.5) if least > start + (1 - start) * 0.05), 0.0)


def _bar(bar: Bar, x: Callable[[float], float], y: float, left: int, width: int) -> Markup:
    marks = [tooltip(bar.title), tag("rect", class_="hit", x=0, y=y - 13, width=width, height=26)]
    if bar.floor is not None and x(bar.value) - x(bar.floor) > 0.5:
        span = x(bar.value) - x(bar.floor)
        marks.append(tag("rect", class_="span", x=x(bar.floor), y=y - 4, width=span, height=8, rx=4))
        marks.append(tag("line", class_="floor", x1=x(bar.floor), x2=x(bar.floor), y1=y - 7, y2=y + 7))
    if bar.whisker is not None:
        marks.append(tag("line", class_="floor", x1=x(bar.whisker[0]), x2=x(bar.whisker[1]), y1=y, y2=y))
    marks.append(tag("circle", class_="dot", cx=x(bar.value), cy=y, r=5.5))
    value = text(bar.words, float(width), y + 4.5, class_="value", text_anchor="end")
    group = tag(
        "g",
        *marks,
        row_name(bar.name, left, y),
        value,
        class_=f"series {bar.style}",
        data_solver=named(bar.solver),
    )
    return tag("a", group, href=bar.href)


@dataclass(frozen=True)
class Mark:
    """A value on a strip; ``shape`` is "dot" for ours, "ring", "target" or "cross" for others'; ``name`` its legend."""

    name: str
    value: float
    title: str
    style: str
    shape: str = "dot"


@dataclass(frozen=True)
class Strip:
    """A row of marks; the first lies on top."""

    name: str
    href: str | None
    marks: Sequence[Mark]


def strips(rows: Sequence[Strip], scale: Scale, width: int, axis: str) -> Markup:
    """One row per strip, with its name and marks, on a shared axis."""
    left, right, row = (150, 26, 28) if width > NARROW else (92, 14, 30)
    top, bottom = 8, 40
    inner, foot = width - left - right, top + row * len(rows)

    def place(value: float) -> float:
        return left + inner * scale(value)

    parts = ruled(scale, left, inner, top, foot, axis)
    for i, strip in enumerate(rows):
        height = top + row * (i + 0.5)
        words = row_name(strip.name, left, height)
        places = dodged([place(mark.value) for mark in strip.marks])
        marks = [_mark(mark, x, height + y) for mark, (x, y) in zip(strip.marks, places, strict=True)][::-1]
        line = tag("line", class_="strip", x1=float(left), x2=float(width - right), y1=height, y2=height)
        parts += [tag("a", words, href=strip.href) if strip.href else words, tag("g", line, *marks)]
    return svg(width, foot + bottom, f"{len(rows)} rows: {axis}", parts)


def dodged(places: Sequence[float], apart: float = 10.0, aside: float = 8.0) -> list[tuple[float, float]]:
    """Positions (x, y) of the marks of a row; y is not 0 if another mark would overlap."""
    kept: list[tuple[float, float]] = []
    for x in places:
        near = {y for other, y in kept if abs(other - x) < apart}
        kept.append((x, next((y for y in (0.0, -aside, aside) if y not in near), 0.0)))
    return kept


def _mark(mark: Mark, x: float, y: float) -> Markup:
    return tag("g", tooltip(mark.title), *_shape(mark.shape, x, y), class_=f"series mark {mark.shape} {mark.style}")


def _shape(shape: str, x: float, y: float) -> list[Markup]:
    if shape == "cross":
        return [tag("path", d=f"M{x - 4.5:.1f} {y - 4.5:.1f}l9 9m0 -9l-9 9")]
    inside = [tag("circle", class_="inside", cx=x, cy=y, r=2.2)] if shape == "target" else []
    return [tag("circle", cx=x, cy=y, r=5.5 if shape == "dot" else 5.0), *inside]


def key(rows: Sequence[Strip]) -> Markup:
    """Every kind of mark and its name, ours first."""
    items = []
    kinds = dict.fromkeys((m.shape, m.style, m.name) for row in rows for m in row.marks)
    for shape, style, name in sorted(kinds, key=lambda kind: kind[0] != "dot"):
        shown = tag("g", *_shape(shape, 8.0, 8.0), class_=f"series mark {shape} {style}")
        sample = tag("svg", shown, viewBox="0 0 16 16", width=16, height=16)
        items.append(tag("li", sample, escape(printable(name))))
    return tag("ul", *items, class_="legend always")
