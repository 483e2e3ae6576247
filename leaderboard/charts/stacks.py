"""Charts of stacked bars: one row per part of a whole, on a shared axis."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

from shardmark.leaderboard.charts.elements import tag, text, tooltip
from shardmark.leaderboard.charts.scales import Scale
from shardmark.leaderboard.text import printable

LINE = 14.0  # height of a label above the rows
LETTER = 6.5  # width of a letter inside a bar


@dataclass(frozen=True)
class Piece:
    """A bar from ``start`` to ``end`` in a class of the style sheet, with its ``label`` inside if there is room."""

    start: float
    end: float
    style: str
    title: str
    label: str = ""


@dataclass(frozen=True)
class Frame:
    """Layout of rows of equal height below ``top``, on an axis that begins at ``left`` and is ``inner`` wide."""

    left: float
    inner: float
    top: float
    row: float
    x: Scale

    def at(self, value: float) -> float:
        """Return the x of a value."""
        return self.left + self.inner * self.x(value)

    def middle(self, row: int) -> float:
        """Return the y of the middle of a row."""
        return self.top + self.row * (row + 0.5)

    def foot(self, rows: int) -> float:
        """Return the y below the last row."""
        return self.top + self.row * rows

    @property
    def pixel(self) -> float:
        """Length on the axis per pixel."""
        return (self.x.high - self.x.low) / self.inner


def bars(frame: Frame, row: int, lines: Sequence[Sequence[Piece]], thick: float) -> list[Markup]:
    """The bars of a row; several lines of pieces lie below each other and share the thickness."""
    each = thick / max(len(lines), 1)
    return [
        _piece(frame, piece, frame.middle(row) - thick / 2 + each * i, each - (1 if len(lines) > 1 else 0))
        for i, line in enumerate(lines)
        for piece in line
    ]


def _piece(frame: Frame, piece: Piece, y: float, height: float) -> Markup:
    x = frame.at(piece.start)
    width = max(frame.at(piece.end) - x, 0.6)
    gap = 0.7 if width > 3 else 0.0  # neighbours can be told apart
    if piece.end <= piece.start:
        return Markup("")
    shape = tag("rect", tooltip(piece.title), x=x, y=y, width=width - gap, height=height, class_=piece.style)
    if not piece.label or width < LETTER * len(piece.label) + 6:
        return shape
    return shape + text(piece.label, x + width / 2, y + height / 2 + 4, class_="inside", text_anchor="middle")


def across(frame: Frame, rows: int, marks: Sequence[tuple[float, str, str]]) -> list[Markup]:
    """Vertical lines across the rows, each with its label on a line of its own above them, the last one lowest."""
    parts = []
    for i, (value, words, style) in enumerate(marks):
        x, y = frame.at(value), frame.top - 6 - LINE * (len(marks) - 1 - i)
        before = x > 6.5 * len(words) + 5  # there is room left of the line
        label = text(words, x - 5 if before else x + 5, y, class_="tick", text_anchor="end" if before else "start")
        parts.append(tag("g", tag("line", class_=style, x1=x, x2=x, y1=y - 10, y2=frame.foot(rows)), label))
    return parts


def swatches(kinds: Iterable[tuple[str, str]]) -> Markup:
    """A legend of fills: (class, words) each."""
    items = []
    for style, words in kinds:
        shape = tag("rect", x=0, y=1, width=18, height=10, class_=style)
        sample = tag("svg", shape, viewBox="0 0 18 12", width=18, height=12, aria_hidden="true")
        items.append(tag("li", sample, escape(printable(words))))
    return tag("ul", *items, class_="legend always") if items else Markup("")
