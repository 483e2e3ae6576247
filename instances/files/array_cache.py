"""Large instances as arrays in a file of their own, mapped read-only when the same content is read again.

They lie in the user's cache (`instances.catalog.cache_folder`), in the folder ``arrays``, under a digest of the path of
the instance; nothing is ever written beside the instance. A file of arrays holds what `scan` made of the
instance's file, FILE below, and every reading validates it as it does the JSON. SHARDMARK_ARRAYS=off switches this off,
=read uses what there is and writes nothing. Such files can be deleted at any time; nothing but time depends on them.
Whenever one is written, those that were not used for longest are deleted until all together have at most `MOST` bytes.

A file of arrays is taken only if all its bytes have the digest that it was written with, and FILE has the very content
that it was made of: by a digest of all bytes of FILE, under a random key that only the owner of the arrays can read, so
that nobody can make a FILE that is mistaken for another. It must belong to the user who reads, and no other may be able
to write it. Whatever is not so, of another version, cut off or damaged is made anew. It comes into being by a rename:
who reads at that time sees the old one or the new one. Not guarded against is who acts as the same user, on purpose:
who rewrites these bytes with their digest could rewrite the program too, and who shortens a file that is mapped ends
the process that reads it. Runs that are isolated can write neither.
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

from instances.catalog import place_of_arrays
from instances.errors import InputError
from instances.files.scan import Digest, Odd, Scanned, limited, on_disk, scan, seen_by, unpacked

if TYPE_CHECKING:
    from concurrent.futures import Future

T = TypeVar("T")

VARIABLE = "SHARDMARK_ARRAYS"
LEAST = 8 << 20  # bytes of arrays that are worth a file: smaller instances are read in hundredths of a second
MOST = 4 << 30  # bytes of all arrays in the user's cache

MAGIC = b"shardmark arrays"
VERSION = 1  # of the file's layout and of what `instances.files.scan` makes of a text
PAGE = 4096
ABANDONED_S = 3600.0
FRONT = len(MAGIC) + 32 + 8  # SHA-256 and length of the header, which follows
#: What reading bytes that are not ours can raise.
DEFECTS = (OSError, ValueError, TypeError, LookupError, OverflowError, RuntimeError)


@dataclass(frozen=True)
class Kept:
    """What a file of arrays holds, intact; whether it was made of the file at hand is still being found out.

    ``sha256``  of the content that it was made of, decompressed; None if that was not asked for
    """

    scanned: Scanned
    sha256: str | None
    _place: Path
    _key: str
    _key_now: Future[str]

    def fits(self) -> bool:
        """Whether the file still has the content that the arrays were made of; waits until that is known."""
        try:
            return self._key_now.result() == self._key
        except OSError:
            return False

    def touch(self) -> None:
        """Note that it was of use."""
        with suppress(OSError):
            os.utime(self._place)


def mode() -> str:
    """What SHARDMARK_ARRAYS says: ``on`` (the default), ``read`` or ``off``; InputError for anything else."""
    given = os.environ.get(VARIABLE) or "on"
    if given not in ("on", "read", "off"):
        raise InputError(VARIABLE, repr(given), "expected on, read or off")
    return given


def read(
    path: str | os.PathLike[str], build: Callable[[Scanned], T], mode: str, *, hashed: bool = False
) -> tuple[T, str | None]:
    """What ``build`` makes of a file's content, and the content's SHA-256 if that is wanted or known.

    It comes from the arrays of the file, or else from the file, whose arrays are then kept; ``mode`` as `mode` returns
    it. Raises OSError, `scan.Odd`, and what ``build`` raises.
    """
    place = None if mode == "off" else place_of_arrays(path)
    kept = None if place is None else _find(place, path)
    if kept is not None and (kept.sha256 or not hashed):
        with suppress(InputError, Odd):
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


def _find(place: Path, path: str | os.PathLike[str]) -> Kept | None:
    """The arrays of a file, if they are there and intact."""
    with suppress(*DEFECTS):
        return _read(place, path)
    return None


def _keep(place: Path, scanned: Scanned, digest: Digest, sha256: str | None) -> None:
    """Write the arrays of a file whose bytes the digest has seen, if they are large; not being able to is no error."""
    size = scanned.start.nbytes + scanned.value.nbytes
    if not LEAST <= size <= MOST:
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
    """Delete what processes left that were killed while they wrote, and arrays that must go, see the module."""
    for left in place.parent.glob(".*"):
        with suppress(OSError):
            if left.stat().st_mtime < time.time() - ABANDONED_S:
                left.unlink()
    for path in _least_used(place, MOST - size):
        with suppress(OSError):
            path.unlink()


def _least_used(place: Path, most: int) -> Iterator[Path]:
    """What must go from beside a place so that at most so many bytes are left; first what was not used for longest."""
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


def _read(place: Path, path: str | os.PathLike[str]) -> Kept:
    """Map and verify one file of arrays, while another thread reads the file that they are of."""
    mapped = _map(place)
    header, end = _header(mapped)
    seed = bytes.fromhex(header["seed"])
    from concurrent.futures import ThreadPoolExecutor  # only if arrays are kept of the file

    pool = ThreadPoolExecutor(1)
    key_now = pool.submit(_digest_of_file, path, seed)
    pool.shutdown(wait=False)
    return Kept(_scanned(mapped, end, seed, header), header["sha256"], place, header["key"], key_now)


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
    """The header and where it ends."""
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
    """The arrays behind the header; ValueError if a byte has changed, or they are none of a text."""
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
