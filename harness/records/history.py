"""The history of the records: a line of JSON per improvement or withdrawal, appended and never changed.

An improvement is an object with these keys, all required,

``instance``   id in the catalog
``checksum``   SHA-256 of its decompressed file, its track and its options, see `Problem.checksum`
``kind``       "cost": of a solution that the referee verified; "bound": a lower bound that a method proved
``value``      exact decimal text
``solution``   of a cost: SHA-256 of its solution, see `shardmark.harness.records.solutions`; empty for a bound
``method``     the solver or bound method of the run
``version``    hash of the method's code
``seed``, ``timeout_s``, ``memory_mib``, ``cores``  seed and limits of the run, see `shardmark.harness.results.schema`
``wall_s``     seconds that the run took
``machine``    processor, number of CPUs, memory
``date``       UTC day on which the run began
``by``         the person or project that improved it

and one that a bound may have:

``certificate``  SHA-256 of the certificate that proves it, see `shardmark.harness.records.certificates`

A withdrawal takes back what turned out to rest on something that cannot be trusted. Its keys, all required:

``instance``, ``value``, ``method``, ``version``  those of the earlier lines that no longer count, bounds all
``kind``       "withdrawn"
``reason``     a sentence
``date``       UTC day of the withdrawal
``by``         the person or project that withdrew it

A bound that is proven again by a later line counts again.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import date
from pathlib import Path
from typing import Any

from shardmark.harness.results.records import number
from shardmark.harness.results.rows import AMOUNT, DECIMAL, INTEGER, TEXT, Kind, one_of, shown
from shardmark.instances import InputError, catalog
from shardmark.instances.files.jsonfile import decode, parse_json, read_bytes, require_keys, write_bytes

#: The project's own records, in a clone and in an installed wheel.
FOLDER = Path(__file__).resolve().parents[2] / "records"
FILE_NAME = "history.jsonl"
LARGEST = 64 << 20  # bytes of a history


@dataclass(frozen=True)
class Withdrawal:
    """A line of the history that takes back bounds of earlier lines."""

    instance: str
    kind: str
    value: str
    method: str
    version: str
    reason: str
    date: str
    by: str

    def concerns(self, line: Improvement) -> bool:
        """Return True if this takes back a line on the same instance."""
        claim = (line.value, line.method, line.version)
        return line.kind == "bound" and claim == (self.value, self.method, self.version)


@dataclass(frozen=True)
class Improvement:
    """A line of the history with a cost or a bound; ``withdrawn`` is the later line that takes it back, if any."""

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
    certificate: str = ""
    withdrawn: Withdrawal | None = None

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
_OF_WITHDRAWAL: Mapping[str, Kind] = {
    "instance": TEXT,
    "kind": one_of("withdrawn"),
    "value": DECIMAL,
    "method": TEXT,
    "version": TEXT,
    "reason": Kind("a sentence", TEXT.types, lambda text: bool(text.strip())),
    "date": _KINDS["date"],
    "by": TEXT,
}
#: Keys of lines that have them.
_OPTIONAL: Mapping[str, Kind] = {"certificate": _DIGEST}


def keys_of(line: Improvement | Withdrawal) -> dict[str, Any]:
    """Return a line as its object in the file."""
    left_out = {"withdrawn", *(name for name in _OPTIONAL if not getattr(line, name, ""))}
    return {name: value for name, value in asdict(line).items() if name not in left_out}


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

    Lines that a later one withdraws are marked so. InputError for the first line that is not as documented, that is
    about another file than an earlier one, or that withdraws what no earlier line says; given ``wrong``, such lines are
    left out, and their errors are handed to it.
    """
    path = folder / FILE_NAME
    found: dict[str, list[Improvement]] = defaultdict(list)
    if not path.exists() and folder.is_dir():
        return found
    ids = {entry.id for entry in catalog.entries()}
    content = read_bytes(path, LARGEST)
    for count, line in enumerate(content.removesuffix(b"\n").split(b"\n") if content else (), start=1):
        try:
            read = _parse(line, path, f"line {count}", ids)
            if isinstance(read, Withdrawal):
                _withdraw(found[read.instance], read, path, count)
            else:
                _add(found[read.instance], read, path, count)
        except InputError as error:
            if wrong is None:
                raise
            wrong(error)
    return found


def _add(earlier: list[Improvement], line: Improvement, path: Path, count: int) -> None:
    """Append to the lines on one instance; InputError if they are about another file."""
    if earlier and earlier[0].checksum != line.checksum:
        expected = f"expected {earlier[0].checksum} as in an earlier line on {line.instance}"
        raise InputError(path, f"line {count} checksum", expected)
    earlier.append(line)


def _withdraw(earlier: list[Improvement], withdrawal: Withdrawal, path: Path, count: int) -> None:
    """Mark what a withdrawal is about among the lines on its instance; InputError if that is nothing."""
    concerned = [at for at, line in enumerate(earlier) if withdrawal.concerns(line)]
    if not concerned:
        claim = f"{withdrawal.value} of {withdrawal.method}, version {withdrawal.version}"
        expected = f"expected an earlier line with the bound {claim}, on {withdrawal.instance}"
        raise InputError(path, f"line {count}", expected)
    for at in concerned:
        earlier[at] = replace(earlier[at], withdrawn=withdrawal)


def _parse(line: bytes, path: Path, place: str, known: Collection[str]) -> Improvement | Withdrawal:
    try:
        read = parse_json(decode(line, path), path)
    except InputError as error:
        raise InputError(path, place, error.expected) from None
    withdraws = isinstance(read, dict) and read.get("kind") == "withdrawn"
    kinds, optional = (_OF_WITHDRAWAL, {}) if withdraws else (_KINDS, _OPTIONAL)
    document = require_keys(read, str(path), place, tuple(kinds), tuple(optional))
    for name, kind in {**kinds, **optional}.items():
        if name in document and not kind.fits(document[name]):
            raise InputError(path, f"{place} {name}", f"expected {kind.expected}, found {shown(document[name])}")
    if not withdraws and (document["kind"] == "cost") != bool(document["solution"]):
        raise InputError(path, f"{place} solution", "expected a solution for a cost, and none for a bound")
    if document["kind"] == "cost" and "certificate" in document:
        raise InputError(path, f"{place} certificate", "expected a certificate of a bound only")
    if document["instance"] not in known:
        found = f"expected the id of an instance in the catalog, found {shown(document['instance'])}"
        raise InputError(path, f"{place} instance", found)
    return Withdrawal(**document) if withdraws else Improvement(**document)


def append(folder: Path, new: Sequence[Improvement | Withdrawal]) -> None:
    """Append lines to the history, all or none; the caller has `locked` the folder.

    InputError for a line that `read` would refuse, as no later line could be read either.
    """
    path = folder / FILE_NAME
    before = read_bytes(path, LARGEST) if path.exists() else b""
    lines = [before if before.endswith(b"\n") or not before else before + b"\n"]
    for added in new:
        line = json.dumps(keys_of(added), ensure_ascii=False).encode()
        _parse(line, path, f"new line on {added.instance}", (added.instance,))
        lines.append(line + b"\n")
    write_bytes(path, b"".join(lines))
