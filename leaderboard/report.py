"""Reports of reproductions: statements, tables and pictures, the same for the screen and for pages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

#: Whose figures a row or a line shows.
HERE, PAPER = "here", "paper"


@dataclass(frozen=True)
class Table:
    """Rows that share their keys, which are the headings; None is shown as a dash.

    Floats have ``digits`` digits after the point, one in the columns that are ``coarse``, two in those that stand
    ``as_printed`` in a paper.
    """

    title: str
    rows: Sequence[Mapping[str, Any]]
    digits: int = 4
    note: str = ""
    coarse: Sequence[str] = ()
    as_printed: Sequence[str] = ()

    @property
    def decimals(self) -> dict[str, int]:
        """Digits after the point, by column."""
        other = {**dict.fromkeys(self.coarse, 1), **dict.fromkeys(self.as_printed, 2)}
        return {name: other.get(name, self.digits) for row in self.rows[:1] for name in row}


@dataclass(frozen=True)
class Line:
    """Points (x, y); ``colour`` from 1, of which there are a few that recur, 0 for a neutral one.

    ``published`` ones are drawn apart. The ``shape`` is "line", "dots", or "steps": then a value holds until the next
    point, and the line ends at the last one. ``spread`` is shaded behind it: (x, low, high), of the same shape.
    """

    name: str
    points: Sequence[tuple[float, float]]
    colour: int
    published: bool = False
    shape: str = "line"
    spread: Sequence[tuple[float, float, float]] = ()


@dataclass(frozen=True)
class Axis:
    """Words for an axis; ``at`` has the values that get a label, round ones if empty.

    ``span`` is what it covers, None: all points. With ``distances`` values are relative distances from a best one at
    0, cost / best - 1: the scale is logarithmic, but linear within 0.01 % of it, and labelled in %.
    """

    words: str
    logarithmic: bool = False
    at: Sequence[float] = ()
    unit: str = ""
    span: tuple[float, float] | None = None
    distances: bool = False


@dataclass(frozen=True)
class Plot:
    """Lines or points on two axes; ``rules`` are horizontal lines of reference, with words."""

    title: str
    caption: str
    x: Axis
    y: Axis
    lines: Sequence[Line]
    rules: Sequence[tuple[float, str]] = ()


@dataclass(frozen=True)
class Bracket:
    """An interval that a step proves to contain the optimum: from ``low`` to 1."""

    name: str
    low: float
    published: bool = False


@dataclass(frozen=True)
class Ladder:
    """Brackets that close in on an optimum."""

    title: str
    caption: str
    axis: str
    brackets: Sequence[Bracket]


@dataclass(frozen=True)
class Dot:
    """A relative distance from a value at 0; ``colour`` as that of a `Line`.

    ``role`` is that of who published it, "winner", "compiler" or another one; empty for ours.
    """

    name: str
    value: float
    colour: int = 0
    role: str = ""


@dataclass(frozen=True)
class Strips:
    """Rows of dots on one axis of relative distances, logarithmic but near 0, which is called ``zero``."""

    title: str
    caption: str
    axis: str
    zero: str
    rows: Sequence[tuple[str, Sequence[Dot]]]


@dataclass(frozen=True)
class Length:
    """A mean from 0 on, and the standard deviation around it; ``colour`` as that of a `Line`."""

    name: str
    value: float
    deviation: float
    colour: int


@dataclass(frozen=True)
class Bars:
    """A bar for each of several means; ``bound`` is a value below all of them."""

    title: str
    caption: str
    axis: str
    rows: Sequence[Length]
    bound: float | None = None


@dataclass(frozen=True)
class Device:
    """A device: its name, its load in words, whether it is a CPU, which is drawn without a colour, and its
    speed in words.
    """

    name: str
    load: str = ""
    cpu: bool = False
    speed: str = ""


#: Of a larger graph there is no drawing: on pages it would be neither quick to open nor legible.
MOST_NODES = 2500
#: Of more vertices the schedule is not simulated again for a drawing.
MOST_RUNS = 100_000


@dataclass(frozen=True)
class Split:
    """An acyclic graph with a device for each node: ``device[v]`` is a place in ``devices``; edges are (tail, head)."""

    nodes: Sequence[str]
    edges: Sequence[tuple[int, int]]
    device: Sequence[int]
    devices: Sequence[Device]
    title: str = ""
    caption: str = ""


@dataclass(frozen=True)
class Link:
    """A vertex of a critical chain, and what let it begin.

    ``cause`` is "start" for the first one, "device" if it waited for the vertex before it on its device, "input" if for
    the output of a predecessor there, "transfer" if for a tensor from another device.
    """

    vertex: int
    cause: str


@dataclass(frozen=True)
class Schedule:
    """Vertices that run on devices one after another, times from 0 on: ``device[v]`` is a place in ``devices``.

    Each vertex of the ``chain`` began when the one before it let it; the last one ends last. No schedule ends before
    ``bound``, which is None if nothing is proved. The axis of time ends at ``until``, None: with the schedule.
    """

    nodes: Sequence[str]
    device: Sequence[int]
    start: Sequence[float]
    finish: Sequence[float]
    devices: Sequence[Device]
    chain: Sequence[Link]
    bound: float | None = None
    until: float | None = None
    title: str = ""
    caption: str = ""


#: What a page can draw.
Picture = Plot | Ladder | Strips | Bars | Split | Schedule


@dataclass(frozen=True)
class Section:
    """A part of a report under a heading of its own."""

    title: str
    words: Sequence[str] = ()
    tables: Sequence[Table] = ()
    pictures: Sequence[Picture] = ()


@dataclass(frozen=True)
class Report:
    """The findings of a reproduction.

    ``facts`` states what the figures rest on: sample, seed, limits, machine. ``notes`` says what keeps them from
    being compared with the published ones without a second thought, ``contradictions`` which of two figures cannot both
    be right, ``sources`` (words, address) where the published ones stand. ``empty`` says that nothing was run here: all
    figures are published ones.
    """

    name: str
    title: str
    about: str
    facts: Mapping[str, str]
    sections: Sequence[Section]
    notes: Sequence[str] = ()
    sources: Sequence[tuple[str, str]] = field(default=())
    contradictions: Sequence[str] = ()
    empty: bool = False
