"""Drawing of loads: a bar per stage or device, stacked by kind of time, and the tensors between them as arcs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import islice

from markupsafe import Markup

from shardmark.harness.results import claims
from shardmark.leaderboard import charts
from shardmark.leaderboard.charts import NARROW, WIDE, linear, stacks, tag, text, tooltip
from shardmark.leaderboard.charts.stacks import Frame, Piece
from shardmark.leaderboard.report import Load, Loads, Tensors
from shardmark.leaderboard.text import count, printable, shorten, si

#: Most rows drawn.
MAX_ROWS = 64
#: Most arcs drawn, those that take longest first.
MAX_ARCS = 120
#: Arcs are thin and faint if there are more than this.
MANY_ARCS = 40
#: Words for each kind of time, in the order of the legend.
KINDS = {
    "in": "tensors in",
    "work": "computing",
    "out": "tensors out",
    "overflow": "memory overflow, streamed",
    "sync": "synchronising replicas",
    "moved": "transfers",
    "fixed": "weights, gradients, optimizer",
    "shared": "its share of what replicas divide",
    "weights": "weights",
    "gradients": "gradients",
    "optimizer": "state of the optimizer",
    "activations": "activations in flight",
    "working": "working memory of a block",
}
KEY = "Each row is {what}, in the order of the data flow"
ARCS = "; arcs at the left are tensors, and thicker arcs take longer"
ABOVE = 40.0  # of the rows: the labels of the rules

Joined = Mapping[tuple[int, int], Sequence[Tensors]]  # by two rows, the upper first: the tensors between them


def key(loads: Loads) -> str:
    """Explain the drawing in sentences."""
    what = "a stage" if all(row.name.startswith("stage") for row in loads.rows) else "a device"
    words = f"{KEY.format(what=what)}{ARCS if loads.tensors or loads.limit is None else ''}."
    forward = {(arc.source, arc.target) for arc in loads.tensors if arc.source < arc.target}
    if any((arc.target, arc.source) not in forward for arc in loads.tensors if arc.source > arc.target):
        words += " Dashed arcs lead back."
    if loads.passes:
        first, second = loads.passes
        words += f" Upper bars show the {first} pass, lower bars the {second} pass: the cost is the sum of the"
        return f"{words} longest bar of each."
    if any(len(row.times) > 1 for row in loads.rows):
        words += " Bars below each other in one row run at the same time: the longest is the load."
    return words


def draw(loads: Loads, wide: int = WIDE) -> Markup:
    """The loads for wide and for narrow screens, with a legend, and a sentence on rows that are left out."""
    shown = rows_to_draw(loads)
    joined = _joined(loads, shown)
    drawing = charts.responsive(lambda width: _drawing(loads, shown, joined, width), wide)
    there = {kind for row in loads.rows for times in row.times for kind, time in times.items() if time > 0}
    there -= {"work"} if any(row.work for row in loads.rows) else set()
    legend = stacks.swatches((f"time {kind}", words) for kind, words in KINDS.items() if kind in there)
    return drawing + legend + _left_out(len(loads.rows) - len(shown), len(joined) - MAX_ARCS)


def rows_to_draw(loads: Loads) -> list[int]:
    """At most `MAX_ROWS` rows, those with the greatest loads, in their order."""
    ranked = sorted(range(len(loads.rows)), key=lambda row: -loads.rows[row].load)
    return sorted(ranked[:MAX_ROWS])


def _left_out(rows: int, arcs: int) -> Markup:
    """A sentence on the rows and the arcs that are not drawn."""
    words = [f"{count(rows, 'row')} with lesser loads"] if rows else []
    words += [f"{count(arcs, 'arc')} with less to transfer"] if arcs > 0 else []
    return tag("p", f"Not drawn: {', '.join(words)}.", class_="key") if words else Markup("")


def _drawing(loads: Loads, shown: Sequence[int], joined: Joined, width: int) -> Markup:
    roomy = width > NARROW
    row = 26 if len(shown) <= 24 else 19
    most = max((row.load for row in loads.rows), default=0.0)
    names = [_name(loads.rows[i].name, roomy) for i in shown]
    gutter = (84.0 if roomy else 34.0) if loads.tensors else 4.0
    left = gutter + 14 + 7.2 * max(map(len, names), default=0) + 8
    columns = _columns(loads) if width == WIDE else []
    right = 70.0 + sum(size for size, _, _ in columns)
    top = ABOVE if marks(loads) else 20.0
    high = max([most, *(value for value, _ in _limits(loads))]) * 1.02 or 1.0
    frame = Frame(left, width - left - right, top, row, linear(0.0, high, si))
    foot = round(frame.foot(len(shown)))
    parts = charts.ruled(
        frame.x, round(left), round(frame.inner), round(top), foot, loads.axis if roomy else loads.axis.split(":")[0]
    )
    parts += _arcs(joined, shown, frame, gutter)
    for place, i in enumerate(shown):
        parts.append(_row(loads, i, frame, place, names[place], gutter, width, columns))
    x = left + frame.inner + 70.0
    for size, words, _ in columns:
        x += size
        parts.append(text(words, x, top - 6, class_="tick", text_anchor="end"))
    return charts.svg(width, foot + 40, label(loads), [*parts, *stacks.across(frame, len(shown), marks(loads))])


def _name(name: str, roomy: bool) -> str:
    name = printable(name)
    if roomy or len(name) <= 12:
        return shorten(name, 20)
    return shorten(name.replace("accelerator ", "accel. ").replace("stage ", "st. "), 12)


def _columns(loads: Loads) -> list[tuple[float, str, list[str]]]:
    """Columns right of the bars: width, heading, and a cell per row of the loads."""
    if loads.cells:
        return [
            (7.0 * max(map(len, [heading, *cells])) + 14, heading, list(cells))
            for heading, cells in loads.cells.items()
        ]
    found = [(58.0, "nodes", [f"{row.nodes:,}" for row in loads.rows])]
    if any(row.filled is not None for row in loads.rows):
        cells = ["–" if row.filled is None else f"{100 * row.filled:.0f} %" for row in loads.rows]
        found.append((66.0, "memory", cells))
    return found


def _row(
    loads: Loads,
    number: int,
    frame: Frame,
    place: int,
    name: str,
    gutter: float,
    width: int,
    columns: Sequence[tuple[float, str, Sequence[str]]],
) -> Markup:
    """The row of a part, by its number: its dot among the arcs, name, bars, load and cells."""
    row, y = loads.rows[number], frame.middle(place)
    hit = tag("rect", class_="hit", x=gutter, y=y - frame.row / 2, width=width - gutter, height=frame.row)
    shapes = stacks.bars(frame, place, [_pieces(row, times) for times in row.times], frame.row - 7)
    dots = [tag("circle", class_="stage", cx=gutter, cy=y, r=4.0)] if loads.tensors else []
    end = frame.left + frame.inner + 70.0
    style = "value" if loads.cost is not None and row.load == loads.cost else None
    most = max(other.load for other in loads.rows)
    cells = [text(in_four_digits(row.load, most), end - 4, y + 4.5, class_=style, text_anchor="end")]
    for size, _, found in columns:
        end += size
        cells.append(text(found[number], end, y + 4.5, class_="tick", text_anchor="end"))
    label = text(name, gutter + 12, y + 4.5, class_="name")
    return tag("g", tooltip(title(row)), hit, *dots, label, *shapes, *cells)


def _pieces(row: Load, times: Mapping[str, float]) -> list[Piece]:
    pieces, start = [], 0.0
    for kind in KINDS:
        for name, time, style in (
            row.work if kind == "work" and row.work else [("", times.get(kind, 0.0), f"time {kind}")]
        ):
            words = f"{row.name}, {name or KINDS[kind]}: {time:,.6g}"
            pieces.append(Piece(start, start + time, style, words, ".".join(name.split(".")[-2:])))
            start += time
    return pieces


def title(row: Load) -> str:
    """Describe a row in words."""
    spent = [f"{KINDS[kind]} {time:,.6g}" for times in row.times for kind, time in times.items() if time > 0]
    filled = [] if row.filled is None else [f"{100 * row.filled:.0f} % of its memory"]
    return ", ".join([f"{row.name}: load {row.load:,.6g}", *spent, count(row.nodes, "node"), *filled])


def label(loads: Loads) -> str:
    """Describe the drawing in words."""
    words = f"Loads of {len(loads.rows)} rows"
    return words + "".join(f", {what} {value:,.6g}" for value, what in _limits(loads))


def _limits(loads: Loads) -> list[tuple[float, str]]:
    every = ((loads.cost, "bottleneck"), (loads.bound, "lower bound"), (loads.limit, "limit"))
    return [(value, words) for value, words in every if value is not None]


def marks(loads: Loads) -> list[tuple[float, str, str]]:
    """The rules at the bottleneck, at the bound and at the limit; one if bottleneck and bound are the same."""
    styles = {"bottleneck": "base", "lower bound": "limit", "limit": "limit"}
    found = [(value, f"{words} {value:,.6g}", styles[words]) for value, words in _limits(loads)]
    if loads.limit is not None:
        found[-1] = (loads.limit, f"limit {in_four_digits(loads.limit, loads.limit)}", "limit")
    if loads.cost is not None and loads.bound is not None and claims.gap(loads.cost, loads.bound) == 0:
        return [(loads.cost, f"bottleneck = lower bound: {loads.cost:,.6g}", "limit")]
    return found


def in_four_digits(value: float, most: float) -> str:
    """A value with as many decimals as the greatest one, ``most``, has in four digits; far lesser ones as they are.

    >>> [in_four_digits(value, 26.5313) for value in (26.5313, 8.5, 0.0001, 0.0)]
    ['26.53', '8.50', '0.0001', '0.00']
    """
    if 0 < value < most / 1000:
        return f"{value:,.3g}"
    return f"{value:,.{max(3 - math.floor(math.log10(most)), 0) if most > 0 else 0}f}"


def _joined(loads: Loads, shown: Sequence[int]) -> Joined:
    """The tensors between each pair of rows that are drawn, either way, those that take longest first."""
    joined: dict[tuple[int, int], list[Tensors]] = {}
    drawn = set(shown)
    for arc in loads.tensors:
        if {arc.source, arc.target} <= drawn:
            joined.setdefault((min(arc.source, arc.target), max(arc.source, arc.target)), []).append(arc)
    return dict(sorted(joined.items(), key=lambda item: (-_amount(item[1]), item[0])))


def _amount(arcs: Sequence[Tensors]) -> float:
    return sum(arc.amount for arc in arcs)


def _arcs(joined: Joined, shown: Sequence[int], frame: Frame, gutter: float) -> list[Markup]:
    """Arcs in the gutter between rows, as thick as their amounts say, the thickest on top; dashed if all lead back."""
    place = {row: i for i, row in enumerate(shown)}
    drawn = dict(islice(joined.items(), MAX_ARCS))
    most = max(map(_amount, drawn.values()), default=0.0) or 1.0
    span = max((place[b] - place[a] for a, b in drawn), default=1)
    thick = 1.0 if len(drawn) > MANY_ARCS else 5.0
    parts = []
    for (a, b), arcs in drawn.items():
        words = tooltip("; ".join(arc.words for arc in arcs))
        style = "arc" if any(arc.source < arc.target for arc in arcs) else "arc back"
        style += " many" if len(drawn) > MANY_ARCS else ""
        path = _arc(frame.middle(place[a]), frame.middle(place[b]), frame.row * span, gutter)
        parts.append(tag("path", words, d=path, class_=style, stroke_width=1 + thick * (_amount(arcs) / most) ** 0.5))
    return parts[::-1]


def _arc(top: float, foot: float, longest: float, gutter: float) -> str:
    """The path of an arc; it reaches further out the more rows it spans."""
    far = (gutter - 3) * 4 / 3 * max(((foot - top) / longest) ** 0.6, 0.2) if longest else 0.0
    far = min(far, 26.0 + (foot - top))
    return f"M{gutter:.1f} {top:.1f}C{gutter - far:.1f} {top:.1f} {gutter - far:.1f} {foot:.1f} {gutter:.1f} {foot:.1f}"
