"""Strict JSON in and out: plain or gzip, duplicate keys and NaN refused, integers exact, writes atomic."""

from __future__ import annotations

import codecs
import errno
import gc
import gzip
import hashlib
import io
import json
import os
import re
import stat
import tempfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from shardmark.instances.errors import InputError, TooLarge

GZIP_MAGIC = b"\x1f\x8b"
LARGEST = 2 << 30  # bytes of a file; the largest of the contest has 1.3 GiB
PIECE = 1 << 20  # bytes that are read at a time
LARGEST_TEXT = 512 << 20  # bytes of a text that becomes Python objects; lists of lists of integers do not
LONGEST_KEY = 80  # characters of a key that error sentences show
MAX_VALUES = 1 << 26  # values and keys of such a text: each takes up to a hundred bytes of memory


def read_bytes(path: str | os.PathLike[str], largest: int | None = None) -> bytes:
    """Return the file's content, decompressed if it is gzip (told by its first bytes, not by its name).

    Files with more than ``largest`` bytes (by default `LARGEST`), compressed or not, are refused: only a device or a
    decompression bomb is so large.
    """
    most = LARGEST if largest is None else largest
    try:
        with Path(path).open("rb") as stream:
            content = _read(stream, most + 1, path)
    except FileNotFoundError:
        raise InputError(path, "", "expected a file, found nothing of that name") from None
    except IsADirectoryError:
        raise InputError(path, "", "expected a file, found a folder") from None
    except OSError as error:
        raise InputError(path, "", f"expected a readable file ({error.strerror})") from None
    except InputError:
        raise
    except ValueError as error:  # a null character
        raise InputError(path, "", f"expected a path ({error})") from None
    if content[:2] == GZIP_MAGIC:
        try:
            with gzip.GzipFile(fileobj=io.BytesIO(content)) as unpacked:
                content = _read(unpacked, most + 1, path)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise InputError(path, "gzip stream", f"expected complete gzip data ({error})") from None
    if len(content) > most:
        raise TooLarge(path, "", too_many_bytes(most))
    return content


def require_regular(*paths: str | os.PathLike[str] | None) -> None:
    """Raise InputError for a pipe or a device, as reading a pipe without a writer never ends. None is skipped."""
    for path in paths:
        if path is not None and os.path.exists(path) and not (os.path.isfile(path) or os.path.isdir(path)):
            raise InputError(path, "", "expected a regular file, found a pipe or a device")


def _read(stream: IO[bytes] | gzip.GzipFile, most: int, path: str | os.PathLike[str]) -> bytes:
    """Up to so many bytes, in memory that grows with what is there: ``stream.read(most)`` would reserve it all."""
    content, found = io.BytesIO(), 0
    try:
        while found < most and (piece := stream.read(min(PIECE, most - found))):
            found += content.write(piece)
        return content.getvalue()
    except MemoryError:
        raise TooLarge(path, "", f"expected more free memory: the file has over {found >> 20} MiB") from None


def too_many_bytes(most: int) -> str:
    """Error text for a file with more than ``most`` bytes."""
    return f"expected at most {most} bytes, compressed or not"


def decode(content: bytes, source: str | os.PathLike[str]) -> str:
    """Decode a file; raise InputError at the first byte that is not UTF-8, or for more than `LARGEST_TEXT`."""
    if len(content) > LARGEST_TEXT:
        raise TooLarge(source, "", f"expected only lists of lists of integers in a file of over {LARGEST_TEXT} bytes")
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) or b"\0" in content[:2]:
        raise InputError(source, "byte 0", "expected UTF-8 text, found UTF-16, or UTF-32")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(source, f"byte {error.start}", "expected UTF-8 text") from None


def plain(value: Any) -> Any:
    """Return the JSON form of a NumPy array or scalar; TypeError for anything else that is not plain JSON."""
    import numpy as np  # not at the top: commands that read no instance need none

    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{type(value).__name__} is not plain JSON")


def plain_json(value: Any, source: str, expected: str = "plain JSON") -> Any:
    """Return a value, which may hold NumPy arrays, as it is read back from JSON; InputError if it has no such form."""
    try:
        return json.loads(json.dumps(value, default=plain, allow_nan=False))
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(source, "", f"expected {expected} ({error})") from None


def parse_json(text: str, source: str | os.PathLike[str], constant: Callable[[str], Any] | None = None) -> Any:
    """Parse ``text`` as JSON; raise InputError at the line and column where it stops being JSON.

    Stricter than the standard library: a duplicated key, NaN and Infinity are errors, unless ``constant`` says what
    these two stand for. Integers of up to 4300 digits stay exact, longer ones are errors, and so are more than
    `MAX_VALUES` values and keys.
    """

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        result = dict(pairs)
        if len(result) != len(pairs):
            twice, _ = Counter(key for key, _ in pairs).most_common(1)[0]
            raise InputError(source, f"key {shortened(twice)}", "expected every key once in its object, found it twice")
        return result

    def no_constant(found: str) -> Any:
        raise InputError(source, _position(text, "NaN|-?Infinity"), f"expected a finite number, found {found}")

    if len(text) > MAX_VALUES and parts_of(text) > MAX_VALUES:
        raise TooLarge(source, "", f"expected at most {MAX_VALUES} values and keys")
    try:
        with collector_paused():
            return json.loads(text, object_pairs_hook=unique, parse_constant=constant or no_constant)
    except InputError:
        raise
    except json.JSONDecodeError as error:
        place = f"line {error.lineno} column {error.colno}"
        found = "found a colour code of a terminal" if text[error.pos : error.pos + 1] == "\x1b" else error.msg
        raise InputError(source, place, f"expected JSON ({found})") from None
    except RecursionError:
        raise InputError(source, _position(text, r"[\[{]"), "expected less deeply nested JSON") from None
    except ValueError:
        raise InputError(source, _position(text, r"\d{4301,}"), "expected a number of at most 4300 digits") from None


def parts_of(text: str) -> int:
    """Upper bound on the number of values and keys of a JSON text."""
    return sum(map(text.count, "[{,:"))


def shortened(key: str) -> str:
    """A key in quotes for error texts, truncated if long."""
    return repr(key) if len(key) <= LONGEST_KEY else f"{key[:LONGEST_KEY]!r}... of {len(key)} characters"


def _position(text: str, pattern: str) -> str:
    """Line and column of the first match of ``pattern`` outside the strings of a JSON text."""
    tokens = re.finditer(rf'"(?:[^"\\]|\\.)*"|({pattern})', text)
    return line_and_column(text, next(token.start() for token in tokens if token[1]))


def line_and_column(text: str, at: int) -> str:
    """Line and column, counted from 1, of a character of a text."""
    return f"line {text.count(chr(10), 0, at) + 1} column {at - text.rfind(chr(10), 0, at)}"


@contextmanager
def collector_paused() -> Iterator[None]:
    """Pause the cycle collector, which doubles parsing time by repeatedly walking a growing tree of lists."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def read_json(path: str | os.PathLike[str], largest: int | None = None) -> Any:
    """Read and parse one JSON file, plain or gzip, of at most ``largest`` bytes (by default `LARGEST_TEXT`)."""
    return parse_json(decode(read_bytes(path, LARGEST_TEXT if largest is None else largest), path), path)


def write_bytes(path: str | os.PathLike[str], content: bytes) -> None:
    """Write a file atomically, by a temporary file and a rename; pipes and devices are written directly."""
    target = require_writable(path)
    try:
        if target.exists() and not target.is_file():  # a pipe or a device
            target.write_bytes(content)
            return
        handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    except OSError as error:
        raise _unwritable(path, error.strerror) from None
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(content)
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(temporary, 0o666 & ~umask)
        os.replace(temporary, target)
    except BaseException as error:
        Path(temporary).unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise _unwritable(path, error.strerror) from None
        raise


def require_writable(path: str | os.PathLike[str]) -> Path:
    """Path that `write_bytes` will write, links resolved; InputError if it cannot, to fail before a long run."""
    try:
        target = Path(path).resolve()
        if target.is_symlink():  # links that lead to each other; Python 3.11 and 3.12 raise RuntimeError
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
        if target.is_dir():
            raise InputError(path, "", "expected a file to write, found a folder")
        if not stat.S_ISDIR(target.parent.stat().st_mode):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
        if not os.access(target if target.exists() and not target.is_file() else target.parent, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    except RuntimeError:  # of links that lead to each other
        raise _unwritable(path, os.strerror(errno.ELOOP)) from None
    except OSError as error:
        raise _unwritable(path, error.strerror) from None
    return target


def _unwritable(path: str | os.PathLike[str], why: str | None) -> InputError:
    return InputError(path, "", f"expected a path that can be written ({why})")


def encode(document: Any) -> bytes:
    """``document`` as one line of compact JSON."""
    return json.dumps(document, separators=(",", ":"), allow_nan=False).encode() + b"\n"


def write_json(path: str | os.PathLike[str], document: Any) -> None:
    """Write ``document`` as compact JSON; gzip when the name ends in ``.gz`` (same bytes every time)."""
    write_bytes(path, packed(document) if os.fspath(path).endswith(".gz") else encode(document))


def packed(document: Any) -> bytes:
    """``document`` as gzip of compact JSON, with the same bytes every time."""
    return zlib.compress(encode(document), level=9, wbits=31)  # with the same header in every Python


def sha256(content: bytes) -> str:
    """Hex SHA-256 of a file's decompressed content: the identity of an instance."""
    return hashlib.sha256(content).hexdigest()


def require_keys(
    document: Any, source: str, place: str, required: tuple[str, ...], optional: tuple[str, ...] = ()
) -> Mapping[str, Any]:
    """Return ``document`` if it is an object with exactly the known keys, else raise InputError naming the key."""
    if not isinstance(document, dict):
        raise InputError(source, place, f"expected an object with {', '.join(required)}")
    for key in required:
        if key not in document:
            raise InputError(source, place, f"expected a key {key!r}")
    for key in document:
        if key not in required and key not in optional:
            known = ", ".join((*required, *optional))
            raise InputError(source, f"{place} key {shortened(key)}".strip(), f"expected only the keys {known}")
    return document
