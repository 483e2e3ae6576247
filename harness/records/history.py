"""The history of the records: a line of JSON per improvement, appended and never changed.

A line is an object with these keys, all required:

``instance``   id in the catalog
``checksum``   SHA-256 of its decompressed file, its track and its options, see `Problem.checksum`
``kind``       "cost": of a solution that the referee verified; "bound": a lower bound that a method proved
``value``      exact decimal text
``solution``   of a cost: SHA-256 of its solution, see `harness.records.solutions`; empty for a bound
``method``     the solver or bound method of the run
``version``    hash of the method's code
``seed``, ``timeout_s``, ``memory_mib``, ``cores``  seed and limits of the run, see `harness.results.schema`
``wall_s``     seconds that the run took
``machine``    processor, number of CPUs, memory
``date``       UTC day on which the run began
``by``         the person or project that improved it
"""

from __future__ import annotations

import fcntl
import json
import os
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from datetime import date
from pathlib import Path

from harness.results.records import number
from harness.results.rows import AMOUNT, DECIMAL, INTEGER, TEXT, Kind, one_of, shown
from instances import InputError, catalog
from instances.files.jsonfile import decode, parse_json, read_bytes, require_keys, write_bytes

#: The project's own records, beside its packages in a clone and in an installed wheel.
FOLDER = Path(__file__).resolve().parents[2] / "records"
FILE_NAME = "history.jsonl"
LARGEST = 64 << 20  # bytes of a history


@dataclass(frozen=True)
class Improvement:
    """A line of the history."""

    instance: str
    checksum: str
    kind: str
    value: str
    solution: str
    method: str
    version: str
    seed: int
    timeout_s: float
    memory_mib: float
    cores: int
    wall_s: float
    machine: str
    date: str
    by: str

    @property
    def number(self) -> int | float:
        """The value: an int if it is written as one, else a float."""
        return number(self.value)


def _is_day(text: str) -> bool:
    try:
        return date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False


def _is_digest(text: str) -> bool:
    return len(text) == 64 and set(text) <= set("0123456789abcdef")


_DIGEST = Kind("a SHA-256 in hexadecimal", TEXT.types, _is_digest)
_KINDS: Mapping[str, Kind] = {
    "instance": TEXT,
    "checksum": _DIGEST,
    "kind": one_of("cost", "bound"),
    "value": DECIMAL,
    "solution": Kind("a SHA-256 in hexadecimal, or ''", TEXT.types, lambda value: value == "" or _is_digest(value)),
    "method": TEXT,
    "version": TEXT,
    "seed": INTEGER,
    "timeout_s": AMOUNT,
    "memory_mib": AMOUNT,
    "cores": INTEGER,
    "wall_s": AMOUNT,
    "machine": TEXT,
    "date": Kind("a day as 2025-01-31", TEXT.types, _is_day),
    "by": TEXT,
}


@contextmanager
def locked(folder: Path, *, write: bool = False) -> Iterator[None]:
    """Lock a folder of records, which waits for other processes: alone to write, together with others to read."""
    try:
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise InputError(folder, "", f"expected a folder of records ({error.strerror})") from None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX if write else fcntl.LOCK_SH)
        yield
    finally:
        os.close(handle)


def read(folder: Path, wrong: Callable[[InputError], None] | None = None) -> dict[str, list[Improvement]]:
    """Return the improvements of each instance, in their order; none if the folder has no history yet.

    InputError for the first line that is not as documented, or that is about another file than an earlier one; given
    ``wrong``, such lines are left out, and their errors are handed to it.
    """
    path = folder / FILE_NAME
    found: dict[str, list[Improvement]] = defaultdict(list)
    if not path.exists() and folder.is_dir():
        return found
    ids = {entry.id for entry in catalog.entries()}
    content = read_bytes(path, LARGEST)
    for count, line in enumerate(content.removesuffix(b"\n").split(b"\n") if content else (), start=1):
        try:
            improvement = _parse(line, path, f"line {count}", ids)
            earlier = found[improvement.instance]
            if earlier and earlier[0].checksum != improvement.checksum:
                expected = f"expected {earlier[0].checksum} as in an earlier line on {improvement.instance}"
                raise InputError(path, f"line {count} checksum", expected)
        except InputError as error:
            if wrong is None:
                raise
            wrong(error)
        else:
            earlier.append(improvement)
    return found


def _parse(line: bytes, path: Path, place: str, known: Collection[str]) -> Improvement:
    names = tuple(field.name for field in fields(Improvement))
    try:
        read = parse_json(decode(line, path), path)
    except InputError as error:
        raise InputError(path, place, error.expected) from None
    document = require_keys(read, str(path), place, names)
    for name, kind in _KINDS.items():
        if not kind.fits(document[name]):
            raise InputError(path, f"{place} {name}", f"expected {kind.expected}, found {shown(document[name])}")
    if (document["kind"] == "cost") != bool(document["solution"]):
        raise InputError(path, f"{place} solution", "expected one of a cost, and none of a bound")
    if document["instance"] not in known:
        found = f"expected the id of an instance in the catalog, found {shown(document['instance'])}"
        raise InputError(path, f"{place} instance", found)
    return Improvement(**document)


def append(folder: Path, improvements: Sequence[Improvement]) -> None:
    """Append improvements to the history, all or none; the caller has `locked` the folder.

    InputError for an improvement that `read` would refuse, as no later line could be read either.
    """
    path = folder / FILE_NAME
    before = read_bytes(path, LARGEST) if path.exists() else b""
    lines = [before if before.endswith(b"\n") or not before else before + b"\n"]
    for improvement in improvements:
        line = json.dumps(asdict(improvement), ensure_ascii=False).encode()
        _parse(line, path, f"new line on {improvement.instance}", (improvement.instance,))
        lines.append(line + b"\n")
    write_bytes(path, b"".join(lines))
