"""Reports of reproductions: statements, tables and pictures, the same for the screen and for pages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

#: Source of the figures of a row or a line.
HERE, PAPER = "here", "paper"


@dataclass(frozen=True)
class Table:
    """Rows that share their keys, which are the headings; None is shown as a dash.

    Floats have ``digits`` digits after the point, one in ``coarse`` columns, two in columns shown ``as_printed`` in a
    paper.
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
    """Points (x, y); ``colour`` counts from 1 through a few colours that recur, 0 is neutral.

    ``published`` lines are dashed. The ``shape`` is "line", "dots", or "steps", in which a value holds until the next
    point and the line ends at the last one. ``spread``, tuples (x, low, high), is shaded behind it in the same shape.
    """

    name: str
    points: Sequence[tuple[float, float]]
    colour: int
    published: bool = False
    shape: str = "line"
    spread: Sequence[tuple[float, float, float]] = ()


@dataclass(frozen=True)
class Axis:
    """An axis and its name; ``at`` has the labelled values, round ones if empty.

    ``span`` is the range that it covers, None for that of all points. With ``distances``, values are relative distances
    cost / best - 1: the scale is logarithmic, but linear within 0.01 % of 0, and labelled in %.
    """

    words: str
    logarithmic: bool = False
    at: Sequence[float] = ()
    unit: str = ""
    span: tuple[float, float] | None = None
    distances: bool = False


@dataclass(frozen=True)
class Plot:
    """Lines or points on two axes; ``rules`` are horizontal lines of reference, with labels."""

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
    """A relative distance from a value at 0; ``colour`` as in `Line`.

    ``role`` is the role of its author, such as "winner" or "compiler"; empty for ours.
    """

    name: str
    value: float
    colour: int = 0
    role: str = ""


@dataclass(frozen=True)
class Strips:
    """Rows of dots on an axis of relative distances, logarithmic but linear near 0, which is labelled ``zero``."""

    title: str
    caption: str
    axis: str
    zero: str
    rows: Sequence[tuple[str, Sequence[Dot]]]


@dataclass(frozen=True)
class Length:
    """A mean and its standard deviation, drawn from 0 on; ``colour`` as in `Line`."""

    name: str
    value: float
    deviation: float
    colour: int


@dataclass(frozen=True)
class Bars:
    """One bar per mean; ``bound`` is a lower bound on all of them."""

    title: str
    caption: str
    axis: str
    rows: Sequence[Length]
    bound: float | None = None


@dataclass(frozen=True)
class Device:
    """A device: its name, and its load and speed in words; CPUs are drawn without a colour."""

    name: str
    load: str = ""
    cpu: bool = False
    speed: str = ""


#: Larger graphs are not drawn: laying out more nodes takes seconds.
MAX_NODES = 100_000


@dataclass(frozen=True)
class Split:
    """An acyclic graph split over devices: ``device[v]`` is an index into ``devices``; edges are (tail, head)."""

    nodes: Sequence[str]
    edges: Sequence[tuple[int, int]]
    device: Sequence[int]
    devices: Sequence[Device]
    title: str = ""
    caption: str = ""


@dataclass(frozen=True)
class Load:
    """The load of a stage or device.

    ``times`` has sequences of times by kind, as `shardmark.harness.verify.Parts` has; the longest is the ``load``, or
    the sum of those of all passes. ``nodes`` counts its nodes, ``filled`` is the share of its memory that it uses, if
    that is limited. ``work`` divides its time to compute: (name, time, class of the style sheet) each.
    """

    name: str
    load: float
    times: Sequence[Mapping[str, float]]
    nodes: int
    filled: float | None = None
    work: Sequence[tuple[str, float, str]] = ()


@dataclass(frozen=True)
class Tensors:
    """Tensors from one row of `Loads` to another: their number, and the time or size in ``words``.

    ``amount`` sets the width of their line.
    """

    source: int
    target: int
    number: int
    amount: float
    words: str


@dataclass(frozen=True)
class Loads:
    """The loads of stages or devices, stacked by kind of time, and the tensors between them.

    ``cost`` is the bottleneck and ``bound`` a lower bound on it, None if they cannot be compared with a single load;
    ``passes`` names those whose largest loads are summed to the cost. No load may exceed the ``limit``. ``cells`` has
    columns beside the bars, by their headings, instead of the number of nodes.
    """

    rows: Sequence[Load]
    tensors: Sequence[Tensors]
    axis: str
    cost: float | None = None
    bound: float | None = None
    passes: Sequence[str] = ()
    limit: float | None = None
    cells: Mapping[str, Sequence[str]] = field(default_factory=dict)
    title: str = ""
    caption: str = ""


@dataclass(frozen=True, eq=False)
class Memory:
    """Memory in use over time steps: in ``begin[i]`` to ``until[i]`` nodes of kind j use ``used[j][i]``.

    ``least`` is the least that any choice of strategies uses there. All arrays have one shape. ``unit`` is that of
    memory, "" if any.
    """

    begin: Sequence[int]
    until: Sequence[int]
    used: Sequence[tuple[str, Sequence[float]]]
    least: Sequence[float]
    limit: int | None
    title: str = ""
    caption: str = ""
    unit: str = ""


@dataclass(frozen=True)
class Share:
    """A part of a whole, from ``start`` on; ``words`` say more, ``style`` is a class of the style sheet."""

    name: str
    start: float
    length: float
    shown: str
    words: str
    style: str


@dataclass(frozen=True)
class Shares:
    """Parts of a whole, one per row, and marks (value, label, style) across the rows.

    Long names stand ``above`` their bars.
    """

    rows: Sequence[Share]
    axis: str
    marks: Sequence[tuple[float, str, str]] = ()
    title: str = ""
    caption: str = ""
    above: bool = False


@dataclass(frozen=True)
class Link:
    """A vertex of a critical chain, and the cause of its start.

    ``cause`` is "start" for the first one, "device" if it waited for the vertex before it on its device, "input" for
    the output of a predecessor on its device, "transfer" for a tensor from another device.
    """

    vertex: int
    cause: str


@dataclass(frozen=True)
class Schedule:
    """Vertices that run on devices one after another, from time 0: ``device[v]`` is an index into ``devices``.

    Each vertex of the critical ``chain`` waited for the one before it; the last one ends last. No schedule ends before
    ``bound``, which is None if nothing is proved. The time ``axis`` ends at ``until``; None: with the schedule.
    ``what`` names one vertex, and several; ``row`` names one of the ``devices``, and ``end`` the end. Vertices in
    ``light`` are drawn lighter: the backward passes of a batch.
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
    what: tuple[str, str] = ("vertex", "vertices")
    row: str = "device"
    end: str = "makespan"
    axis: str = "time, in the unit of the instance"
    light: tuple[int, ...] = ()


@dataclass(frozen=True)
class Pass:
    """What a stage does from ``start`` to ``finish``; of a microbatch unless that is None.

    ``kind`` is "forward", "recomputation", "backward" or "sync".
    """

    kind: str
    start: float
    finish: float
    microbatch: int | None = None


@dataclass(frozen=True)
class Lane:
    """A stage: its name, what is told at its end, and its passes in the order of time."""

    name: str
    cell: str
    passes: Sequence[Pass]


@dataclass(frozen=True)
class Timeline:
    """Stages over time.

    Each of the ``windows``, (begin, end), is drawn, and nothing between them: ``left_out`` says what. ``marks`` are
    (time, label, style).
    """

    lanes: Sequence[Lane]
    windows: Sequence[tuple[float, float]]
    axis: str
    marks: Sequence[tuple[float, str, str]] = ()
    left_out: str = ""
    title: str = ""
    caption: str = ""


#: Pictures that a page can draw.
Picture = Plot | Ladder | Strips | Bars | Split | Schedule | Loads | Memory | Shares | Timeline


@dataclass(frozen=True)
class Section:
    """A part of a report with its own heading."""

    title: str
    words: Sequence[str] = ()
    tables: Sequence[Table] = ()
    pictures: Sequence[Picture] = ()


@dataclass(frozen=True)
class Report:
    """The findings of a reproduction.

    ``facts`` has the conditions of the figures: sample, seed, limits, machine. ``notes`` has reasons for care in
    comparing them with published ones, ``contradictions`` the pairs of figures that cannot both be right, ``sources``
    (words, address) the publications. ``empty`` is True if nothing was run here: all figures are published ones.
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
