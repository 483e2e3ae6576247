"""Validated conversion of JSON lists to NumPy columns; errors name the offending element."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shardmark.instances.errors import InputError

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

LARGEST = sys.float_info.max
#: If the sum of all terms is at most this, no partial sum overflows, however it is rounded.
LARGEST_TOTAL = LARGEST * (1 - 1e-9)


@dataclass(frozen=True, eq=False)
class Ragged:
    """A list of lists of integers as arrays; a document can contain it instead of the lists.

    ``start``     shape (rows + 1,), int64: row i is ``flat[start[i]:start[i + 1]]``
    ``flat``      shape (integers,), int64
    ``negative``  True if some integer is negative
    """

    start: Ints
    flat: Ints
    negative: bool

    def __len__(self) -> int:
        return len(self.start) - 1

    def __getitem__(self, row: int) -> list[int]:
        values: list[int] = self.flat[self.start[row] : self.start[row + 1]].tolist()
        return values

    def __iter__(self) -> Iterator[list[int]]:
        return (self[row] for row in range(len(self)))


Rows = list[Any] | Ragged


def frozen(array: NDArray[Any]) -> NDArray[Any]:
    """Make ``array`` read-only and return it."""
    array.flags.writeable = False
    return array


def freeze_columns(instance: Any) -> None:
    """Make every array, and every tuple of arrays, of a dataclass instance read-only."""
    for value in vars(instance).values():
        first = value[0] if isinstance(value, tuple) and value else value
        if isinstance(first, np.ndarray):
            for array in value if isinstance(value, tuple) else (value,):
                frozen(array)


def require_list(value: Any, source: str, place: str, length: int | None = None) -> list[Any]:
    """Return ``value`` if it is a list (of ``length`` elements if given), else raise InputError."""
    if not isinstance(value, list):
        raise InputError(source, place, f"expected a list, found {describe(value)}")
    if length is not None and len(value) != length:
        raise InputError(source, place, f"expected {length} elements, found {len(value)}")
    return value


def require_rows(value: Any, source: str, place: str, length: int | None = None) -> Rows:
    """Return ``value`` if it is a list or a `Ragged`; see `require_list`."""
    if isinstance(value, Ragged) and length in (None, len(value)):
        return value
    return require_list(value, source, place, length)


def require_equal_lengths(table: Mapping[str, Any], source: str, place: str) -> None:
    """Raise InputError, which names all lengths, unless the columns of a table are equally long."""
    lengths = {name: len(column) for name, column in table.items() if isinstance(column, list | np.ndarray)}
    if len(set(lengths.values())) > 1:
        found = ", ".join(f"{name} {length}" for name, length in lengths.items())
        raise InputError(source, place, f"expected columns of equal length, found {found}")


def require_columns(instance: Any, names: Iterable[str], length: int, place: str) -> None:
    """Raise InputError, which names all columns of wrong length, unless each has ``length`` elements.

    ``place`` names what the elements belong to: "nodes", "edges" or "devices".
    """
    lengths = {name: len(getattr(instance, name)) for name in names}
    if wrong := ", ".join(f"{name} {found}" for name, found in lengths.items() if found != length):
        expected = f"expected {length} elements per column, one per {place.removesuffix('s')}, found {wrong}"
        raise InputError(instance.source, place, expected)


def require_text(value: Any, source: str, place: str) -> str:
    """Return ``value`` if it is a text without lone surrogates, which JSON can spell and UTF-8 cannot."""
    if not isinstance(value, str) or any("\ud800" <= character <= "\udfff" for character in value):
        raise InputError(source, place, f"expected a text, found {describe(value)}")
    return value


def names_column(names: Any, count: int, source: str, place: str) -> tuple[str, ...]:
    """Return ``count`` names; by default the numbers from 0 on."""
    if names is None:
        return tuple(map(str, range(count)))
    require_list(names, source, place, count)
    return tuple(require_text(name, source, f"{place}[{i}]") for i, name in enumerate(names))


def plain(column: Floats) -> list[float | int]:
    """List of numbers for JSON; whole ones become integers."""
    return [plain_number(number) for number in column.tolist()]


def plain_number(number: float) -> float | int:
    """The number, as an integer if it is a whole one below 2^53."""
    return int(number) if number.is_integer() and abs(number) < 2**53 else number


def require_int(value: Any, source: str, place: str) -> int:
    """Return ``value`` if it is an int, else raise InputError; a bool or 1.0 is not."""
    if type(value) is not int:
        raise InputError(source, place, f"expected an integer, found {describe(value)}")
    return value


def require_number(value: Any, source: str, place: str) -> float:
    """Return ``value`` as a float if it is a finite number >= 0, else raise InputError."""
    if type(value) not in (int, float) or not 0 <= value <= LARGEST:
        raise InputError(source, place, f"expected a finite number, at least 0, found {describe(value)}")
    return float(value)


def describe(value: Any) -> str:
    """Describe a JSON value in an error sentence."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, list):
        return f"a list of {len(value)}"
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, int) and value.bit_length() > 128:  # Python refuses to print very long ones
        return f"an integer of {value.bit_length()} bits"
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:37]}..."


def refuse_below_0(column: NDArray[Any], source: str, place: str, *, finite: bool = True) -> None:
    """Raise InputError for the first element that is negative, NaN or, if ``finite``, infinite.

    ``place`` names an element, with a ``{}`` per axis of the column for its index.
    """
    good = (column >= 0) & (column < np.inf) if finite else column >= 0
    for at in np.argwhere(~good)[:1]:
        expected = f"expected a {'finite ' if finite else ''}number, at least 0, found {column[tuple(at)]:g}"
        raise InputError(source, place.format(*at), expected)


def require_format(document: Any, expected: str, source: str) -> None:
    """Raise InputError if a document's ``format`` is not the expected one, before other defects."""
    if isinstance(document, dict) and document.get("format", expected) != expected:
        raise InputError(source, "format", f"expected {expected!r}, found {describe(document['format'])}")


def int_column(values: list[Any], source: str, place: str, *, least: int | None = None) -> Ints:
    """Convert a list of integers to int64, shape (len(values),); every element must be at least ``least``."""
    if set(map(type, values)) - {int}:
        at = next(i for i, value in enumerate(values) if type(value) is not int)
        raise InputError(source, f"{place}[{at}]", f"expected an integer, found {describe(values[at])}")
    try:
        column = np.array(values, dtype=np.int64)
    except OverflowError:
        at = next(i for i, value in enumerate(values) if not -(2**63) <= value < 2**63)
        raise InputError(source, f"{place}[{at}]", "expected an integer below 2^63") from None
    if least is not None and len(column) and column.min() < least:
        at = int(np.argmax(column < least))
        raise InputError(source, f"{place}[{at}]", f"expected at least {least}, found {column[at]}")
    return column


def float_column(values: Any, source: str, place: str, length: int | None = None) -> Floats:
    """Convert a list of finite numbers >= 0, of ``length`` elements if that is given, to float64."""
    require_list(values, source, place, length)
    if not set(map(type, values)) - {int, float}:
        try:
            column = np.array(values, dtype=np.float64)
        except OverflowError:  # an integer too large for a float
            column = np.array([np.inf])
        if np.isfinite(column).all() and (column >= 0).all():
            return column
    for i, value in enumerate(values):  # raises with the place of the bad value
        require_number(value, source, f"{place}[{i}]")
    raise AssertionError("a bad column has a bad value")


def ragged_ints(rows: Rows, source: str, place: str, *, least: int | None = None) -> tuple[Ints, Ints]:
    """Convert lists of integers to ``(start, flat)``: row i is ``flat[start[i]:start[i + 1]]``."""
    if isinstance(rows, Ragged):
        if least is None or (least <= 0 and not rows.negative):
            return rows.start, rows.flat
        rows = list(rows)
    if set(map(type, rows)) - {list}:
        at = next(i for i, row in enumerate(rows) if type(row) is not list)
        raise InputError(source, f"{place}[{at}]", f"expected a list, found {describe(rows[at])}")
    start = np.zeros(len(rows) + 1, dtype=np.int64)
    np.cumsum(np.fromiter(map(len, rows), dtype=np.int64, count=len(rows)), out=start[1:])
    wrong = set(map(type, chain.from_iterable(rows))) - {int}
    flat = None
    if not wrong:
        try:
            flat = np.fromiter(chain.from_iterable(rows), dtype=np.int64, count=int(start[-1]))
        except OverflowError:
            flat = None
    if flat is None or (least is not None and len(flat) and flat.min() < least):
        for i, row in enumerate(rows):  # raises with the place of the bad row
            int_column(row, source, f"{place}[{i}]", least=least)
    assert flat is not None
    return start, flat


def int_pairs(rows: Rows, source: str, place: str, pair: str) -> tuple[Ints, Ints]:
    """Convert a list of pairs of integers to two columns; ``pair`` describes a pair in errors."""
    start, flat = ragged_ints(rows, source, place)
    for at in np.flatnonzero(np.diff(start) != 2)[:1]:
        raise InputError(source, f"{place}[{at}]", f"expected a pair {pair}")
    return flat[0::2], flat[1::2]
