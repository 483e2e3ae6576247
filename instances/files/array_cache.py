"""Cache of large instances as arrays, memory-mapped when the same content is read again.

Array files lie in the user's cache (`shardmark.instances.catalog.cache_folder`), in the folder ``arrays``, named by a
digest of the instance's path. An array file contains the result of `scan` on the instance's file (FILE below); reading
it validates the instance as reading the JSON does. SHARDMARK_ARRAYS=off disables the cache, =read never writes to it.
Array files may be deleted at any time. Writing one deletes the least recently used until at most `MAX_BYTES` remain.

An array file is used only if all its bytes match their digest, and FILE has the content it was made of. The latter is
checked by a digest of all bytes of FILE under a random key that only the owner of the array file can read, so nobody
can forge a FILE with the same digest. The array file must belong to the user and be writable by nobody else. Files of
another version, truncated or damaged files are replaced. Replacement is an atomic rename. This does not protect against
a malicious process of the same user, which could rewrite the program too, or truncate a mapped file and so kill the
reader. Isolated runs can write neither.
"""

from __future__ import annotations

import hashlib
import json
import mmap
import os
import shutil
import stat
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from shardmark.instances.catalog import place_of_arrays
from shardmark.instances.errors import InputError
from shardmark.instances.files.scan import Digest, Scanned, Unsupported, limited, on_disk, scan, seen_by, unpacked

if TYPE_CHECKING:
    from concurrent.futures import Future

T = TypeVar("T")

VARIABLE = "SHARDMARK_ARRAYS"
MIN_BYTES = 8 << 20  # of arrays worth caching: smaller instances are read in hundredths of a second
MAX_BYTES = 4 << 30  # of all arrays in the user's cache

MAGIC = b"shardmark arrays"
VERSION = 1  # of the file's layout and of what `shardmark.instances.files.scan` makes of a text
PAGE = 4096  # bytes; sections are aligned to it
ABANDONED_S = 3600.0  # age in seconds at which a temporary file is deleted
FRONT = len(MAGIC) + 32 + 8  # SHA-256 and length of the header, which follows
#: Errors raised by reading damaged or foreign bytes.
DEFECTS = (OSError, ValueError, TypeError, LookupError, OverflowError, RuntimeError)


@dataclass(frozen=True)
class ArrayFile:
    """An intact array file; a thread still checks that it was made of the present content of FILE.

    ``sha256``  SHA-256 of the decompressed content of FILE; None if it was not computed
    """

    scanned: Scanned
    sha256: str | None
    _place: Path
    _key: str
    _key_now: Future[str]

    def fits(self) -> bool:
        """Wait for the check; return whether FILE has the content that the arrays were made of."""
        try:
            return self._key_now.result() == self._key
        except OSError:
            return False

    def touch(self) -> None:
        """Mark the array file as recently used."""
        with suppress(OSError):
            os.utime(self._place)


def mode() -> str:
    """Value of SHARDMARK_ARRAYS: ``on`` (the default), ``read`` or ``off``; InputError for anything else."""
    given = os.environ.get(VARIABLE) or "on"
    if given not in ("on", "read", "off"):
        raise InputError(VARIABLE, repr(given), "expected on, read or off")
    return given


def read(
    path: str | os.PathLike[str], build: Callable[[Scanned], T], mode: str, *, hashed: bool = False
) -> tuple[T, str | None]:
    """Build an instance from a file; also return the content's SHA-256 if it is requested or known.

    Reads the cached arrays of the file if they are valid, else the file, whose arrays are then cached; ``mode`` as
    returned by `mode`. Raises OSError, `scan.Unsupported`, and errors of ``build``.
    """
    place = None if mode == "off" else place_of_arrays(path)
    kept = None if place is None else _find(place, path)
    if kept is not None and (kept.sha256 or not hashed):
        with suppress(InputError, Unsupported):
            built = build(kept.scanned)
            if kept.fits():
                if mode == "on":
                    kept.touch()
                return built, kept.sha256
    digest, sha256 = Digest(os.urandom(32)), hashlib.sha256()
    content = limited(unpacked(limited(on_disk(path, digest))))
    scanned = scan(seen_by(sha256, content) if hashed else content)
    built = build(scanned)
    checksum = sha256.hexdigest() if hashed else None
    if mode == "on" and place is not None:
        _keep(place, scanned, digest, checksum)
    return built, checksum


def _find(place: Path, path: str | os.PathLike[str]) -> ArrayFile | None:
    """The array file of a file, if it exists and is intact."""
    with suppress(*DEFECTS):
        return _read(place, path)
    return None


def _keep(place: Path, scanned: Scanned, digest: Digest, sha256: str | None) -> None:
    """Cache the arrays of a file whose bytes the digest has seen, if they are large; failures are ignored."""
    size = scanned.start.nbytes + scanned.value.nbytes
    if not MIN_BYTES <= size <= MAX_BYTES:
        return
    with suppress(OSError):
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if shutil.disk_usage(place.parent).free > 2 * (size + len(scanned.text)):
            _write(place, scanned, digest, sha256)


def _write(place: Path, scanned: Scanned, digest: Digest, sha256: str | None) -> None:
    text = np.frombuffer(scanned.text, dtype=np.uint8)
    sections = [section.view(np.uint8) for section in (scanned.value, scanned.start, text)]
    header = {
        "version": VERSION,
        "byteorder": sys.byteorder,
        "seed": digest.seed.hex(),
        "key": digest.text(),
        "sha256": sha256,
        "leaves": scanned.leaves,
        "sections": [[len(section), _digest(digest.seed, section)] for section in sections],
    }
    encoded = json.dumps(header).encode()
    front = MAGIC + hashlib.sha256(encoded).digest() + len(encoded).to_bytes(8, "little")
    handle, temporary = tempfile.mkstemp(dir=place.parent, prefix=f".{place.name}.")  # readable by its owner alone
    try:
        with os.fdopen(handle, "wb") as stream:
            for part in (np.frombuffer(front + encoded, dtype=np.uint8), *sections):
                stream.write(part.data)
                stream.write(bytes(-stream.tell() % PAGE))
            size = stream.tell()
        _make_room(place, size)
        os.replace(temporary, place)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _make_room(place: Path, size: int) -> None:
    """Delete temporary files of killed processes, and the least recently used array files."""
    for left in place.parent.glob(".*"):
        with suppress(OSError):
            if left.stat().st_mtime < time.time() - ABANDONED_S:
                left.unlink()
    for path in _least_used(place, MAX_BYTES - size):
        with suppress(OSError):
            path.unlink()


def _least_used(place: Path, most: int) -> Iterator[Path]:
    """Yield array files, least recently used first, to delete until at most ``most`` bytes remain."""
    kept = []
    for path in place.parent.glob("[!.]*"):
        with suppress(OSError):
            info = path.lstat()
            if path != place:
                kept.append((info.st_mtime_ns, info.st_size, path))
    total = sum(size for _, size, _ in kept)
    for _, size, path in sorted(kept):
        if total <= most:
            return
        total -= size
        yield path


def _digest(seed: bytes, section: NDArray[np.uint8]) -> str:
    digest = Digest(seed)
    digest.update(section)
    return digest.text()


def _read(place: Path, path: str | os.PathLike[str]) -> ArrayFile:
    """Map and verify an array file, while another thread reads FILE."""
    mapped = _map(place)
    header, end = _header(mapped)
    seed = bytes.fromhex(header["seed"])
    from concurrent.futures import ThreadPoolExecutor  # only if arrays are kept of the file

    pool = ThreadPoolExecutor(1)
    key_now = pool.submit(_digest_of_file, path, seed)
    pool.shutdown(wait=False)
    return ArrayFile(_scanned(mapped, end, seed, header), header["sha256"], place, header["key"], key_now)


def _map(place: Path) -> mmap.mmap:
    handle = os.open(place, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        info = os.fstat(handle)
        if not stat.S_ISREG(info.st_mode) or info.st_uid != os.geteuid() or info.st_mode & 0o022:
            raise ValueError("a file that somebody else may have written")
        return mmap.mmap(handle, 0, access=mmap.ACCESS_READ)
    finally:
        os.close(handle)


def _header(mapped: mmap.mmap) -> tuple[dict[str, Any], int]:
    """Return the header and its end."""
    front = mapped[:FRONT]
    end = FRONT + int.from_bytes(front[-8:], "little")
    encoded = mapped[FRONT:end]
    if front[:-8] != MAGIC + hashlib.sha256(encoded).digest():
        raise ValueError("not a file of arrays, or a damaged one")
    header: dict[str, Any] = json.loads(encoded)
    if (header["version"], header["byteorder"]) != (VERSION, sys.byteorder):
        raise ValueError("a file of another version or machine")
    return header, end


def _digest_of_file(path: str | os.PathLike[str], seed: bytes) -> str:
    digest = Digest(seed)
    for _ in on_disk(path, digest):
        pass
    return digest.text()


def _scanned(mapped: mmap.mmap, end: int, seed: bytes, header: dict[str, Any]) -> Scanned:
    """Arrays after the header; ValueError if a byte has changed or they are inconsistent."""
    sections = []
    for length, digest in header["sections"]:
        begin = end + -end % PAGE
        end = begin + length
        section = np.frombuffer(memoryview(mapped)[begin:end], dtype=np.uint8)
        if _digest(seed, section) != digest:
            raise ValueError("a damaged file")
        sections.append(section)
    value, start, text = sections
    leaves = tuple((rows, integers, bool(negative)) for rows, integers, negative in header["leaves"])
    scanned = Scanned(text.tobytes(), start.view(np.int64), value.view(np.int64), leaves)
    scanned.validate()
    return scanned
