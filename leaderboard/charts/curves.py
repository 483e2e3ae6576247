"""Curves over time or distance, labelled at their ends or in a legend."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise, starmap
from typing import TypeVar

from markupsafe import Markup, escape

from shardmark.leaderboard.charts.elements import NARROW, WIDE, named, responsive, svg, tag, text, tooltip
from shardmark.leaderboard.charts.scales import Scale
from shardmark.leaderboard.text import printable, shorten

MAX_POINTS = 200  # per curve, more than a screen can show
Point = TypeVar("Point")


@dataclass(frozen=True)
class Curve:
    """A step function: each point's value holds to the next point's x, the last one's to ``until``.

    ``label`` is drawn at its end unless it is empty; ``style`` is a class of the style sheet. The ``shape`` can also
    be "line", which joins the points, or "dots", which are named in a legend only. ``spread``, tuples of x, low and
    high, is shaded behind the curve and has the same shape. ``solver`` is the solver that the curve is of, if any.
    """

    title: str
    points: Sequence[tuple[float, float]]
    until: float
    style: str
    label: str = ""
    marks: bool = False
    shape: str = "steps"
    spread: Sequence[tuple[float, float, float]] = ()
    solver: str | None = None


@dataclass(frozen=True)
class Rule:
    """A horizontal line of reference."""

    value: float
    label: str
    title: str


def curves(
    lines: Sequence[Curve],
    x: Scale,
    y: Scale,
    size: tuple[int, int],
    axes: tuple[str, str],
    *,
    rules: Sequence[Rule] = (),
    band: tuple[float, float, str] | None = None,
) -> Markup:
    """Step curves on two scales, labelled at their ends on wide screens; the first lies on top.

    ``size`` is width and height; ``axes`` names x and y; ``band`` (low, high, words) shades a range of y.
    """
    (width, height), (x_axis, y_axis) = size, axes
    wide = width > NARROW
    labelled = [line for line in lines if wide and line.label and line.shape != "dots"]
    left, right, top, bottom = 58, 128 if labelled else 10, 30, 46
    inner, tall = width - left - right, height - top - bottom

    def at(a: float, b: float) -> tuple[float, float]:
        return left + inner * x(a), top + tall * (1 - y(b))

    parts = [_frame(x, y, at, x_axis, y_axis)]
    if band:
        parts.append(_band(band, x, at))
    parts += [_rule(rule, x, at) for rule in rules]
    parts += [_spread(line, at) for line in reversed(lines) if line.spread]
    parts += [_curve(line, at) for line in reversed(lines)]
    parts += _labels(labelled, at, left + inner, top, top + tall)
    return svg(width, height, f"{y_axis}, over {x_axis}; {len(lines)} curves", parts)


At = Callable[[float, float], tuple[float, float]]


def _frame(x: Scale, y: Scale, at: At, x_axis: str, y_axis: str) -> Markup:
    (left, foot), (right, top) = at(x.low, y.low), at(x.high, y.high)
    parts = []
    for value, words in y.ticks:
        height = at(x.low, value)[1]
        parts.append(tag("line", class_="zero" if words == "best" else "grid", x1=left, x2=right, y1=height, y2=height))
        parts.append(text(words, left - 8, height + 4, class_="tick", text_anchor="end"))
    parts.append(tag("line", class_="base", x1=left, x2=right, y1=foot, y2=foot))
    for value, words in x.ticks:
        place = at(value, y.low)[0]
        parts.append(tag("line", class_="base", x1=place, x2=place, y1=foot, y2=foot + 4))
        parts.append(text(words, place, foot + 18, class_="tick", text_anchor="middle"))
    parts.append(text(x_axis, (left + right) / 2, foot + 38, class_="axis", text_anchor="middle"))
    parts.append(text(y_axis, 0.0, top - 14, class_="axis"))
    return tag("g", *parts)


def _band(band: tuple[float, float, str], x: Scale, at: At) -> Markup:
    low, high, words = band
    (left, foot), (right, top) = at(x.low, low), at(x.high, high)
    area = tag("rect", tooltip(words), class_="band", x=left, y=top, width=right - left, height=foot - top)
    if foot - top < 20:
        return area
    return tag("g", area, text(words, left + 8, (top + foot) / 2 + 4, class_="note"))


def _rule(rule: Rule, x: Scale, at: At) -> Markup:
    (left, height), (right, _) = at(x.low, rule.value), at(x.high, rule.value)
    line = tag("line", class_="rule", x1=left, x2=right, y1=height, y2=height)
    words = text(rule.label, left + 8, height - 5, class_="note")
    return tag("g", tooltip(rule.title), line, words)


def _curve(line: Curve, at: At) -> Markup:
    if not line.points:
        return Markup("")
    if line.shape == "dots":
        dots = [tag("circle", cx=a, cy=b, r=3.5) for a, b in starmap(at, line.points)]
        return tag("g", tooltip(line.title), *dots, class_=f"series {line.style} dots", data_solver=named(line.solver))
    places = [at(*point) for point in thin(line.points)]
    path = f"M{_joined(places, line.shape)}"
    if line.shape == "steps":
        path += f"H{max(at(line.until, line.points[-1][1])[0], places[-1][0]):.1f}"
    marks = [tag("circle", cx=a, cy=b, r=2.5) for a, b in places] if line.marks and len(places) <= 24 else []
    parts = [tooltip(line.title), tag("path", d=path), *marks]
    return tag("g", *parts, class_=f"series {line.style}", data_solver=named(line.solver))


def _joined(places: Sequence[tuple[float, float]], shape: str) -> str:
    """A path through places, without its first letter."""
    (a, b), *others = places
    step = "H{0:.1f}V{1:.1f}" if shape == "steps" else "L{0:.1f} {1:.1f}"
    return "".join([f"{a:.1f} {b:.1f}", *(step.format(*place) for place in others)])


def _spread(line: Curve, at: At) -> Markup:
    """The area around a curve: forward along its top, back along its bottom."""
    rows = thin(line.spread)
    above = _joined([at(x, high) for x, _, high in rows], line.shape)
    below = [at(x, low) for x, low, _ in rows]
    if line.shape == "steps":  # backward steps have their corners on the other side
        below = [corner for b, a in pairwise(below[::-1]) for corner in (b, (b[0], a[1]))] + below[:1]
    path = f"M{above}L{_joined(below if line.shape == 'steps' else below[::-1], 'line')}Z"
    return tag("path", class_=f"spread {line.style}", d=path)


def thin(points: Sequence[Point]) -> Sequence[Point]:
    """Thin points out to about `MAX_POINTS`, keeping the first and the last."""
    every = math.ceil(len(points) / MAX_POINTS)
    return points if every <= 1 else [*points[:-1:every], points[-1]]


def _labels(lines: Sequence[Curve], at: At, right: float, top: float, foot: float) -> list[Markup]:
    ends = [at(line.until, line.points[-1][1]) for line in lines if line.points]
    wanted = spread([y for _, y in ends], 15.0, top, foot)
    labels = []
    for line, (x, y), height in zip([line for line in lines if line.points], ends, wanted, strict=True):
        lead = tag("path", d=f"M{x:.1f} {y:.1f}L{right + 10:.1f} {height:.1f}H{right + 14:.1f}", class_="lead")
        words = text(shorten(printable(line.label), 16), right + 18, height + 4, class_="label")
        labels.append(
            tag("g", tooltip(line.title), lead, words, class_=f"series {line.style}", data_solver=named(line.solver))
        )
    return labels


def spread(places: Sequence[float], apart: float, low: float, high: float) -> list[float]:
    """Move places, in one sweep up and one down, until neighbours are ``apart``; the result keeps the given order."""
    order = sorted(range(len(places)), key=places.__getitem__)
    moved = list(places)
    for before, after in pairwise(order):
        moved[after] = max(moved[after], moved[before] + apart)
    if order and moved[order[-1]] > high:
        moved[order[-1]] = max(high, low)
        for before, after in pairwise(order[::-1]):
            moved[after] = min(moved[after], moved[before] - apart)
    return moved


def figure(
    lines: Sequence[Curve],
    x: Scale,
    y: Scale,
    axes: tuple[str, str],
    *,
    rules: Sequence[Rule] = (),
    band: tuple[float, float, str] | None = None,
    wide: int = WIDE,
) -> Markup:
    """Step curves for wide and for narrow screens, see `curves`, with their legend."""

    def draw(width: int) -> Markup:
        return curves(lines, x, y, (width, 420 if width == WIDE else 330), axes, rules=rules, band=band)

    return responsive(draw, wide) + legend(lines)


def legend(lines: Iterable[Curve]) -> Markup:
    """Names with samples of their lines; the style sheet shows it if curves have no labels."""
    items = []
    dots = False
    for line in lines:
        if line.label:
            dots |= line.shape == "dots"
            stroke = tag("circle", cx=11, cy=6, r=4) if line.shape == "dots" else tag("path", d="M0 6H22")
            sample = tag(
                "svg", tag("g", stroke, class_=f"series {line.style}"), viewBox="0 0 22 12", width=22, height=12
            )
            items.append(tag("li", sample, escape(printable(line.label)), data_solver=named(line.solver)))
    return tag("ul", *items, class_="legend always" if dots else "legend") if items else Markup("")
