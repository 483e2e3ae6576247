"""The catalog of known instances: metadata, file locations and checksums."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from shardmark.instances.errors import InputError
from shardmark.instances.files.jsonfile import require_regular, sha256

FOLDER = Path(__file__).resolve().parent
CATALOG = FOLDER / "catalog.toml"
MIRROR_VARIABLE = "SHARDMARK_MIRROR"
CACHE_VARIABLE = "SHARDMARK_CACHE"


@dataclass(frozen=True)
class Entry:
    """One instance of the catalog; `catalog.toml` documents the keys.

    ``repository``, ``commit`` and ``licence`` are empty for an instance that comes with the project.
    """

    id: str
    track: str
    path: str
    checksum: str
    time_limit_s: float
    suites: tuple[str, ...]
    note: str = ""
    trap: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)
    published: Mapping[str, str] = field(default_factory=dict)
    repository: str = ""
    commit: str = ""
    licence: str = ""

    @property
    def embedded(self) -> bool:
        """True if the file comes with the project."""
        return not self.repository

    @property
    def place(self) -> Path:
        """Path in a mirror and in the cache: OWNER/REPOSITORY/PATH."""
        return Path(self.repository) / self.path

    def mismatch(self, content: bytes) -> str:
        """Describe why ``content`` is not this entry's file; empty if it is."""
        kind, expected = self.checksum.split(":")
        found = {"git-blob-sha1": git_blob_sha1, "sha256": sha256}[kind](content)
        return "" if found == expected else f"expected {kind} {expected}, found {found}"


def git_blob_sha1(content: bytes) -> str:
    """The id that git gives a file with this content."""
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


@cache
def entries() -> tuple[Entry, ...]:
    """Every instance, in the order of the catalog."""
    import tomllib  # not in the process of a run, of whose start it would take a twentieth

    catalog = tomllib.loads(CATALOG.read_text(encoding="utf-8"))
    return tuple(_entry(table, catalog["sources"]) for table in catalog["instances"])


def _entry(table: dict[str, Any], sources: Mapping[str, Mapping[str, Any]]) -> Entry:
    origin = sources[table.pop("source")] if "source" in table else {}
    table["suites"] = tuple(table["suites"])
    return Entry(**table, **origin)


def find(name: str) -> Entry:
    """The entry of an id; InputError for an unknown one."""
    known = {entry.id: entry for entry in entries()}
    if name not in known:
        expected = f"expected the id of an instance in the catalog{near_miss(name, known)}"
        raise InputError("instance", repr(name), expected)
    return known[name]


def suites() -> dict[str, tuple[Entry, ...]]:
    """The entries of every suite, suites and entries in the order of the catalog."""
    names = dict.fromkeys(name for entry in entries() for name in entry.suites)
    return {name: tuple(entry for entry in entries() if name in entry.suites) for name in names}


def suite(name: str) -> tuple[Entry, ...]:
    """The entries of one suite; InputError for an unknown one."""
    known = suites()
    if name not in known:
        raise InputError("suite", repr(name), f"expected {named('suite', name, known)}")
    return known[name]


def named(kind: str, name: str, known: Iterable[str]) -> str:
    """Text such as ``"the name of a suite, did you mean 'x'? ..."``, with the command that lists all names."""
    near = near_miss(name, known) or ";"
    return f"the name of a {kind}{near} `shardmark list {kind}s` lists them"


def near_miss(name: str, known: Iterable[str]) -> str:
    """End of a sentence, ``", did you mean 'x'?"``, with the known name closest to ``name``; empty if none is close."""
    import difflib  # only for names that are unknown

    by_lower_case = {other.lower(): other for other in known}
    close = difflib.get_close_matches(name.lower(), by_lower_case, n=1)
    return f", did you mean {by_lower_case[close[0]]!r}?" if close else ""


def cache_folder() -> Path:
    """The user's cache of fetched files and arrays: SHARDMARK_CACHE, else shardmark in XDG_CACHE_HOME or ~/.cache.

    The path is absolute. Raises InputError if the user has no home folder and sets no other.
    """
    if given := os.environ.get(CACHE_VARIABLE):
        return Path(given).absolute()
    shared = os.environ.get("XDG_CACHE_HOME", "")
    if os.path.isabs(shared):  # the specification says to ignore a relative path
        return Path(shared) / "shardmark"
    try:
        return Path.home() / ".cache" / "shardmark"
    except RuntimeError:
        raise InputError(
            CACHE_VARIABLE, "", "expected a folder for the cache, but this user has no home folder"
        ) from None


def place_of_arrays(path: str | os.PathLike[str]) -> Path | None:
    """Path of the array file of a file; None if the file is gone or the user has no cache."""
    try:
        file = Path(path).resolve(strict=True)
        return cache_folder() / "arrays" / hashlib.sha256(os.fsencode(file)).hexdigest()
    except (OSError, InputError):
        return None


def locate(entry: Entry, mirror: str | os.PathLike[str] | None = None) -> Path:
    """The file of an entry, see `at_hand`; InputError if there is none."""
    path = at_hand(entry, mirror)
    if path is None:
        raise InputError(entry.id, "", f"expected its file in the cache, run `{_remedy(entry)}` first")
    return path


def at_hand(entry: Entry, mirror: str | os.PathLike[str] | None = None) -> Path | None:
    """Find the file of an entry, embedded, cached or in a local mirror; None if there is none.

    ``mirror`` is a folder laid out OWNER/REPOSITORY/PATH, by default SHARDMARK_MIRROR. InputError if the checksum of a
    cached or mirrored file is wrong.
    """
    if entry.embedded:
        return FOLDER / "data" / entry.path
    mirror = mirror or os.environ.get(MIRROR_VARIABLE)
    for folder in (cache_folder(), *([Path(mirror)] if mirror else [])):
        path = folder / entry.place
        if path.is_file():
            if wrong := entry.mismatch(path.read_bytes()):
                raise InputError(path, "checksum", f"{wrong}, `{_remedy(entry)}` downloads the right file")
            return path
    return None


def _remedy(entry: Entry) -> str:
    """Command that fetches the file of an entry."""
    return f"shardmark fetch {entry.suites[0]}"


def resolve(reference: str) -> tuple[Path, Entry | None]:
    """Resolve a path, or an id of the catalog, to a file and its catalog entry, if any."""
    if os.path.isfile(reference):  # never raises, unlike Path.is_file
        return Path(reference), None
    known = {entry.id: entry for entry in entries()}
    if reference in known:
        return locate(known[reference]), known[reference]
    if os.path.isdir(reference):
        raise InputError(reference, "", "expected an instance file, found a folder")
    require_regular(reference)
    raise InputError(reference or "''", "", f"expected a file or an id of the catalog{near_miss(reference, known)}")
