"""Fetch public instances into the cache from their repositories or a mirror, and verify every checksum."""

from __future__ import annotations

import http.client
import os
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from shardmark.instances.catalog import MIRROR_VARIABLE, Entry, cache_folder, locate
from shardmark.instances.errors import InputError
from shardmark.instances.files.jsonfile import LARGEST, write_bytes

#: Address of a file of one commit in a public repository.
PUBLIC = "https://raw.githubusercontent.com/{repository}/{commit}/{path}"
REMOTE = ("http://", "https://")  # beginnings of the address of a mirror
SILENCE_S = 30.0  # longest wait for a connection or for the next bytes
TOTAL_S = 600.0  # longest time for one file
CHUNK = 1 << 16


@dataclass(frozen=True)
class Outcome:
    """Result for one entry: ``path`` of its file, or None and the reason in ``error``."""

    id: str
    path: Path | None
    error: str = ""


def fetch(
    entries: Iterable[Entry],
    mirror: str | os.PathLike[str] | None = None,
    progress: Callable[[str], None] = lambda text: None,
) -> list[Outcome]:
    """Fetch the file of every entry into the cache; a failure does not stop the others.

    ``mirror`` (by default SHARDMARK_MIRROR) is a folder or the base of an http(s) address, laid out
    OWNER/REPOSITORY/PATH; without one, files come from the public repositories at the catalog's commits.
    ``progress`` is called with a sentence for each entry. A file is written only after its checksum was verified.
    Raises InputError for a mirror that is neither a folder nor such an address.
    """
    place = os.fspath(mirror or os.environ.get(MIRROR_VARIABLE, ""))
    if place and not place.startswith(REMOTE) and not os.path.isdir(place):
        raise InputError("mirror", repr(place), "expected a folder or an http(s) address")
    outcomes = []
    for entry in entries:
        try:
            path, how = _fetch_one(entry, place)
            outcomes.append(Outcome(entry.id, path))
            progress(f"{entry.id}: {how}")
        except InputError as error:
            outcomes.append(Outcome(entry.id, None, str(error)))
            progress(f"{entry.id}: {error}")
    return outcomes


def _fetch_one(entry: Entry, mirror: str) -> tuple[Path, str]:
    """Fetch and verify one file; return its path and a few words for the progress."""
    if entry.embedded:
        return locate(entry), "comes with the project"
    target = cache_folder() / entry.place
    if target.is_file() and not entry.mismatch(target.read_bytes()):
        return target, "already there"
    content, source = _read(entry, mirror)
    wrong = entry.mismatch(content)
    if wrong:
        raise InputError(source, "checksum", wrong)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(target.parent, "", f"expected a folder that can be written ({error.strerror})") from None
    write_bytes(target, content)
    return target, f"fetched {len(content) / 2**20:.1f} MiB"


def _read(entry: Entry, mirror: str) -> tuple[bytes, str]:
    """Unverified content of an entry's file, and its origin."""
    if not mirror:
        address = PUBLIC.format(repository=entry.repository, commit=entry.commit, path=entry.path)
    elif mirror.startswith(REMOTE):
        address = f"{mirror.rstrip('/')}/{entry.place.as_posix()}"
    else:
        path = Path(mirror) / entry.place
        try:
            return path.read_bytes(), str(path)
        except OSError as error:
            raise InputError(path, "", f"expected the file in the mirror ({error.strerror})") from None
    try:
        return download(address), address
    except urllib.error.HTTPError as error:
        raise InputError(address, "", f"expected the file, the server answered {error.code} {error.reason}") from None
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise InputError(address, "", f"expected the file ({getattr(error, 'reason', None) or error})") from None


def download(address: str) -> bytes:
    """Content of an http(s) address; OSError or HTTPException if it does not arrive whole and in time."""
    deadline = time.monotonic() + TOTAL_S
    request = urllib.request.Request(address, headers={"User-Agent": "shardmark"})
    with urllib.request.urlopen(request, timeout=SILENCE_S) as response:
        promised = response.headers["Content-Length"]
        content = bytearray()
        while chunk := response.read1(CHUNK):
            content += chunk
            if len(content) > LARGEST:
                raise ConnectionError(f"more than {LARGEST} bytes")
            if time.monotonic() > deadline:
                raise TimeoutError(f"not complete after {TOTAL_S:.0f} s")
    if promised is not None and len(content) != int(promised):
        raise ConnectionError(f"the connection ended after {len(content)} of {promised} bytes")
    return bytes(content)
