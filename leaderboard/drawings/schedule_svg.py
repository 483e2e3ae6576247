"""Drawing of a schedule: one row per device, one bar per vertex, the critical chain and the lower bound."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from markupsafe import Markup, escape

from shardmark.leaderboard import charts
from shardmark.leaderboard.charts import NARROW, WIDE, tag, text, tooltip
from shardmark.leaderboard.charts.stacks import Frame
from shardmark.leaderboard.report import Schedule
from shardmark.leaderboard.text import count

#: Most devices drawn.
MAX_ROWS = 60
#: Up to this many bars have tooltips of their own; the bars of the critical chain are counted separately.
MAX_NAMED = 1000
#: Lines between devices are thinner if there are more than this.
MANY_HOPS = 60
#: Meaning of each kind of mark, in the order of the legend.
MARKS = {
    "run": "a {what} runs",
    "run light": "a backward {what} runs",
    "critical": "a {what} of the critical chain runs",
    "hop": "a transfer on the critical chain",
    "limit": "lower bound: no schedule ends before it",
}
#: Words for what a vertex waited for, by the cause of its link.
WAITED = {
    "start": "for nothing",
    "device": "for its device",
    "input": "for an input from its device",
    "transfer": "for a transfer",
}


@dataclass(frozen=True)
class Span:
    """Vertices that run from ``start`` to ``finish``: one, or several without a visible gap between them."""

    start: float
    finish: float
    vertices: tuple[int, ...]


@dataclass(frozen=True)
class Row:
    """A device: its number, name, tooltip, total busy time, and vertices in the order of time."""

    device: int
    name: str
    title: str
    busy: float
    vertices: Sequence[int]


def key(schedule: Schedule) -> str:
    """Explain the drawing in a sentence."""
    order = ", the fastest first" if any(device.speed for device in schedule.devices) else ""
    return f"Each row is a {schedule.row}{order}; {schedule.what[1]} that take less than a pixel are drawn together."


def draw(schedule: Schedule, wide: int = WIDE) -> Markup:
    """The schedule for wide and for narrow screens, with a legend, and a sentence on devices that are left out."""
    every = rows(schedule)
    shown = rows_to_draw(schedule, every)
    drawing = charts.responsive(lambda width: _drawing(schedule, shown, width), wide)
    return drawing + _legend(schedule) + _left_out(len(every) - len(shown))


def rows(schedule: Schedule) -> list[Row]:
    """One row per device."""
    found: list[list[int]] = [[] for _ in schedule.devices]
    for v in sorted(range(len(schedule.nodes)), key=lambda v: (schedule.start[v], schedule.finish[v])):
        found[schedule.device[v]].append(v)
    return [
        Row(
            i,
            device.name,
            ", ".join(filter(None, (f"{device.name}: {_count(schedule, len(runs))}", device.speed, device.load))),
            _busy(schedule, runs),
            runs,
        )
        for i, (device, runs) in enumerate(zip(schedule.devices, found, strict=True))
    ]


def _busy(schedule: Schedule, vertices: Iterable[int]) -> float:
    return sum(schedule.finish[v] - schedule.start[v] for v in vertices)


def rows_to_draw(schedule: Schedule, every: Sequence[Row]) -> list[Row]:
    """At most `MAX_ROWS` devices, in their order: those of the critical chain, then those that run the longest."""
    critical = {schedule.device[link.vertex] for link in schedule.chain}
    ranked = sorted(every, key=lambda row: (row.device not in critical, -row.busy))
    return sorted(ranked[:MAX_ROWS], key=lambda row: row.device)


def together(schedule: Schedule, vertices: Iterable[int], pixel: float) -> list[Span]:
    """Spans of vertices in the order of time; neighbours shorter than a pixel, with a gap below a pixel, share one."""
    found: list[Span] = []
    open_ended = False
    for v in vertices:
        start, finish = schedule.start[v], schedule.finish[v]
        small = finish - start < pixel
        if small and open_ended and start - found[-1].finish < pixel:
            found[-1] = Span(found[-1].start, finish, (*found[-1].vertices, v))
        else:
            found.append(Span(start, finish, (v,)))
        open_ended = small
    return found


def _drawing(schedule: Schedule, shown: Sequence[Row], width: int) -> Markup:
    makespan = max(schedule.finish, default=0.0)
    left, right = (176, 14) if width > NARROW else (80, 8)
    x = charts.linear(0.0, max(makespan, schedule.until or 0.0) or 1.0)
    inner, top, height = width - left - right, 34, 22 if len(shown) <= 24 else 15
    frame, foot = Frame(left, inner, top, height, x), top + height * len(shown)
    chain = {link.vertex: link.cause for link in schedule.chain}
    others = [together(schedule, (v for v in row.vertices if v not in chain), frame.pixel) for row in shown]
    critical = [together(schedule, (v for v in row.vertices if v in chain), frame.pixel) for row in shown]
    few = [width > NARROW and sum(map(len, spans)) <= MAX_NAMED for spans in (others, critical)]
    marks, backward = [], set(schedule.light)
    for i, row in enumerate(shown):
        light = [span for span in others[i] if backward.issuperset(span.vertices)]
        full = [span for span in others[i] if not backward.issuperset(span.vertices)]
        bars = _bars(schedule, frame, i, full, few[0], {}) + _bars(schedule, frame, i, light, few[0], {}, "run light")
        bars += _bars(schedule, frame, i, critical[i], few[1], chain, "critical")
        speed = schedule.devices[row.device].speed if width > NARROW else ""
        name = row.name if width > NARROW else row.name.replace("accelerator ", "accel. ")
        marks.append(_row(frame, i, row, f"{name}, {speed}" if speed else name, bars))
    parts = [*charts.ruled(x, left, inner, top, foot, schedule.axis), *marks, *_hops(schedule, frame, shown)]
    words = (
        f"{_count(schedule, len(schedule.nodes))} on {len(schedule.devices)} devices, {schedule.end} {makespan:,.6g}"
    )
    words += "" if schedule.bound is None else f", lower bound {schedule.bound:,.6g}"
    return charts.svg(width, foot + 40, words, [*parts, *_ends(schedule, frame, foot, makespan)])


def _row(frame: Frame, i: int, row: Row, name: str, bars: Sequence[Markup]) -> Markup:
    """The row of a device with its name and bars."""
    y, width = frame.middle(i), frame.left + frame.inner
    hit = tag("rect", class_="hit", x=0, y=y - frame.row / 2, width=width, height=frame.row)
    return tag("g", tooltip(row.title), hit, charts.row_name(name, round(frame.left), y), *bars)


def _bars(
    schedule: Schedule,
    frame: Frame,
    i: int,
    spans: Sequence[Span],
    named: bool,
    chain: dict[int, str],
    style: str = "run",
) -> list[Markup]:
    """The bars of a row, each with a tooltip if ``named``, else as one path; those of the ``chain`` give the cause."""
    parts = [[span] for span in spans] if named else [spans] if spans else []
    return [
        tag(
            "path",
            *([tooltip(_tooltip(schedule, part[0], chain))] if named else []),
            d=_strokes(frame, i, part),
            stroke_width=frame.row - 4,
            class_=style,
        )
        for part in parts
    ]


def _tooltip(schedule: Schedule, span: Span, chain: dict[int, str]) -> str:
    """Describe a vertex: name, times, and its reason to wait."""
    v, *others = span.vertices
    what = _count(schedule, len(others) + 1) if others else schedule.nodes[v]
    waited = f", waited {WAITED[chain[v]]}" if v in chain and not others else ""
    device = schedule.devices[schedule.device[v]]
    where = device.name + (f" ({device.speed})" if device.speed else "")
    return f"{what}: {span.start:,.6g} to {span.finish:,.6g} on {where}{waited}"


def _strokes(frame: Frame, i: int, spans: Iterable[Span]) -> str:
    """One path for all bars; wide bars end slightly early, so that neighbours can be told apart."""
    parts = []
    for span in spans:
        x = frame.at(span.start)
        wide = frame.at(span.finish) - x
        parts.append(f"M{x:.1f} {frame.middle(i):g}h{wide - 0.7 if wide > 2.5 else max(wide, 0.7):.1f}")
    return "".join(parts)


def _hops(schedule: Schedule, frame: Frame, shown: Sequence[Row]) -> list[Markup]:
    """Lines for the transfers of the critical chain between devices."""
    place = {row.device: i for i, row in enumerate(shown)}
    lines = []
    for before, link in pairwise(schedule.chain):
        i, j = (place.get(schedule.device[v]) for v in (before.vertex, link.vertex))
        if link.cause == "transfer" and i is not None and j is not None:
            a, b = frame.at(schedule.finish[before.vertex]), frame.at(schedule.start[link.vertex])
            lines.append(f"M{a:.1f} {frame.middle(i):g}L{b:.1f} {frame.middle(j):g}")
    style = "hop many" if len(lines) > MANY_HOPS else "hop"
    return [tag("path", d="".join(lines), class_=style)] if lines else []


def _ends(schedule: Schedule, frame: Frame, foot: int, makespan: float) -> list[Markup]:
    """Rules at the makespan and at the lower bound."""
    parts = [_limit(frame.at(makespan), foot, 14.0, f"{schedule.end} {makespan:,.6g}", "base", frame)]
    if schedule.bound is not None:
        parts.append(_limit(frame.at(schedule.bound), foot, 28.0, f"lower bound {schedule.bound:,.6g}", "limit", frame))
    return parts


def _limit(x: float, foot: int, y: float, words: str, style: str, frame: Frame) -> Markup:
    """A vertical line with a label, on its left if there is room."""
    before = x - frame.left > 6.5 * len(words)
    label = text(words, x - 5 if before else x + 5, y, class_="tick", text_anchor="end" if before else "start")
    return tag("g", tag("line", class_=style, x1=x, x2=x, y1=y - 10, y2=float(foot)), label)


def _legend(schedule: Schedule) -> Markup:
    """The kinds of marks in the drawing, with their meanings."""
    there = {
        "run": len(schedule.nodes) > len(schedule.chain),
        "run light": bool(set(schedule.light) - {link.vertex for link in schedule.chain}),
        "critical": bool(schedule.chain),
        "hop": any(link.cause == "transfer" for link in schedule.chain),
        "limit": schedule.bound is not None,
    }
    items = []
    for style, words in MARKS.items():
        if there[style]:
            line = "M11 0V12" if style == "limit" else "M1 11L21 1" if style == "hop" else "M1 6H21"
            mark = tag(
                "path", d=line, stroke_width=10 if style in ("run", "run light", "critical") else None, class_=style
            )
            sample = tag("svg", mark, viewBox="0 0 22 12", width=22, height=12)
            items.append(tag("li", sample, escape(words.format(what=schedule.what[0]))))
    return tag("ul", *items, class_="legend always") if items else Markup("")


def _left_out(devices: int) -> Markup:
    order = "devices of the critical chain come first, then the busiest"
    return tag("p", f"Not drawn: {count(devices, 'more device')}; {order}.", class_="key") if devices else Markup("")


def _count(schedule: Schedule, number: int) -> str:
    return f"{number:,} {schedule.what[number != 1]}"
