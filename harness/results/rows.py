"""Rows of the results database, checked as they are read: the values that each column may hold.

A database may be damaged, or edited by hand. `checked` guarantees the types of a row, finite numbers, decimal text
within float64, and JSON of the documented shape.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from shardmark.instances import InputError, tracks

#: Longest decimal text of a number within float64: 309 digits and a sign, or the digits of a float.
LONGEST_DECIMAL = 320
#: Characters of a wrong value that a message shows.
MOST_SHOWN = 80

_DECIMAL = re.compile(r"-?[0-9]+(\.[0-9]+)?(e[+-]?[0-9]{1,3})?")


@dataclass(frozen=True)
class Kind:
    """The values of a column: ``expected`` describes them, and all have one of the ``types``.

    ``test`` returns True for those values of the types that fit, None apart; without a test all of them do.
    """

    expected: str
    types: frozenset[type]
    test: Callable[[Any], bool] | None = None

    def fits(self, value: Any) -> bool:
        """Return True if a value fits."""
        return type(value) in self.types and (self.test is None or value is None or self.test(value))

    def all_fit(self, values: Collection[Any]) -> bool:
        """Return True if all values fit; values that are equal are tested once, as many rows have few values."""
        if not self.types.issuperset(map(type, values)):
            return False
        return self.test is None or all(map(self.fits, set(values)))


def optional(kind: Kind) -> Kind:
    """Return the kind that also allows NULL."""
    return Kind(f"{kind.expected}, or NULL", kind.types | {type(None)}, kind.test)


def one_of(*words: str | int) -> Kind:
    """Return the kind of a few values."""
    return Kind(f"one of {', '.join(map(str, words))}", frozenset(map(type, words)), lambda value: value in words)


def is_decimal(text: str) -> bool:
    """Return True if a text is the decimal text of a number within float64."""
    return len(text) <= LONGEST_DECIMAL and _DECIMAL.fullmatch(text) is not None and math.isfinite(float(text))


def _is_finite(value: float) -> bool:
    """Return True if a number is finite and within float64, as an integer may not be."""
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


def _is_moment(text: str) -> bool:
    try:
        return datetime.fromisoformat(text).tzinfo is not None
    except ValueError:
        return False


def _json(shape: str, fits: Callable[[Any], bool]) -> Kind:
    """Return the kind of JSON text whose value ``fits`` and that has no stray surrogates, which UTF-8 cannot hold."""

    def check(text: str) -> bool:
        try:
            found = json.loads(text)
            if "\\u" in text:
                json.dumps(found, ensure_ascii=False).encode()
        except (ValueError, RecursionError):
            return False
        return fits(found)

    return Kind(f"JSON, {shape}", TEXT.types, check)


def is_texts(found: Any) -> bool:
    """Return True for a list of texts."""
    return isinstance(found, list) and all(isinstance(word, str) for word in found)


def _is_summary(found: Any) -> bool:
    nodes = found.get("nodes", 0) if isinstance(found, dict) else None
    return type(nodes) is int and 0 <= nodes < 1 << 63


def _is_published(found: Any) -> bool:
    return isinstance(found, dict) and all(
        (value := found.get(key)) is None or is_decimal(str(value)) for key in ("best_cost", "lower_bound")
    )


def _is_yardstick(found: Any) -> bool:
    return isinstance(found, dict) and all(
        isinstance(seconds, int | float) and 0 < seconds < math.inf for seconds in found.values()
    )


def _is_claim(found: Any) -> bool:
    return (
        isinstance(found, dict)
        and isinstance(found.get("end"), str)
        and all(found.get(key) is None or DECIMAL.fits(found[key]) for key in ("cost", "lower_bound"))
        and all(type(found.get(key)) is int for key in ("solutions", "bounds"))
    )


TEXT = Kind("a text", frozenset({str}))
INTEGER = Kind("an integer", frozenset({int}))
NUMBER = Kind("a finite number", frozenset({int, float}), _is_finite)
AMOUNT = Kind("a finite number, at least 0", NUMBER.types, lambda value: _is_finite(value) and value >= 0)
DECIMAL = Kind("a number as decimal text, within float64", TEXT.types, is_decimal)
FLAG = one_of(0, 1)
MOMENT = Kind("a time as 2025-01-31T12:00:00+00:00", TEXT.types, _is_moment)
METHOD = one_of("solver", "bound")
TRACK = one_of(*tracks())
OBJECT = _json("an object", lambda found: isinstance(found, dict))
TEXTS = _json("a list of texts", is_texts)
SUMMARY = _json("an object whose nodes, if they are there, are a whole number below 2^63", _is_summary)
PUBLISHED = _json("an object whose best_cost and lower_bound are decimal text if they are there", _is_published)
MACHINE = _json(
    "an object whose packages, and a yardstick of positive seconds, are objects if they are there",
    lambda found: (
        isinstance(found, dict)
        and isinstance(found.get("packages") or {}, dict)
        and _is_yardstick(found.get("yardstick", {}))
    ),
)
ENFORCED = _json("an object of texts", lambda found: isinstance(found, dict) and is_texts(list(found.values())))
CLAIM = _json("an object with end, cost, lower_bound, solutions and bounds", _is_claim)

#: Values of each column that is read, by table; `shardmark.harness.results.schema` documents their meaning.
COLUMNS: Mapping[str, Mapping[str, Kind]] = {
    "campaigns": {
        "id": INTEGER,
        "started": MOMENT,
        "ended": optional(MOMENT),
        "command": TEXTS,
        "version": TEXT,
        "executor": TEXT,
        "jobs": optional(INTEGER),
    },
    "hosts": {"campaign": INTEGER, "name": TEXT, "facts": MACHINE, "disturbances": optional(TEXTS)},
    "instances": {"checksum": TEXT, "id": TEXT, "track": TRACK, "summary": SUMMARY, "published": PUBLISHED},
    "solvers": {
        "hash": TEXT,
        "track": TRACK,
        "name": TEXT,
        "kind": METHOD,
        "source": TEXT,
        "description": TEXT,
        "params": OBJECT,
    },
    "runs": {
        "id": TEXT,
        "campaign": INTEGER,
        "track": TRACK,
        "instance": TEXT,
        "checksum": TEXT,
        "solver": TEXT,
        "kind": METHOD,
        "solver_hash": TEXT,
        "seed": INTEGER,
        "timeout_s": NUMBER,
        "memory_mib": NUMBER,
        "cores": INTEGER,
        "started": TEXT,
        "stop": TEXT,
        "status": TEXT,
        "reason": TEXT,
        "feasible": FLAG,
        "cost": optional(DECIMAL),
        "lower_bound": optional(DECIMAL),
        "wall_s": NUMBER,
        "cpu_s": NUMBER,
        "peak_mib": NUMBER,
        "log": TEXT,
        "cpu_limit_s": optional(NUMBER),
        "processes": optional(INTEGER),
        "output_mib": optional(NUMBER),
        "backend": optional(TEXT),
        "enforced": optional(ENFORCED),
        "co_runners": optional(INTEGER),
        "host": TEXT,
        "claimed": optional(CLAIM),
        "verified": optional(TEXT),
    },
    "matrix": {"campaign": INTEGER, "run": TEXT},
    "incumbents": {
        "run": TEXT,
        "number": INTEGER,
        "time_s": NUMBER,
        "feasible": FLAG,
        "cost": optional(DECIMAL),
        "cost_float": optional(NUMBER),
    },
    "bounds": {"run": TEXT, "number": INTEGER, "time_s": NUMBER, "value": DECIMAL, "value_float": NUMBER},
    "certificates": {
        "run": TEXT,
        "claimed": DECIMAL,
        "proven": optional(DECIMAL),
        "bytes": INTEGER,
        "check_s": AMOUNT,
        "reason": TEXT,
    },
}
#: The columns of each table that identify a row.
KEYS = {
    "campaigns": ("id",),
    "hosts": ("campaign", "name"),
    "instances": ("checksum",),
    "matrix": ("campaign", "run"),
    "solvers": ("track", "name", "hash"),
    "runs": ("id",),
    "incumbents": ("run", "number"),
    "bounds": ("run", "number"),
    "certificates": ("run",),
}

Row = tuple[Any, ...]


def checked(path: Path, table: str, names: Sequence[str], rows: Sequence[Row]) -> Sequence[Row]:
    """Return rows of some columns of a table unchanged; InputError for the first value that its column cannot hold."""
    for name, values in zip(names, zip(*rows, strict=True), strict=False):  # no columns without rows
        kind = COLUMNS[table][name]
        if not kind.all_fit(values):
            row, wrong = next((row, value) for row, value in zip(rows, values, strict=True) if not kind.fits(value))
            expected = f"expected {kind.expected}, found {shown(wrong)}"
            raise InputError(path, f"{named(table, dict(zip(names, row, strict=True)))} {name}", expected)
    return rows


def named(table: str, row: Mapping[str, Any]) -> str:
    """Return a row in words: its table and its key."""
    return " ".join([table, *(f"{key} {shown(row[key])}" for key in KEYS[table] if key in row)])


def shown(value: Any) -> str:
    """Return a value as a message shows it, cut in the middle if it is long."""
    words = repr(value)
    half = MOST_SHOWN // 2
    return words if len(words) <= MOST_SHOWN else f"{words[:half]}…{words[-half:]}"
