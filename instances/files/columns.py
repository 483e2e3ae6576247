"""Turn lists from JSON into NumPy columns, refusing every element that is not what it should be."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from instances.errors import InputError

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

LARGEST = sys.float_info.max
#: Where all that can be added up comes to no more, no sum of it is infinite, however it is rounded.
LARGEST_TOTAL = LARGEST * (1 - 1e-9)


@dataclass(frozen=True, eq=False)
class Ragged:
    """A list of lists of integers as arrays; a document can hold it in place of the lists.

    ``start``     shape (rows + 1,), int64: row i is ``flat[start[i]:start[i + 1]]``
    ``flat``      shape (integers,), int64
    ``negative``  whether an integer is less than 0
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
    """Return ``array``, made read-only."""
    array.flags.writeable = False
    return array


def require_list(value: Any, source: str, place: str, length: int | None = None) -> list[Any]:
    """Return ``value`` if it is a list, of ``length`` elements if that is given."""
    if not isinstance(value, list):
        raise InputError(source, place, f"expected a list, found {describe(value)}")
    if length is not None and len(value) != length:
        raise InputError(source, place, f"expected {length} elements, found {len(value)}")
    return value


def require_rows(value: Any, source: str, place: str, length: int | None = None) -> Rows:
    """Return ``value`` if it is a list, also one of lists of integers as arrays; see `require_list`."""
    if isinstance(value, Ragged) and length in (None, len(value)):
        return value
    return require_list(value, source, place, length)


def require_text(value: Any, source: str, place: str) -> str:
    """Return ``value`` if it is a text that can be written as UTF-8 (JSON can spell half a character)."""
    if not isinstance(value, str) or any("\ud800" <= character <= "\udfff" for character in value):
        raise InputError(source, place, f"expected a text, found {describe(value)}")
    return value


def names_column(names: Any, count: int, source: str, place: str) -> tuple[str, ...]:
    """A list of so many texts; where there is none, the numbers from 0 on stand for names."""
    if names is None:
        return tuple(map(str, range(count)))
    require_list(names, source, place, count)
    return tuple(require_text(name, source, f"{place}[{i}]") for i, name in enumerate(names))


def plain(column: Floats) -> list[float | int]:
    """Numbers as they are written: whole ones without a point."""
    return [int(x) if x.is_integer() and abs(x) < 2**53 else x for x in column.tolist()]


def require_int(value: Any, source: str, place: str) -> int:
    """Return ``value`` if it is an int; a bool or 1.0 is none."""
    if type(value) is not int:
        raise InputError(source, place, f"expected an integer, found {describe(value)}")
    return value


def require_number(value: Any, source: str, place: str) -> float:
    """Return ``value`` as a float if it is a finite number >= 0."""
    if type(value) not in (int, float) or not 0 <= value <= LARGEST:
        raise InputError(source, place, f"expected a finite number, at least 0, found {describe(value)}")
    return float(value)


def describe(value: Any) -> str:
    """A few words for a JSON value in an error sentence."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, list):
        return f"a list of {len(value)}"
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, int) and value.bit_length() > 128:  # Python refuses to print the longest of them
        return f"an integer of {value.bit_length()} bits"
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:37]}..."


def int_column(values: list[Any], source: str, place: str, *, least: int | None = None) -> Ints:
    """A list of integers as int64, shape (len(values),); every element at least ``least``."""
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


def float_column(values: list[Any], source: str, place: str) -> Floats:
    """A list of finite numbers >= 0 as float64, shape (len(values),)."""
    if not set(map(type, values)) - {int, float}:
        try:
            column = np.array(values, dtype=np.float64)
        except OverflowError:  # an integer too large for a float
            column = np.array([np.inf])
        if np.isfinite(column).all() and (column >= 0).all():
            return column
    for i, value in enumerate(values):  # some value is bad: this raises with its place
        require_number(value, source, f"{place}[{i}]")
    raise AssertionError("a column that is bad has a bad value")


def ragged_ints(rows: Rows, source: str, place: str, *, least: int | None = None) -> tuple[Ints, Ints]:
    """Lists of integers of different lengths as ``(start, flat)``: row i is ``flat[start[i]:start[i + 1]]``."""
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
        for i, row in enumerate(rows):  # some row is bad: this raises with its place
            int_column(row, source, f"{place}[{i}]", least=least)
    assert flat is not None
    return start, flat
