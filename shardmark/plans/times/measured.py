"""What a file of measured times has: rows that name operators, and events of profilers that are yet to be matched."""

from __future__ import annotations

from dataclasses import dataclass, field

Shapes = tuple[tuple[int, ...], ...]

#: Seconds in a unit.
UNITS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}
#: The origin of a table.
TABLE = "table"


@dataclass(frozen=True, slots=True)
class Row:
    """A row of a table: a time, and what took it.

    ``place``     in the file, such as "line 7"
    ``seconds``   of one run: of an operator, of all operators of a module, or of each operator of a kind
    ``operator``, ``module``, ``kind``  exactly one is not None; with ``kind``, ``shapes`` has those of the inputs
    ``backward``  of a module: True or False for its operators of one pass, None for both
    """

    place: str
    seconds: float
    operator: str | None = None
    module: str | None = None
    kind: str | None = None
    shapes: Shapes = ()
    backward: bool | None = None


@dataclass(frozen=True, slots=True)
class Event:
    """A range of a trace, or a row of a profiler's summary.

    ``shapes``   of the inputs; None if they were not recorded
    ``seconds``  with everything inside
    ``depth``    number of events around it; events inside follow it
    """

    name: str
    shapes: Shapes | None
    seconds: float
    depth: int = 0


@dataclass(frozen=True)
class Measured:
    """The content of a file of measured times.

    ``origin``   the kind of file, in words
    ``rows``     of a table
    ``events``   of a trace
    ``nested``   True if the depth of events is known; if not, the longest of several alike includes the others
    ``kernels``  seconds of matrix products and convolutions, and of everything else, in one run
    """

    origin: str
    rows: list[Row] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    nested: bool = True
    kernels: dict[bool, float] = field(default_factory=dict)
