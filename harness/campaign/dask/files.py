"""Files that a campaign sends to workers: read in pieces, kept under names that depend on their content."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from shardmark.instances import InputError
from shardmark.instances.files.jsonfile import read_bytes, sha256

PIECE = 1 << 20  # bytes of a file that are sent at once: a slow network must carry them within the time for an answer


def pieces(path: Path) -> Iterator[tuple[bool, bytes, bool]]:
    """Yield a file in pieces as (is the first, bytes, is the last)."""
    with path.open("rb") as stream:
        first, after = True, stream.read(PIECE)
        while first or after:
            piece, after = after, stream.read(PIECE)
            yield first, piece, not after
            first = False


class FileCache:
    """Files that were sent to a worker, each under a name that depends on its content, and files it already had."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.digests: dict[Path, tuple[tuple[int, ...], str]] = {}  # stamp and SHA-256 per path
        self.sent: dict[str, tuple[int, ...]] = {}  # stamp per name

    def digest(self, path: Path) -> str:
        """Return the SHA-256 of a file's decompressed content, "" if there is no such file."""
        try:
            found = _stamp(path)
            if self.digests.get(path, ((), ""))[0] != found:
                self.digests[path] = found, sha256(read_bytes(path))
        except (OSError, InputError):
            return ""
        return self.digests[path][1]

    def find(self, name: str) -> Path | None:
        """Return a file that was sent, None if it has changed since: a run that is not isolated can change it."""
        path = self.folder / name
        try:
            return path if self.sent.get(name) == _stamp(path) else None
        except OSError:
            return None

    def add(self, name: str, sender: str, piece: bytes, first: bool, last: bool) -> None:
        """Add a piece of a file, which is found once it is complete."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(f".{path.name}.{sender}")
        with part.open("wb" if first else "ab") as stream:
            stream.write(piece)
        if last:
            os.replace(part, path)
            self.sent[name] = _stamp(path)


def _stamp(path: Path) -> tuple[int, ...]:
    found = path.stat()
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns
