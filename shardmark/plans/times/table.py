"""Tables of measured times: CSV, or JSON with the same columns; the rows of one.

A row names an ``operator``, a ``module`` or a ``kind`` of operator with the ``shapes`` of its inputs, such as
``8x512 512x64``. The time is in a column ``time_us`` (or ns, ms, s). A ``pass`` restricts a module's row to one of
``forward`` and ``backward``. A row without a time says nothing; ``roofline_us`` is only for the reader.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Mapping
from typing import Any

from shardmark.instances import InputError
from shardmark.instances.files.columns import LARGEST, describe
from shardmark.instances.files.jsonfile import shortened
from shardmark.instances.models.model import Model, Operator
from shardmark.plans.times.measured import TABLE, UNITS, Measured, Row, Shapes

NAMES = ("operator", "module", "kind")
COLUMNS = (*NAMES, "shapes", "pass", "roofline_us")
TIMES = tuple(f"time_{unit}" for unit in UNITS)
SCALAR = "scalar"


def shapes_text(shapes: Shapes) -> str:
    """Shapes as a table has them.

    >>> shapes_text(((8, 512), (512,), ()))
    '8x512 512 scalar'
    """
    return " ".join("x".join(map(str, shape)) or SCALAR for shape in shapes)


def shapes_read(model: Model, operator: Operator) -> Shapes:
    """The shapes of an operator's inputs."""
    return tuple(model.tensors[access.tensor].shape for access in operator.reads)


def read_csv(text: str, source: str) -> Measured:
    """The rows of a CSV table."""
    reader = csv.reader(io.StringIO(text), strict=True)
    try:
        header = [name.strip() for name in next(reader, [])]
        time = _time_column(header, source)
        return Measured(TABLE, list(_csv_rows(reader, header, time, source)))
    except csv.Error as error:
        raise InputError(source, f"line {reader.line_num}", f"expected a row of CSV ({error})") from None


def _time_column(header: list[str], source: str) -> str:
    times = [name for name in header if name.startswith("time")]
    unknown = [name for name in header if name not in (*COLUMNS, *times)]
    repeated = [name for name in header if header.count(name) > 1]
    if unknown or repeated or not any(name in header for name in NAMES):
        expected = f"expected a header with columns of {', '.join(COLUMNS)} and one of {', '.join(TIMES)}, each once"
        raise InputError(source, "line 1", f"{expected}, found {shortened(', '.join(header))}")
    if len(times) != 1 or times[0] not in TIMES:
        expected = f"expected one column with the unit of times in its name: {', '.join(TIMES)}"
        raise InputError(source, "line 1", f"{expected}, found {', '.join(times) or 'none'}")
    return times[0]


def _csv_rows(reader: Any, header: list[str], time: str, source: str) -> Iterator[Row]:
    for cells in reader:
        place = f"line {reader.line_num}"
        if not any(cell.strip() for cell in cells):
            continue
        if len(cells) != len(header):
            raise InputError(source, place, f"expected {len(header)} columns, found {len(cells)}")
        entry: dict[str, Any] = {name: cell.strip() for name, cell in zip(header, cells, strict=True) if cell.strip()}
        if time in entry:
            text = entry.pop(time)
            try:
                entry["time"] = float(text)
            except ValueError:
                raise InputError(source, f"{place}, {time}", f"expected a number, found {shortened(text)}") from None
            yield _row(entry, UNITS[time.removeprefix("time_")], source, place)


def read_rows(document: Mapping[str, Any], source: str) -> Measured:
    """The rows of a JSON table: an object with ``unit`` and ``rows``, which have the columns of CSV and ``time``."""
    if document.keys() != {"unit", "rows"} or not isinstance(document["rows"], list):
        found = ", ".join(map(repr, document))
        raise InputError(source, "", f"expected an object with unit and rows, found {shortened(found) or 'no keys'}")
    unit = document["unit"]
    if not isinstance(unit, str) or unit not in UNITS:
        raise InputError(source, "unit", f"expected one of {', '.join(UNITS)}, found {describe(unit)}")
    rows = []
    for number, entry in enumerate(document["rows"]):
        place = f"rows[{number}]"
        if not isinstance(entry, dict) or not entry.keys() <= {*COLUMNS, "time"}:
            expected = f"expected an object with keys of {', '.join((*COLUMNS, 'time'))}"
            raise InputError(source, place, f"{expected}, found {shortened(str(entry))}")
        if entry.get("time") is not None:
            rows.append(_row(entry, UNITS[unit], source, place))
    return Measured(TABLE, rows)


def _row(entry: Mapping[str, Any], unit: float, source: str, place: str) -> Row:
    """A row with a time; kind and shapes of a row with an operator are only for the reader."""
    time = entry["time"]
    if isinstance(time, bool) or not isinstance(time, int | float) or not 0 <= time <= LARGEST:
        raise InputError(source, place, f"expected a time of at least 0, found {describe(time)}")
    for name in (*NAMES, "shapes", "pass"):
        if not isinstance(entry.get(name, ""), str):
            raise InputError(source, f"{place}, {name}", f"expected a text, found {describe(entry[name])}")
    named = [name for name in NAMES if name in entry]
    if named == ["operator", "kind"]:
        named = ["operator"]
    if len(named) != 1:
        expected = "expected an operator, a module, or a kind with shapes"
        raise InputError(source, place, f"{expected}, found {' and '.join(named) or 'none'}")
    late = entry.get("pass")
    if late not in (None, "forward", "backward"):
        raise InputError(source, f"{place}, pass", f"expected forward or backward, found {shortened(late)}")
    (name,) = named
    return Row(
        place,
        float(time) * unit,
        shapes=_shapes(entry.get("shapes", ""), source, place) if name == "kind" else (),
        backward=None if late is None else late == "backward",
        **{name: entry[name]},
    )


def _shapes(text: str, source: str, place: str) -> Shapes:
    words = text.split()
    if not all(re.fullmatch(rf"{SCALAR}|[0-9]{{1,18}}(x[0-9]{{1,18}})*", word) for word in words):
        raise InputError(source, f"{place}, shapes", f"expected shapes such as '8x512 512', found {shortened(text)}")
    return tuple(() if word == SCALAR else tuple(map(int, word.split("x"))) for word in words)
