"""Drawing of a timeline: one row per stage, its passes by kind, and idle time between them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

from markupsafe import Markup

from shardmark.leaderboard import charts
from shardmark.leaderboard.charts import NARROW, WIDE, Scale, round_values, stacks, tag, text, tooltip
from shardmark.leaderboard.charts.stacks import Frame, Piece
from shardmark.leaderboard.report import Lane, Pass, Timeline

#: Words for each kind of pass, in the order of the legend.
KINDS = {
    "forward": "forward",
    "recomputation": "computing activations again",
    "backward": "backward",
    "sync": "summing gradients over replicas",
}
#: Up to this many passes have tooltips of their own.
MAX_NAMED = 1000
#: Width of what stands for the time that is left out.
BREAK = 36.0


def draw(timeline: Timeline, wide: int = WIDE) -> Markup:
    """The timeline for wide and for narrow screens, with a legend."""
    return charts.responsive(lambda width: drawing(timeline, width), wide) + legend(timeline)


def legend(timeline: Timeline) -> Markup:
    """The kinds of passes in the timeline."""
    there = {one.kind for lane in timeline.lanes for one in lane.passes}
    kinds = [(f"pass {kind}", words) for kind, words in KINDS.items() if kind in there]
    return stacks.swatches([*kinds, ("pass idle", "idle")])


def drawing(timeline: Timeline, width: int) -> Markup:
    """The timeline at a width."""
    lanes, roomy = timeline.lanes, width > NARROW
    left, right = (150.0, 76.0) if roomy else (64.0, 8.0)
    row = 24.0 if len(lanes) <= 16 else 18.0 if len(lanes) <= 32 else 14.0
    inner, top = width - left - right, 12 + stacks.LINE * (len(timeline.marks) + bool(timeline.left_out))
    x = broken(timeline.windows, BREAK / inner)
    frame = Frame(left, inner, top, row, x)
    foot = round(frame.foot(len(lanes)))
    drawn = [list(shown(lane, timeline.windows)) for lane in lanes]
    named = roomy and sum(map(len, drawn)) <= MAX_NAMED
    parts = charts.ruled(x, round(left), round(inner), round(top), foot, timeline.axis)
    for place, (lane, passes) in enumerate(zip(lanes, drawn, strict=True)):
        parts.append(_row(timeline, lane, passes, frame, place, width, named))
    parts += _breaks(timeline, frame, foot)
    words = f"{timeline.title}: {len(lanes)} stages, {', '.join(words for _, words, _ in timeline.marks)}"
    return charts.svg(width, foot + 40, words, [*parts, *stacks.across(frame, len(lanes), timeline.marks)])


def shown(lane: Lane, windows: Sequence[tuple[float, float]]) -> Iterator[Pass]:
    """The passes, or parts of them, in the windows."""
    for one in lane.passes:
        for begin, end in windows:
            start, finish = max(one.start, begin), min(one.finish, end)
            if start < finish:
                yield Pass(one.kind, start, finish, one.microbatch)


def broken(windows: Sequence[tuple[float, float]], share: float) -> Scale:
    """A scale that is linear in the windows; each gap between two has this share of it, however long it is."""
    length = sum(end - begin for begin, end in windows)
    gap = share * length / (1 - share * (len(windows) - 1))
    points = [(windows[0][0], 0.0)]
    for number, (begin, end) in enumerate(windows):
        at = points[-1][1] + (gap if number else 0.0)
        points += [(begin, at), (end, at + end - begin)]

    def forward(value: float) -> float:
        for (a, x), (b, y) in pairwise(points):
            if value <= b:
                return x + (y - x) * (value - a) / (b - a) if b > a else y
        return points[-1][1]

    round_ones = [value for begin, end in windows for value in _ticks(begin, end, length)]
    return Scale(windows[0][0], windows[-1][1], forward, [(value, f"{value:,g}") for value in round_ones])


def _ticks(begin: float, end: float, length: float) -> list[float]:
    """The round values in a window that are as far apart as suits the length of all windows."""
    step = next(iter(round_values(0.0, length)[1:]), length)
    return [number * step for number in range(math.ceil(begin / step), math.floor(end / step) + 1)]


def _row(
    timeline: Timeline, lane: Lane, passes: Sequence[Pass], frame: Frame, place: int, width: int, named: bool
) -> Markup:
    """The row of a stage: its name, its passes over the time in which it is idle, and its cell."""
    roomy, thick = width > NARROW, frame.row - 4
    y = frame.middle(place)
    hit = tag("rect", class_="hit", x=0, y=y - frame.row / 2, width=width, height=frame.row)
    idle = [[Piece(*window, "pass idle", f"{lane.name}: idle")] for window in timeline.windows]
    parts = [bar for pieces in idle for bar in stacks.bars(frame, place, [pieces], thick)]
    parts += _named(lane, passes, frame, place, thick) if named else _together(passes, frame, place, thick)
    name = lane.name if roomy else lane.name.partition(",")[0]
    cells = [text(lane.cell, float(width), y + 4.5, class_="tick", text_anchor="end")] if roomy else []
    about = tooltip(f"{lane.name}: {lane.cell}")
    return tag("g", about, hit, charts.row_name(name, round(frame.left), y), *parts, *cells)


def _named(lane: Lane, passes: Sequence[Pass], frame: Frame, place: int, thick: float) -> list[Markup]:
    """A bar with a tooltip for each pass, and in it the number of its microbatch if there is room."""
    pieces = []
    for one in passes:
        number = "" if one.microbatch is None else str(one.microbatch)
        what = f"{KINDS[one.kind]}{f', microbatch {number}' if number else ''}"
        words = f"{lane.name}: {what}, {one.start:,.6g} to {one.finish:,.6g}"
        pieces.append(Piece(one.start, one.finish, f"pass {one.kind}", words, number if frame.row > 20 else ""))
    return stacks.bars(frame, place, [pieces], thick)


def _together(passes: Sequence[Pass], frame: Frame, place: int, thick: float) -> list[Markup]:
    """The bars of a row, those of one kind as one path."""
    return [
        tag("path", d=found, stroke_width=thick, class_=f"pass {kind}")
        for kind in KINDS
        if (found := _strokes([one for one in passes if one.kind == kind], frame.at, frame.middle(place)))
    ]


def _strokes(passes: Sequence[Pass], at: Callable[[float], float], y: float) -> str:
    """One path for passes in the order of time, in tenths of a unit; neighbours can be told apart if they are wide."""
    path, last = list[str](), 0
    for one in passes:
        begin, end = round(10 * at(one.start)), round(10 * at(one.finish))
        length = max(end - begin - (5 if end - begin > 25 else 0), 4)
        path.append(f"M{begin / 10:g} {y:g}" if not path else f"m{(begin - last) / 10:g} 0")
        path.append(f"h{length / 10:g}")
        last = begin + length
    return "".join(path)


def _breaks(timeline: Timeline, frame: Frame, foot: int) -> list[Markup]:
    """Dotted lines at the ends of what is left out, with words above."""
    parts = []
    for (_, end), (begin, _) in pairwise(timeline.windows):
        a, b = frame.at(end), frame.at(begin)
        lines = (tag("line", class_="rule", x1=x, x2=x, y1=frame.top - 4, y2=float(foot)) for x in (a, b))
        words = text(timeline.left_out, (a + b) / 2, 10.0, class_="tick", text_anchor="middle")
        parts.append(tag("g", tooltip(timeline.left_out), *lines, words))
    return parts
