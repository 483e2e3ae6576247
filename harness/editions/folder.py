"""The folder of an edition: its description, its parts, and the checksums of all its files.

``edition.json``  ``{"format": "shardmark/edition/1", "name", "parts": [...], "left_out": [...]}``
``SHA256SUMS``    a line per other file, as ``sha256sum --check`` reads it
``PART/``         a file of columns per table, and ``solutions/`` with the best solution of each instance

A part is a campaign of its own, with its machines; ``edition.json`` has its ``name``, the number of its ``runs``, the
``suites`` that its commands name, and ``accepted``, why it was published although its machine was disturbed, or "".
``left_out`` has an object ``{"track", "suite", "instance"}`` per instance of these suites without a run.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from shardmark.harness.editions.columns import decoded
from shardmark.harness.records.files import DIGITS
from shardmark.harness.results.rows import Kind, Row, is_texts, shown
from shardmark.instances import InputError
from shardmark.instances.catalog import near_miss
from shardmark.instances.files.jsonfile import decode, read_bytes, read_json, require_keys, sha256
from shardmark.solvers.registry import legal_name

#: The project's editions, in a clone and in an installed wheel.
FOLDER = Path(__file__).resolve().parents[2] / "editions"
FORMAT = "shardmark/edition/1"
DESCRIPTION, CHECKSUMS, SOLUTIONS = "edition.json", "SHA256SUMS", "solutions"
LARGEST = 64 << 20  # bytes of the list of checksums

NAME = Kind(
    "a name of lower-case letters, digits, dots and dashes", frozenset({str}), lambda found: legal_name(found) == found
)
TEXT = Kind("a text", frozenset({str}))
TEXTS = Kind("a list of texts", frozenset({list}), is_texts)
COUNT = Kind("a whole number, at least 0", frozenset({int}), lambda found: found >= 0)
#: Expected values of the keys of a part, and of an instance that is left out.
PART = {"name": NAME, "runs": COUNT, "suites": TEXTS, "accepted": TEXT}
LEFT_OUT = {"track": TEXT, "suite": TEXT, "instance": TEXT}


@dataclass(frozen=True)
class Part:
    """A part of an edition, see the module."""

    name: str
    runs: int
    suites: Sequence[str]
    accepted: str


@dataclass(frozen=True)
class Edition:
    """An edition in a folder, whose files have the checksums that it lists."""

    folder: Path
    name: str
    parts: Sequence[Part] = ()
    left_out: Sequence[Mapping[str, str]] = field(default=(), repr=False)

    @property
    def suites(self) -> list[str]:
        """The suites that its commands name."""
        return sorted({suite for part in self.parts for suite in part.suites})

    @property
    def description(self) -> dict[str, Any]:
        """The content of its description."""
        parts = [{**asdict(part), "suites": list(part.suites)} for part in self.parts]
        return {"format": FORMAT, "name": self.name, "parts": parts, "left_out": list(self.left_out)}

    def rows(self, part: Part, table: str) -> Sequence[Row]:
        """Return the rows of a table of a part, in the order of its columns."""
        return decoded(self.folder / part.name / f"{table}.parquet", table)

    def solutions(self, part: Part) -> dict[str, Any]:
        """Return the stored solutions of a part, by the first `DIGITS` of the id of the run that found them."""
        paths = sorted((self.folder / part.name / SOLUTIONS).glob("*.json.gz"))
        return {path.name.removesuffix(".json.gz").rpartition("-")[2]: read_json(path) for path in paths}


def solution_file(instance: str, run: str) -> str:
    """Return the name of the file of a solution within a part."""
    return f"{SOLUTIONS}/{legal_name(instance)}-{run[:DIGITS]}.json.gz"


def known() -> list[str]:
    """Return the names of the project's editions, the newest last."""
    return sorted((path.parent.name for path in FOLDER.glob(f"*/{DESCRIPTION}")), key=_in_order)


def _in_order(name: str) -> list[tuple[int, str]]:
    """Return a key that sorts names by the numbers in them: 2027.9 before 2027.10."""
    return [(int(word), "") if word.isdecimal() else (-1, word) for word in re.split(r"(\d+)", name)]


def find(name: str) -> Edition:
    """Return an edition of the project by name, or the one in a folder; InputError if there is none or it changed."""
    folder = FOLDER / name if name in known() else Path(name)
    try:
        there = (folder / DESCRIPTION).is_file()
    except OSError as error:  # a name that is too long, or a folder that must not be read
        raise InputError("edition", shown(name), f"expected an edition or its folder ({error.strerror})") from None
    if not there:
        expected = f"expected an edition ({', '.join(known()) or 'none is published yet'}) or its folder"
        raise InputError("edition", shown(name), f"{expected}{near_miss(name, known())}")
    return read(folder)


def read(folder: Path) -> Edition:
    """Return the edition in a folder; InputError if a file is missing, has changed, or is not of an edition."""
    path = folder / DESCRIPTION
    found = require_keys(read_json(path), str(path), "", ("format", "name", "parts", "left_out"))
    if found["format"] != FORMAT:
        raise InputError(path, "format", f"expected {FORMAT!r}, found {found['format']!r}")
    listed = _require_checksums(folder)
    _require(path, "name", NAME, found["name"])
    parts = [Part(**part) for part in _objects(path, "parts", PART, found["parts"])]
    for place, part in enumerate(parts):
        if part.name in {other.name for other in parts[:place]}:
            raise InputError(path, f"parts {place} name", f"expected a name of no other part, found {part.name!r}")
    for name in files(folder, [part.name for part in parts]):
        if name not in listed:
            raise InputError(folder / name, "", f"expected only files that {CHECKSUMS} lists")
    return Edition(folder, found["name"], parts, _objects(path, "left_out", LEFT_OUT, found["left_out"]))


def _objects(path: Path, place: str, keys: Mapping[str, Kind], found: Any) -> list[dict[str, Any]]:
    """Return a list of objects with exactly these keys and such values; InputError for anything else."""
    if not isinstance(found, list):
        raise InputError(path, place, f"expected a list, found {shown(found)}")
    for number, entry in enumerate(found):
        require_keys(entry, str(path), f"{place} {number}", tuple(keys))
        for key, kind in keys.items():
            _require(path, f"{place} {number} {key}", kind, entry[key])
    return found


def _require(path: Path, place: str, kind: Kind, found: Any) -> None:
    if not kind.fits(found):
        raise InputError(path, place, f"expected {kind.expected}, found {shown(found)}")


def _require_checksums(folder: Path) -> set[str]:
    """Return the names of an edition's files; InputError for one that is missing or has changed."""
    path = folder / CHECKSUMS
    lines = decode(read_bytes(path, LARGEST), path).splitlines()
    listed = {name: checksum for checksum, _, name in (line.partition("  ") for line in lines)}
    for name in {DESCRIPTION: "", **listed}:
        try:
            content = (folder / name).read_bytes() if (folder / name).is_file() else None
        except OSError as error:
            raise InputError(path, "", f"expected names of readable files, {shown(name)}: {error.strerror}") from None
        if content is None or sha256(content) != listed.get(name):
            found = "none of that name" if content is None else "another content"
            raise InputError(folder / name, "", f"expected the file that {CHECKSUMS} lists, found {found}")
    return set(listed)


def files(folder: Path, parts: Iterable[str]) -> dict[str, Path]:
    """Return every file of an edition with these parts but the checksums, by its name in the folder, in order."""
    patterns = [f"{part}/{files}" for part in parts for files in ("*.parquet", f"{SOLUTIONS}/*.json.gz")]
    paths = [folder / DESCRIPTION, *(path for pattern in patterns for path in folder.glob(pattern))]
    return {path.relative_to(folder).as_posix(): path for path in sorted(paths)}
