"""Lists of JSON objects read key by key, and graphs of nodes with ids; errors name the offending element."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from shardmark.instances.errors import InputError
from shardmark.instances.files.columns import Ints, describe, require_int, require_list, require_text

REQUIRED = object()


@dataclass(frozen=True)
class Records:
    """A list of objects, read key by key."""

    records: Any
    source: str
    place: str

    def __post_init__(self) -> None:
        for i, record in enumerate(require_list(self.records, self.source, self.place)):
            if not isinstance(record, dict):
                raise InputError(self.source, f"{self.place}[{i}]", f"expected an object, found {describe(record)}")

    def column(self, key: str, convert: Callable[[Any, str, str], Any], default: Any = REQUIRED) -> list[Any]:
        """Converted values of a key in all objects; None for absent or null ones if the default is None."""
        values = []
        for i, record in enumerate(self.records):
            value = get(record, key, self.source, f"{self.place}[{i}]", default)
            absent = value is None and default is None
            values.append(None if absent else convert(value, self.source, f"{self.place}[{i}].{key}"))
        return values

    def named(self) -> tuple[Ints, tuple[str, ...]]:
        """The ids of nodes, all different, and their names, by default their ids; at least one node."""
        if not self.records:
            raise InputError(self.source, self.place, "expected at least one node")
        ids = self.column("id", require_index)
        column = np.array(ids, dtype=np.int64)
        refuse_repeated(column, self.source)
        names = self.column("name", require_text, None)
        return column, tuple(str(i) if name is None else name for i, name in zip(ids, names, strict=True))

    def ends(self, key: str, position: Mapping[int, int]) -> Ints:
        """The positions of the nodes whose ids are the values of a key."""

        def end(value: Any, source: str, place: str) -> int:
            identity = require_int(value, source, place)
            if identity not in position:
                raise InputError(source, place, f"expected the id of a node, found {describe(identity)}")
            return position[identity]

        return np.array(self.column(key, end), dtype=np.int64)


def get(record: Any, key: str, source: str, place: str, default: Any = REQUIRED) -> Any:
    """Value of a key; InputError if it is missing and there is no default."""
    if key in record:
        return record[key]
    if default is REQUIRED:
        raise InputError(source, place, f"expected a key {key!r}")
    return default


def require_index(value: Any, source: str, place: str) -> int:
    """Return ``value`` if it is an int of 64 bits."""
    number = require_int(value, source, place)
    if not -(2**63) <= number < 2**63:
        raise InputError(source, place, f"expected an integer below 2^63, found {describe(number)}")
    return number


def refuse_repeated(ids: Ints, source: str) -> None:
    """Raise InputError if an id occurs twice."""
    order = np.argsort(ids, kind="stable")
    again = order[1:][np.diff(ids[order]) == 0]
    if len(again):
        at = int(again.min())
        raise InputError(source, f"nodes[{at}].id", f"expected every id once, found {ids[at]} again")
