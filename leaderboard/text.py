"""Words and numbers as pages show them, and the paths of pages."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Mapping
from functools import cache
from typing import Any

#: Tone and meaning of each status of a run; "mild": ended by a limit or the machine, "lie": a false claim.
STATUS = {
    "ok": ("ok", "it ended by itself with a verified solution or, if it is a bound method, with a bound"),
    "timeout": ("mild", "it was killed at its time limit"),
    "cpu": ("mild", "it was killed at its CPU time limit"),
    "memory": ("mild", "it was killed at its memory limit"),
    "processes": ("mild", "it was killed for exceeding its limit on processes"),
    "output": ("mild", "it was killed for exceeding its limit on output"),
    "halted": ("mild", "it was ended at the user's request before it had found anything"),
    "declined": ("mild", "it does not take the instance"),
    "lost": ("mild", "its machine went away"),
    "killed": ("mild", "it was killed from outside; it is not scored, and the same command runs it again"),
    "crash": ("bad", "its process died, or ended without returning"),
    "error": ("bad", "it raised an exception, or sent a malformed message"),
    "import": ("bad", "its file cannot be imported"),
    "infeasible": ("bad", "nothing that it reported passed verification"),
    "none": ("bad", "it reported nothing"),
    "misclaim": ("lie", "it claimed a cost below the true one of its own solution"),
    "contradiction": ("lie", "it claimed a lower bound above the cost of its own solution"),
}
#: Names of the limits and kinds of isolation.
MEASURES = {
    "wall": "time",
    "cpu": "CPU time",
    "memory": "memory",
    "cores": "cores",
    "processes": "processes",
    "output": "output",
    "network": "isolation from the network",
    "files": "isolation of files",
}
#: Words for the enforcement of a limit, the firmest first.
FIRMNESS = {"hard": "enforced", "polled": "watched", "none": "not held"}
BEYOND = ">1e308"  # text for a ratio beyond float64
LOG_LINES = 30  # shown of a failed run's log, the last ones
_COLOUR = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def count(number: int, noun: str) -> str:
    """A number with its noun, in the plural if need be."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def printable(words: str) -> str:
    """Text for pages, without terminal colours; characters that a browser does not show are escaped.

    These are control characters, marks of writing direction such as ``\\u202e``, and zero-width characters.
    """
    if words.isprintable():
        return words
    plain = _COLOUR.sub("", words.replace("\r\n", "\n"))
    if plain.replace("\n", "").replace("\t", "").isprintable():
        return plain
    return "".join(c if c.isprintable() or c in "\n\t" else c.encode("unicode_escape").decode() for c in plain)


def shorten(words: str, most: int) -> str:
    """Shorten words to ``most`` characters (at least 2), leaving out the middle, as names differ at the end."""
    if len(words) <= most:
        return words
    end = most // 2
    return f"{words[: most - 1 - end]}…{words[-end:]}"


@cache
def slug(name: str) -> str:
    """A file name for any name, different for different names on every file system.

    Plain names stay as they are; others end in an underscore, which plain ones cannot contain, and a hash.
    """
    if re.fullmatch(r"[a-z0-9][a-z0-9.-]{0,79}", name) and not name.endswith("."):
        return name
    plain = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:40]
    return f"{plain or 'x'}_{hashlib.sha256(name.encode()).hexdigest()[:16]}"


@cache
def page_of(kind: str, track: str, name: str = "") -> str:
    """Path of a page from the root of the site; ``kind`` is tracks, solvers or instances."""
    return f"{kind}/{slug(track)}/{slug(name)}.html" if name else f"{kind}/{slug(track)}.html"


def log_file(digest: str) -> str:
    """Path of a log from the root of the site."""
    return f"data/logs/{digest[:2]}/{digest}.txt"


def exact(value: str | None) -> str:
    """A cost or bound from its decimal text: every digit of an integer, six of a float."""
    if value is None:
        return "–"
    if value.removeprefix("-").isdecimal():
        return f"{int(value):,}"
    number = float(value)
    return f"{number:,.0f}" if 1e6 <= abs(number) < 1e15 else f"{number:,.6g}"


def short(value: float) -> str:
    """A number on an axis: at most six digits, and a true minus sign."""
    return f"{value:g}".replace("-", "−")


def score_text(value: float | None, digits: int = 3) -> str:
    """A score, rounded, but downwards to a whole number, so that only a perfect sum of scores shows as one."""
    if value is None:
        return "–"
    near = round(value, digits)
    faked = near == round(near) and (value < near == 1 or near > value * (1 + 1e-12))
    return f"{near - 10**-digits if faked else near:.{digits}f}"


def apart(first: float, second: float, digits: int = 2) -> int:
    """Return the decimals, at least ``digits``, that two scores need to look different; 6 at most."""
    return next((d for d in range(digits, 6) if score_text(first, d) != score_text(second, d)), 6)


def percent(value: float | None) -> str:
    """A fraction as a percentage with at least two significant digits, or as a factor from ten upwards."""
    if value is None:
        return "–"
    if value == math.inf:
        return f"{BEYOND}×"
    if value >= 9.995:
        return f"{value + 1:,.0f}×" if value < 1e6 else f"{value:.0e}×".replace("e+", "e")
    digits = 0 if value == 0 or value >= 0.0995 else 1 if value >= 0.00995 else 2
    return "<0.01 %" if 0 < value < 0.00005 else f"{100 * value:.{digits}f} %"


def gap(value: float | None) -> str:
    """A proven gap as a percentage; "optimal" if it is 0, as the bound proves the cost then."""
    return "optimal" if value == 0 else percent(value)


def times(value: float | None) -> str:
    """A ratio: enough decimals to tell it from 1, at least three; fewer if it is large."""
    if value is None:
        return "–"
    if value == math.inf:
        return BEYOND
    digits = next((d for d in (3, 4, 5, 6) if value == 1 or round(value, d) != 1), 6)
    return f"{value:,.0f}" if value >= 1000 else f"{value:.{1 if value >= 100 else 2 if value >= 10 else digits}f}"


def chance(p: float | None) -> str:
    """A p value with two significant digits."""
    return "–" if p is None else "<0.001" if p < 0.001 else f"{p:.2g}"


def sort_key(value: float | str | None) -> float | str:
    """Return the sort key of a cell for the page's script; empty for None."""
    return "" if value is None else "Infinity" if value == math.inf else value


def seconds(value: float | None) -> str:
    """A time in seconds, without the unit."""
    if value is None:
        return "–"
    return f"{value:.3f}" if value < 1 else f"{value:.2f}" if value < 100 else f"{value:,.0f}"


def fact(value: Any) -> str:
    """A fact of an instance, a host or a parameter list."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return exact(repr(value)).removesuffix(".0")
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False)


def tone(status: str) -> str:
    """Class of a status."""
    return STATUS.get(status, ("bad", ""))[0]


def meaning(status: str) -> str:
    """Explain a status in words."""
    return STATUS.get(status, ("", "unknown"))[1]


def held(enforced: Mapping[str, str]) -> str:
    """List how each limit of a run was enforced, the firmest first."""
    groups = {
        words: [MEASURES.get(name, name) for name, how in enforced.items() if how == firmness]
        for firmness, words in FIRMNESS.items()
    }
    return "; ".join(f"{', '.join(names)} {words}" for words, names in groups.items() if names)


def rough(duration: float | None) -> str:
    """A duration, rounded, with its unit."""
    if duration is None:
        return "–"
    if duration < 100:
        return f"{duration:.0f} s"
    return f"{duration / 60:.0f} min" if duration < 6000 else f"{duration / 3600:.1f} h"


def tail(log: str) -> str:
    """The last lines of a log."""
    lines = printable(log).strip("\n").split("\n")
    return "\n".join([*(["…"] if len(lines) > LOG_LINES else []), *lines[-LOG_LINES:]])


def heat(score: float | None) -> str:
    """Class of a matrix cell, by how far its score is from 1."""
    if score is None:
        return "none"
    return f"q{sum(score >= step for step in (1e-12, 0.5, 0.8, 0.9, 0.95, 0.99, 1.0))}"


def si(value: float, unit: str = "") -> str:
    """A number of any size in at most four digits, with k, M, G, T, P or E for thousands, millions and so on."""
    power = min(max(math.floor(math.log10(abs(value)) / 3 + 1e-9), 0), 6) if value else 0
    prefix = ("", "k", "M", "G", "T", "P", "E")[power]
    return f"{value / 1000**power:.4g} {prefix}{unit}".rstrip().replace("-", "−")
