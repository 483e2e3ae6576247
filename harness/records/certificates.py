"""Certificates of recorded bounds: checked before they are taken, and kept as files beside the solutions."""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Callable, Iterable, Iterator
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from shardmark.harness.campaign.problems import Problem
from shardmark.harness.records import files
from shardmark.harness.records.best import BestKnown
from shardmark.harness.records.history import Improvement
from shardmark.harness.results import grades
from shardmark.harness.results.grades import Evidence
from shardmark.harness.verify import certificates
from shardmark.instances import InputError, catalog
from shardmark.instances.catalog import cache_folder
from shardmark.instances.files.jsonfile import encode, parse_json, sha256, write_bytes

FOLDER_NAME = "certificates"
PROOF = ',"proof":'  # what comes before a proof in a file


def name_of(line: Improvement) -> str:
    """Return the path of a bound's certificate within the folder of records."""
    return f"{FOLDER_NAME}/{line.instance}-{line.certificate[: files.DIGITS]}.cert.json.gz"


def read(folder: Path, line: Improvement) -> dict[str, Any]:
    """Return the certificate of a bound; InputError if its file is missing or has another content."""
    path = folder / name_of(line)
    return certificates.require(files.read(path, line.certificate, certificates.LARGEST), str(path))


def keep_only(folder: Path, lines: Iterable[Improvement]) -> None:
    """Remove files of certificates whose bounds no longer stand."""
    files.keep_only(folder / FOLDER_NAME, (folder / name_of(line) for line in lines))


def sizes(record: BestKnown) -> list[int]:
    """Return the sizes in bytes of the certificates that are kept for a record."""
    paths = [record.folder / name_of(line) for line in record.standing if line.certificate]
    return [path.stat().st_size for path in paths if path.is_file()]


Proven = Callable[[BestKnown, Improvement], int | float | None]


def kept(record: BestKnown, line: Improvement) -> int | float | None:
    """Return the bound of a line whose certificate is the one that was checked when it was taken, else None.

    The certificate is known by its SHA-256; the proof is not checked again, which can take a minute.
    """
    try:
        file = (record.folder / name_of(line)).stat()
    except OSError:
        return None
    stated = _stated(record.folder, line, (file.st_ino, file.st_size, file.st_mtime_ns))
    if stated is None:
        return None
    instance, track, bound = stated
    whole = (instance, track) == (line.checksum, record.entry.track) and bound >= line.number
    return line.number if whole else None


@lru_cache(maxsize=4096)
def _stated(folder: Path, line: Improvement, _: tuple[int, ...]) -> tuple[str, str, int | float] | None:
    """Return instance, track and bound of a line's certificate, None if it cannot be read.

    A page of records and its exports ask for every certificate three times. The last argument tells a file from the
    one that stood there before.
    """
    path = folder / name_of(line)
    with contextlib.suppress(InputError):
        whole = files.text(path, line.certificate, certificates.LARGEST)
        # The proof comes last in what Shardmark writes. To parse the proofs of all records takes a second of CPU time.
        for text in (f"{whole.partition(PROOF)[0]}{PROOF}{{}}}}", whole):
            with contextlib.suppress(InputError):
                document = certificates.require(parse_json(text, path), str(path))
                return document["instance"], document["track"], document["bound"]
    return None


def evidence(record: BestKnown, proven: Proven = kept) -> Iterator[Evidence]:
    """Yield what supports a bound on the instance of a record: its standing lines, and the published bound.

    ``proven`` says what the certificate of a line proves: `kept` or `checked`.
    """
    for line in record.standing:
        yield Evidence(line.method, line.number, proven(record, line) if line.certificate else None)
    yield from grades.published(record.entry.published)


def grade(record: BestKnown, proven: Proven = kept) -> str:
    """Return the grade of a record's bound, see `grades.grade` and `evidence`; "" without a bound."""
    if record.bound is None:
        return ""
    cost = None if record.cost is None else record.cost.number
    return grades.grade(record.entry.track, evidence(record, proven), record.bound.number, cost)


def checked(record: BestKnown, line: Improvement) -> int | float | None:
    """Return the greatest bound that a line's certificate proves, checked now; None if it proves none.

    Without the file of the instance nothing is proven. Findings on this machine are cached, by the content of the
    certificate, the instance and the code that checks.
    """
    place = None
    try:
        document = read(record.folder, line)
        with contextlib.suppress(InputError):
            key = sha256(f"{line.certificate} {line.checksum} {_version()}".encode())
            place = cache_folder() / FOLDER_NAME / f"{key[:32]}.json"
            with contextlib.suppress(OSError, ValueError, LookupError, TypeError):
                found: int | float | None = json.loads(place.read_bytes())["proven"]
                return found
        path = catalog.at_hand(record.entry)
        if path is None:
            return None
        found = Problem.of(record.entry, path).check_certificate(document).proven_number
    except InputError:
        return None
    if place is not None:
        with contextlib.suppress(OSError, InputError):
            place.parent.mkdir(parents=True, exist_ok=True)
            write_bytes(place, encode({"proven": found}))
    return found


@cache
def _version() -> str:
    """Return a hash of the code that reads instances and checks certificates."""
    rooms = Path(certificates.__file__).parent, Path(catalog.__file__).parent
    code = hashlib.sha256()
    for path in sorted(path for room in rooms for path in room.rglob("*.py")):
        code.update(path.read_bytes())
    return code.hexdigest()
