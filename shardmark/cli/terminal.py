"""Text for people: aligned columns, durations, and the progress of a campaign on stderr."""

from __future__ import annotations

import decimal
import math
import os
import re
import sys
from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from shardmark.harness.campaign.jobs import Job
    from shardmark.harness.campaign.queue import CampaignProgress
    from shardmark.harness.results.records import Record
    from shardmark.leaderboard.report import Report


#: Text for a ratio beyond float64.
BEYOND = ">1e308"
#: Looks of words on a terminal: parameters of the control sequence that selects them.
LOOKS = {"name": "1", "good": "32", "bad": "31"}
#: Values of a status, or of a check, that tell of a failure.
BAD_WORDS = ("no", "infeasible", "crash", "error", "import", "lost", "killed", "contradiction", "misclaim")
#: Names of columns and fields whose value is a lower bound.
LOWER_BOUNDS = ("lower_bound", "bound")
#: Maximum number of elements shown of a list, one per line.
MAX_LINES = 20


def text(value: Any, digits: int | None = None) -> str:
    """A value in a table: "-" for None and an empty text, yes or no for a bool, all digits of an int; of a float
    ``digits`` after the point, or six significant ones."""
    if value is None or value == "":
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if value == math.inf:
        return BEYOND
    if isinstance(value, float):
        return f"{value:.6g}" if digits is None else f"{value:.{digits}f}"
    if isinstance(value, list):
        return ", ".join(map(text, value)) or "-"
    if isinstance(value, Mapping):
        return " ".join(f"{printable(str(key))}={text(part)}" for key, part in value.items()) or "-"
    return printable(str(value))


def cell_text(name: str, value: Any, digits: int | None = None) -> str:
    """Return the text of a value, given the name of its column: lower bounds are rounded down; see `text`.

    A value within a relative 1e-9 of a shorter number, such as 8.999999999991, is shown as that number.
    """
    if name in LOWER_BOUNDS and digits is None and isinstance(value, float) and math.isfinite(value):
        nearest = float(f"{value:.6g}")
        if not math.isclose(nearest, value, rel_tol=1e-9):
            with decimal.localcontext(prec=6, rounding=decimal.ROUND_FLOOR):
                nearest = float(+decimal.Decimal(repr(value)))
        value = nearest
    return text(value, digits)


def printable(words: str, keep: str = "") -> str:
    """Escape characters that a terminal would obey or cannot show, as ``\\x1b``, except those to ``keep``."""
    if words.isprintable():
        return words
    return "".join(c if c.isprintable() or c in keep else c.encode("unicode_escape").decode() for c in words)


def in_colour(stream: TextIO) -> bool:
    """Return True for a terminal that shows colours, unless the user wants none (https://no-color.org)."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def painted(words: str, look: str, bright: bool) -> str:
    """Return words with the colour of a look in `LOOKS`; without colour if the look is empty or ``bright`` is false."""
    return f"\x1b[{LOOKS[look]}m{words}\x1b[0m" if look and bright else words


def style_of(key: str, value: Any) -> str:
    """Return the look of a value: "good" or "bad" for a verdict, else empty."""
    if key in ("feasible", "optimal", "proven", "passed", "status", "error"):
        if value in (True, "ok", "yes"):
            return "good"
        if (key, value) == ("feasible", False) or value in BAD_WORDS:
            return "bad"
    return ""


def without_backticks(docstring: str | None) -> str:
    """Return a docstring for a terminal: double backticks become single, or none around terms in the first column."""
    return re.sub(r"(?m)^``([^`]+)``(?=  )", r"\1    ", docstring or "").replace("``", "`")


def pairs(answer: Mapping[str, Any], bright: bool = False) -> str:
    """Return an object as lines, one per key; a list takes one line per element, up to `MAX_LINES`. See `painted`."""
    width = max(map(len, answer), default=0)
    lines = []
    for key, value in answer.items():
        for name, words in zip_longest([key], _lines(key, value) or ["-"], fillvalue=""):
            cell = painted(words, style_of(key, value), bright)
            lines.append(f"{painted(f'{name:<{width}}', 'name', bright)}  {cell}")
    return "\n".join(lines)


def _lines(key: str, value: Any) -> list[str]:
    if not isinstance(value, list):
        return [cell_text(key, value)]
    more = len(value) - MAX_LINES
    return [*map(text, value[:MAX_LINES]), *([f"and {more:,} more, shown by --json"] if more > 0 else [])]


def table(rows: Sequence[Mapping[str, Any]], decimals: Mapping[str, int] | None = None, bright: bool = False) -> str:
    """A list of objects as aligned columns, numbers to the right; the last column is not padded.

    ``decimals`` maps the name of a column to the digits after the point of its floats; see `text`.
    ``bright`` is for a terminal with colours, see `painted`.
    """
    if not rows:
        return "(none)"
    names = list(rows[0])
    cells = [[cell_text(name, row[name], (decimals or {}).get(name)) for name in names] for row in rows]
    right = [all(isinstance(row[name], int | float) or row[name] is None for row in rows) for name in names]
    widths = [max(len(name), *(len(row[i]) for row in cells)) for i, name in enumerate(names)]

    def line(row: Sequence[str], looks: Sequence[str]) -> str:
        padded = [f"{c:>{w}}" if r else f"{c:<{w}}" for c, w, r in zip(row, widths, right, strict=True)]
        return "  ".join(painted(c, look, bright) for c, look in zip(padded, looks, strict=True)).rstrip()

    looks = [[style_of(name, row[name]) for name in names] for row in rows]
    return "\n".join(map(line, [names, *cells], [["name"] * len(names), *looks]))


def report(found: Report) -> str:
    """Format the report of a reproduction as text, without its pictures; see `printable`."""
    parts = [f"{found.title}\n{found.about}", pairs(found.facts)]
    for section in found.sections:
        parts += ["\n".join([f"== {section.title}", *section.words])]
        parts += [
            f"{x.title}\n{table(x.rows, x.decimals)}{f'{chr(10)}{x.note}' if x.note else ''}" for x in section.tables
        ]
    parts += [f"note: {note}" for note in found.notes]
    parts += [f"contradiction: {words}" for words in found.contradictions]
    return printable("\n\n".join(parts), keep="\n")


def duration(seconds: float) -> str:
    """Return a duration in words, rounded: 42 s, 7 min, 3.2 h."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


class Progress:
    """Prints a line on stderr for every run that ends, with the campaign's progress and the estimated time left."""

    def __init__(self, total: int, already: int, quiet: bool = False) -> None:
        self.quiet = quiet
        if already:
            self.line(f"{already} of {total} runs are done already")

    def line(self, words: str) -> None:
        """Print a line, unless quiet."""
        if not self.quiet:
            sys.stderr.write(f"{printable(words)}\n")  # in one write, so that lines of several processes do not mix
            sys.stderr.flush()

    def __call__(self, progress: CampaignProgress, job: Job, row: Record) -> None:
        """Print the line of one finished run."""
        worth = row.cost if row.kind == "solver" or row.lower_bound is None else row.lower_bound
        name = "cost" if worth is row.cost else "bound"
        found = "" if worth is None else f"{name} {cell_text(name, worth)}"
        state = found if row.status == "ok" else f"{row.status}{', ' + found if found else ''}: {row.reason}"
        width = len(str(progress.total))
        self.line(
            f"[{progress.done:>{width}}/{progress.total}] {row.track} {row.instance} {row.solver}"
            f"{f' seed {row.seed}' if row.seed else ''}{f' on {row.host}' if row.host else ''}: {state}"
            f" ({row.wall_s:.1f} s; {self._how_far(progress)})"
        )

    @staticmethod
    def _how_far(progress: CampaignProgress) -> str:
        if progress.done == progress.total:
            return f"done after {duration(progress.elapsed_s)}"
        left = f"about {duration(progress.left_s)} left"
        return f"{progress.running} running, {duration(progress.elapsed_s)} elapsed, {left}"
