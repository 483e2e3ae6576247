"""Drawing of memory over time: stacked by the kind of choice, below the limit, above the least of any choice."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
from markupsafe import Markup

from shardmark.leaderboard import charts
from shardmark.leaderboard.charts import NARROW, WIDE, linear, stacks, tag, text, tooltip
from shardmark.leaderboard.drawings.choices.choices_layout import MEMORY_KINDS, peak, total
from shardmark.leaderboard.report import Memory
from shardmark.leaderboard.text import percent, si

FAR = 4  # times the peak: a limit beyond is told in words only
COLUMN = 2  # width of a step of the drawing
KEY = "Time runs from left to right; each column shows the greatest use within its span."
#: Classes of the areas, by the kind of choice.
STYLES = dict(zip(MEMORY_KINDS, ("held forced", "held cheapest", "held dearer"), strict=True))
LEAST = "the least that any choice uses"

At = Callable[[float], float]  # the height of an amount of memory


def draw(memory: Memory, wide: int = WIDE) -> Markup:
    """The memory for wide and for narrow screens, with a legend."""
    drawing = charts.responsive(lambda width: _drawing(memory, width), wide)
    kinds = [(STYLES[name], name) for name, _ in memory.used][::-1]
    return drawing + stacks.swatches([*kinds, ("least swatch", LEAST)])


def _drawing(memory: Memory, width: int) -> Markup:
    left, right, top, foot = 62.0, 10.0, 34.0, 46.0
    height = 330.0 if width > NARROW else 290.0
    inner = width - left - right
    most, _ = peak(memory)
    limit = memory.limit if memory.limit is not None and memory.limit <= FAR * most else None
    high = max(most, float(limit or 0)) * 1.04 or 1.0
    last = max(memory.until, default=1)
    x = linear(float(min(memory.begin, default=0)), float(last), si)
    y = linear(0.0, high, partial(si, unit=memory.unit))
    base = height - foot

    def at(value: float) -> float:
        return base - (base - top) * y(value)

    columns = int(inner) // COLUMN
    moments = busiest(memory, columns)
    areas, stacked = [], np.zeros(columns)
    for name, values in memory.used:
        stacked = stacked + _at(values, moments)
        area = _contour([at(value) for value in stacked], left, base, closed=True)
        areas.append(tag("path", tooltip(name), d=area, class_=STYLES[name]))
    least = _contour([at(value) for value in _at(memory.least, moments)], left, base, closed=False)
    parts = [
        *_axes(x, y, at, left, inner, base),
        *areas[::-1],
        tag("path", tooltip(LEAST), d=least, class_="least"),
        *_limit(memory, limit, at, left, inner),
    ]
    parts.append(text("memory in use", 0.0, top - 18, class_="axis"))
    parts.append(text("time step", left + inner / 2, base + 38, class_="axis", text_anchor="middle"))
    return charts.svg(width, round(height), f"Memory over {last:,} time steps: {peak_words(memory)}", parts)


def busiest(memory: Memory, columns: int) -> Sequence[int]:
    """The step with the greatest use in each of ``columns`` equal parts of the time; -1 for a part without any."""
    totals = total(memory)
    if not len(totals):
        return [-1] * columns
    begin, until = np.array(memory.begin, dtype=np.float64), np.array(memory.until, dtype=np.float64)
    edges = np.linspace(begin[0], until[-1], columns + 1)
    first = np.searchsorted(until, edges[:-1], side="right")
    last = np.searchsorted(begin, edges[1:], side="left")
    ranges = zip(first.tolist(), last.tolist(), strict=True)
    return [a + int(np.argmax(totals[a:b])) if a < b else -1 for a, b in ranges]


def _at(values: Sequence[float], moments: Sequence[int]) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    picked = np.append(np.asarray(values, dtype=np.float64), 0.0)
    return picked[np.array(moments, dtype=np.int64)]


def _contour(heights: Sequence[float], left: float, base: float, *, closed: bool) -> str:
    """A path along steps of equal width; a closed one goes down to the base."""
    start = base if closed else heights[0]
    path, y = [f"M{left:g} {start:.1f}"], round(start, 1)
    run = 0
    for height in heights:
        if round(height, 1) != y:
            path.append(f"{f'h{run}' if run else ''}V{height:.1f}")
            y, run = round(height, 1), 0
        run += COLUMN
    path.append(f"h{run}" + (f"V{base:.1f}Z" if closed else ""))
    return "".join(path)


def _axes(x: charts.Scale, y: charts.Scale, at: At, left: float, inner: float, base: float) -> list[Markup]:
    parts = []
    for value, words in y.ticks:
        parts.append(tag("line", class_="grid", x1=left, x2=left + inner, y1=at(value), y2=at(value)))
        parts.append(text(words, left - 8, at(value) + 4, class_="tick", text_anchor="end"))
    ticks = [(left + inner * x(value), words) for value, words in x.ticks]
    for place, words in charts.without_overlaps(ticks):
        parts.append(tag("line", class_="base", x1=place, x2=place, y1=base, y2=base + 4))
        parts.append(text(words, place, base + 18, class_="tick", text_anchor="middle"))
    return [*parts, tag("line", class_="base", x1=left, x2=left + inner, y1=base, y2=base)]


def _limit(memory: Memory, drawn: int | None, at: At, left: float, inner: float) -> list[Markup]:
    """The limit, if it is to be ``drawn``, and words on the peak."""
    y = at(float(peak(memory)[0] if drawn is None else drawn))
    line = [] if drawn is None else [tag("line", class_="limit", x1=left, x2=left + inner, y1=y, y2=y)]
    words = text(peak_words(memory), left + inner, y - 6, class_="tick", text_anchor="end")
    return [tag("g", tooltip(peak_words(memory)), *line, words)]


def peak_words(memory: Memory) -> str:
    """Say how much memory is in use at most, and when."""
    most, step = peak(memory)
    words = f"peak {si(most, memory.unit)} at step {step:,}"
    if not memory.limit:
        return words
    return f"limit {si(memory.limit, memory.unit)}; {words}, {percent(most / memory.limit)} of it"
