"""Drawing of shares: one bar per part of a whole, each where the one before it ends, or all from 0 on."""

from __future__ import annotations

from markupsafe import Markup

from shardmark.leaderboard import charts
from shardmark.leaderboard.charts import NARROW, WIDE, linear, stacks, tag, text, tooltip
from shardmark.leaderboard.charts.stacks import Frame, Piece
from shardmark.leaderboard.report import Share, Shares
from shardmark.leaderboard.text import shorten, si

NAME = 7.2  # width of a character of a name


def draw(shares: Shares, wide: int = WIDE) -> Markup:
    """The shares for wide and for narrow screens."""
    return charts.responsive(lambda width: _drawing(shares, width), wide)


def _drawing(shares: Shares, width: int) -> Markup:
    most = 20 if width > NARROW else 15
    left = min(NAME * max((len(row.name) for row in shares.rows), default=0), NAME * most) + 16
    right = 66.0
    high = max([row.start + row.length for row in shares.rows] + [value for value, _, _ in shares.marks], default=0.0)
    top = 12.0 + stacks.LINE * len(shares.marks)
    frame = Frame(left, width - left - right, top, 26 if width > NARROW else 28, linear(0.0, high * 1.01 or 1.0, si))
    foot = round(frame.foot(len(shares.rows)))
    parts = charts.ruled(frame.x, round(left), round(frame.inner), round(top), foot, shares.axis)
    parts += [_row(row, frame, place, width, most) for place, row in enumerate(shares.rows)]
    parts += stacks.across(frame, len(shares.rows), shares.marks)
    words = f"{shares.title}: " + ", ".join(f"{row.name} {row.shown}" for row in shares.rows)
    return charts.svg(width, foot + 40, words, parts)


def _row(row: Share, frame: Frame, place: int, width: int, most: int) -> Markup:
    y = frame.middle(place)
    hit = tag("rect", class_="hit", x=0, y=y - frame.row / 2, width=width, height=frame.row)
    pieces = [Piece(row.start, row.start + row.length, row.style, row.words)]
    name = text(shorten(row.name, most), frame.left - 10, y + 4.5, class_="name", text_anchor="end")
    value = text(row.shown, float(width), y + 4.5, class_="value", text_anchor="end")
    return tag("g", tooltip(row.words), hit, name, *stacks.bars(frame, place, [pieces], frame.row - 10), value)
