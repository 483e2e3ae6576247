"""Charts as inline SVG: rankings, and curves over time or distance; colours come from the style sheet's classes.

Every chart is drawn twice, for wide and for narrow screens, so that its text keeps its size; the style sheet shows one
of the two. Lengths are SVG user units, which the page shows as CSS pixels or less.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise, starmap
from typing import TypeVar

from markupsafe import Markup, escape

from leaderboard.text import printable, short, shorten

WIDE, HALF, NARROW = 1000, 544, 340  # full page width, one of two columns, a phone
COLOURS = 6  # classes s1..s6 of the style sheet; s0 is the neutral one for all others
GAP_UNIT = 1e-4  # distances below 0.01 % are drawn linearly
FARTHEST = 1e300  # greatest distance on an axis: in units of `GAP_UNIT` it still fits float64
MAX_POINTS = 200  # per curve, more than a screen can show

Point = TypeVar("Point")


def tag(name: str, *content: str, **attributes: object) -> Markup:
    """An element; underscores in names become dashes, ``class_`` is class, floats get one decimal, None is left out."""
    words = [name]
    for key, value in attributes.items():
        if value is not None:
            text = f"{value:.1f}".removesuffix(".0") if isinstance(value, float) else str(value)
            words.append(f'{key.rstrip("_").replace("_", "-")}="{escape(text)}"')
    inner = Markup("").join(content)
    return Markup(f"<{' '.join(words)}>{inner}</{name}>") if content else Markup(f"<{' '.join(words)}/>")


def text(words: str, x: float, y: float, **attributes: object) -> Markup:
    """A text element at a position."""
    return tag("text", escape(printable(words)), x=x, y=y, **attributes)


def tooltip(words: str) -> Markup:
    """Tooltip of the element whose first child this is."""
    return tag("title", escape(printable(words)))


@dataclass(frozen=True)
class Scale:
    """A monotone map from values to [0, 1], linear after ``forward``, with labelled ticks."""

    low: float
    high: float
    forward: Callable[[float], float]
    ticks: Sequence[tuple[float, str]]

    def __call__(self, value: float) -> float:
        """Position of a value, clamped to [0, 1]."""
        low, high = self.forward(self.low), self.forward(self.high)
        place = (self.forward(min(max(value, self.low), self.high)) - low) / ((high - low) or 1.0)
        return min(max(place, 0.0), 1.0)


def linear(low: float, high: float, label: Callable[[float], str] = short) -> Scale:
    """A linear scale."""
    return Scale(low, high, float, [(v, label(v)) for v in round_values(low, high)])


def round_values(low: float, high: float, about: int = 5) -> list[float]:
    """About ``about`` round numbers from low to high."""
    raw = (high - low) / about
    if not 1e-300 < raw < math.inf:  # below, powers of ten lose their digits
        return [low]
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(m * power for m in (1, 2, 2.5, 5, 10) if m * power >= raw * 0.999)
    first = math.ceil(low / step - 1e-9)
    return [float(f"{i * step:.15g}") for i in range(first, math.floor(high / step + 1e-9) + 1)]


def logarithmic(low: float, high: float, label: Callable[[float], str] = short) -> Scale:
    """A logarithmic scale; 0 < low < high."""
    if high / low < 10:  # powers of ten are too far apart here
        return Scale(low, high, math.log10, [(v, label(v)) for v in round_values(low, high)])
    steps = (1,) if high / low > 1000 else (1, 3) if high / low > 20 else (1, 2, 5)
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    round_ones = [
        float(f"{m}e{p}") for p in powers for m in steps
    ]  # ** would overflow beyond float64, this is infinite
    ticks = [value for value in round_ones if low / 1.0001 <= value and value / 1.0001 <= high]
    return Scale(low, high, math.log10, [(v, label(v)) for v in ticks])


def symmetric(value: float, unit: float) -> float:
    """Logarithmic on both sides of zero, linear within ``unit`` of it."""
    return math.copysign(math.log10(1 + abs(value) / unit), value)


def gaps(low: float, high: float, zero: str = "best") -> Scale:
    """A scale of relative distances from a best value, at 0 and labelled ``zero``; down to -1 below it.

    Values beyond `FARTHEST`, such as infinity, are at the end of the axis.
    """
    high = min(high, FARTHEST)
    above = [(0.001, "+0.1 %"), (0.01, "+1 %"), (0.1, "+10 %"), (1.0, "2×")]
    powers = range(1, max(math.ceil(math.log10(high + 1)) + 1, 1))
    every = max(1, len(powers) // 4)
    above += [(10.0**p - 1, f"{10**p:,}×" if p < 5 else f"1e{p}×") for p in powers if p % every == 0]
    below = [(-0.001, "−0.1 %"), (-0.01, "−1 %"), (-0.1, "−10 %"), (-1.0, "−100 %")]
    ticks = [(v, words) for v, words in [*below[::-1], (0.0, zero), *above] if low <= v <= high]
    return Scale(low, high, partial(symmetric, unit=GAP_UNIT), ticks)


def amounts(low: float, high: float) -> Scale:
    """A scale of costs, logarithmic away from zero, for instances whose best cost is 0 or unknown."""
    unit = max(abs(low), abs(high), 1e-300) / 1e4
    top = math.floor(math.log10(max(high, unit)))
    ticks = [(0.0, "0"), *((10.0**p, short(10.0**p)) for p in range(top - 3, top + 1))]
    return Scale(low, high, partial(symmetric, unit=unit), [t for t in ticks if low <= t[0] <= high])


def ruled(scale: Scale, left: int, inner: int, top: int, foot: int, axis: str) -> list[Markup]:
    """The grid lines and labels of an axis that rows share; it is ``inner`` wide."""
    ticks = [(left + inner * scale(value), words) for value, words in scale.ticks]
    lines = [tag("line", class_="grid", x1=x, x2=x, y1=float(top), y2=float(foot)) for x, _ in ticks]
    named = [text(words, x, foot + 16.0, class_="tick", text_anchor="middle") for x, words in _without_overlaps(ticks)]
    return [*lines, *named, text(axis, left + inner / 2, foot + 34.0, class_="axis", text_anchor="middle")]


def _without_overlaps(ticks: Iterable[tuple[float, str]]) -> list[tuple[float, str]]:
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

    ``whisker`` has the two ends of a line through the dot.
    """

    name: str
    href: str | None
    value: float
    floor: float | None
    words: str
    title: str
    style: str
    whisker: tuple[float, float] | None = None


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
    return tag("a", tag("g", *marks, row_name(bar.name, left, y), value, class_=f"series {bar.style}"), href=bar.href)


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
        places = beside([place(mark.value) for mark in strip.marks])
        marks = [_mark(mark, x, height + y) for mark, (x, y) in zip(strip.marks, places, strict=True)][::-1]
        line = tag("line", class_="strip", x1=float(left), x2=float(width - right), y1=height, y2=height)
        parts += [tag("a", words, href=strip.href) if strip.href else words, tag("g", line, *marks)]
    return svg(width, foot + bottom, f"{len(rows)} rows: {axis}", parts)


def beside(places: Sequence[float], apart: float = 10.0, aside: float = 8.0) -> list[tuple[float, float]]:
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
    """Every kind of mark beside its name, ours first."""
    items = []
    kinds = dict.fromkeys((m.shape, m.style, m.name) for row in rows for m in row.marks)
    for shape, style, name in sorted(kinds, key=lambda kind: kind[0] != "dot"):
        shown = tag("g", *_shape(shape, 8.0, 8.0), class_=f"series mark {shape} {style}")
        sample = tag("svg", shown, viewBox="0 0 16 16", width=16, height=16)
        items.append(tag("li", sample, escape(printable(name))))
    return tag("ul", *items, class_="legend always")


@dataclass(frozen=True)
class Curve:
    """A step function: each point's value holds to the next point's x, the last one's to ``until``.

    ``label`` is drawn at its end unless it is empty; ``style`` is a class of the style sheet. The ``shape`` can also
    be "line", which joins the points, or "dots", which are named in a legend only. ``spread``, tuples of x, low and
    high, is shaded behind the curve and has the same shape.
    """

    title: str
    points: Sequence[tuple[float, float]]
    until: float
    style: str
    label: str = ""
    marks: bool = False
    shape: str = "steps"
    spread: Sequence[tuple[float, float, float]] = ()


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
    named = [line for line in lines if wide and line.label and line.shape != "dots"]
    left, right, top, bottom = 58, 128 if named else 10, 30, 46
    inner, tall = width - left - right, height - top - bottom

    def at(a: float, b: float) -> tuple[float, float]:
        return left + inner * x(a), top + tall * (1 - y(b))

    parts = [_frame(x, y, at, x_axis, y_axis)]
    if band:
        parts.append(_band(band, x, at))
    parts += [_rule(rule, x, at) for rule in rules]
    parts += [_spread(line, at) for line in reversed(lines) if line.spread]
    parts += [_curve(line, at) for line in reversed(lines)]
    parts += _labels(named, at, left + inner, top, top + tall)
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
        return tag("g", tooltip(line.title), *dots, class_=f"series {line.style} dots")
    places = [at(*point) for point in thin(line.points)]
    path = f"M{_joined(places, line.shape)}"
    if line.shape == "steps":
        path += f"H{max(at(line.until, line.points[-1][1])[0], places[-1][0]):.1f}"
    marks = [tag("circle", cx=a, cy=b, r=2.5) for a, b in places] if line.marks and len(places) <= 24 else []
    parts = [tooltip(line.title), tag("path", d=path), *marks]
    return tag("g", *parts, class_=f"series {line.style}")


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
        labels.append(tag("g", tooltip(line.title), lead, words, class_=f"series {line.style}"))
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


def svg(width: int, height: float, label: str, parts: Iterable[Markup]) -> Markup:
    box = f"0 0 {width} {height:g}"
    return tag("svg", *parts, viewBox=box, width=width, height=f"{height:g}", role="img", aria_label=label)


def responsive(draw: Callable[[int], Markup], wide: int = WIDE) -> Markup:
    """A chart drawn for wide and for narrow screens."""
    return tag("div", draw(wide), class_="wide") + tag("div", draw(NARROW), class_="narrow")


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
    """Names beside samples of their lines; the style sheet shows it if curves have no labels."""
    items = []
    dots = False
    for line in lines:
        if line.label:
            dots |= line.shape == "dots"
            stroke = tag("circle", cx=11, cy=6, r=4) if line.shape == "dots" else tag("path", d="M0 6H22")
            sample = tag(
                "svg", tag("g", stroke, class_=f"series {line.style}"), viewBox="0 0 22 12", width=22, height=12
            )
            items.append(tag("li", sample, escape(printable(line.label))))
    return tag("ul", *items, class_="legend always" if dots else "legend") if items else Markup("")
