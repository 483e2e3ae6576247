"""Drawing of shares: one bar per part of a whole, each where the one before it ends, or all from 0 on."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from markupsafe import Markup

from shardmark.leaderboard import charts
from shardmark.leaderboard.charts import NARROW, WIDE, linear, stacks, tag, text, tooltip
from shardmark.leaderboard.charts.stacks import Frame, Piece
from shardmark.leaderboard.report import Share, Shares
from shardmark.leaderboard.text import shorten, si

NAME = 7.2  # width of a character of a name
ABOVE = 40  # height of a row whose name is above its bar


def draw(shares: Shares, wide: int = WIDE) -> Markup:
    """The shares for wide and for narrow screens."""
    return charts.responsive(lambda width: _drawing(shares, width), wide)


def _drawing(shares: Shares, width: int) -> Markup:
    most = 20 if width > NARROW else 15
    left = min(NAME * max((len(row.name) for row in shares.rows), default=0), NAME * most) + 16
    tall = 26 if width > NARROW else 28
    right = 66.0
    if shares.above:
        left, tall = 4.0, ABOVE
        right = 8.2 * max((len(_at_end(row, width)) for row in shares.rows if row.length), default=0)
    high = max([row.start + row.length for row in shares.rows] + [value for value, _, _ in shares.marks], default=0.0)
    top = 12.0 + stacks.LINE * len(shares.marks)
    frame = Frame(left, width - left - right, top, tall, linear(0.0, high * 1.01 or 1.0, si))
    foot = round(frame.foot(len(shares.rows)))
    parts = charts.ruled(frame.x, round(left), round(frame.inner), round(top), foot, shares.axis)
    row_of = _row_below if shares.above else partial(_row, most=most)
    rows = [row_of(row, frame, place, width) for place, row in enumerate(shares.rows)]
    marks = stacks.across(frame, len(shares.rows), shares.marks)
    parts += [*marks, *rows] if shares.above else [*rows, *marks]  # names may cross marks
    words = f"{shares.title}: " + ", ".join(f"{row.name} {row.shown}" for row in shares.rows)
    return charts.svg(width, foot + 40, words, parts)


def _row(row: Share, frame: Frame, place: int, width: int, most: int) -> Markup:
    y = frame.middle(place)
    name = text(shorten(row.name, most), frame.left - 10, y + 4.5, class_="name", text_anchor="end")
    value = text(row.shown, float(width), y + 4.5, class_="value", text_anchor="end")
    bars = stacks.bars(frame, place, [_pieces(row)], frame.row - 10)
    return tag("g", tooltip(row.words), _hit(frame, place, width), name, *bars, value)


def _row_below(row: Share, frame: Frame, place: int, width: int) -> Markup:
    """A row whose bar is below its name; what it shows stands at the bar's end."""
    y = frame.middle(place)
    name = text(shorten(row.name, int(width / NAME)), frame.left, y - 6, class_="name halo")
    end = frame.at(row.start + row.length) + (6 if row.length else 0)
    value = text(_at_end(row, width), end, y + 12, class_="value halo")
    bars = stacks.bars(replace(frame, top=frame.top + 8), place, [_pieces(row)], 12)
    return tag("g", tooltip(row.words), _hit(frame, place, width), name, *bars, value)


def _at_end(row: Share, width: int) -> str:
    """What is shown at the end of a bar; of several parts the first if there is little room."""
    return row.shown if width > NARROW or not row.length else row.shown.partition(", ")[0]


def _pieces(row: Share) -> list[Piece]:
    return [Piece(row.start, row.start + row.length, row.style, row.words)]


def _hit(frame: Frame, place: int, width: int) -> Markup:
    return tag("rect", class_="hit", x=0, y=frame.middle(place) - frame.row / 2, width=width, height=frame.row)
