"""Fast reader of JSON that is mostly lists of lists of integers: these become flat arrays, the rest is parsed as JSON.

No Python object is created per integer. Everything else is left to the general reader
(`shardmark.instances.files.jsonfile`), which names the place of a defect: lists of lists of anything but 64-bit
integers, invalid JSON, and documents that a track refuses.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from shardmark.instances.errors import InputError, TooLarge
from shardmark.instances.files import jsonfile
from shardmark.instances.files.columns import Ints, Ragged, frozen

try:
    from shardmark.instances.files._reader import ffi, lib
except ImportError as error:
    raise ImportError(
        f"cannot import the compiled module {__package__}._reader ({error}): run `make setup` or `pip install -e .`"
    ) from error

PIECE = 1 << 18  # bytes; fits in a core's cache
MAX_INTEGERS = 1 << 28  # plus rows, 8 bytes each; the contest's largest file has fewer


class Unsupported(ValueError):
    """The content needs the general reader."""


@dataclass(frozen=True, eq=False)
class Scanned:
    """A JSON text whose lists of lists of integers are extracted.

    ``text``    the rest, UTF-8, with the word NaN for every list of lists
    ``start``   int64, row starts of all lists, one list after the other: rows + 1 elements per list, as in `Ragged`
    ``value``   int64, integers of all lists
    ``leaves``  per list: number of rows, number of integers, True if one is negative
    """

    text: bytes
    start: Ints
    value: Ints
    leaves: tuple[tuple[int, int, bool], ...]

    def document(self) -> Any:
        """Parse the text with a `Ragged` for every list of lists; InputError if it is not JSON or a list is missing."""
        lists = self.lists()

        def following(_: str) -> Ragged:
            found = next(lists, None)
            if found is None:
                raise InputError("", "NaN", "expected as many such words as lists")
            return found

        return jsonfile.parse_json(jsonfile.decode(self.text, ""), "", following)

    def validate(self) -> None:
        """Raise ValueError if the rows and signs of the lists do not match the integers."""
        if sum(rows + 1 for rows, _, _ in self.leaves) != len(self.start):
            raise ValueError("starts of other lists")
        if sum(integers for _, integers, _ in self.leaves) != len(self.value):
            raise ValueError("integers of other lists")
        for rows in self.lists():
            if rows.start[0] != 0 or rows.start[-1] != len(rows.flat) or (np.diff(rows.start) < 0).any():
                raise ValueError("rows that are none")
            if rows.negative != bool(rows.flat.min(initial=0) < 0):
                raise ValueError("another sign")

    def lists(self) -> Iterator[Ragged]:
        row = integer = 0
        for rows, integers, negative in self.leaves:
            start, value = self.start[row : row + rows + 1], self.value[integer : integer + integers]
            yield Ragged(frozen(start), frozen(value), negative)
            row += rows + 1
            integer += integers


def scan(pieces: Iterable[Any]) -> Scanned:
    """Scan a JSON text given in pieces, cut anywhere, each a buffer of bytes.

    Raises Unsupported if it needs the general reader, TooLarge for more than `MAX_INTEGERS`.
    """
    state = ffi.gc(ffi.new("struct shard_scan *"), lib.shard_scan_clear)
    for piece in pieces:
        _require(lib.shard_scan_feed(state, ffi.from_buffer("uint8_t[]", piece), len(piece)))
        if state.starts + state.values > MAX_INTEGERS:
            raise TooLarge("", "", f"expected at most {MAX_INTEGERS} integers and rows in lists of lists")
        if state.text_length > jsonfile.LARGEST_TEXT:
            raise Unsupported("too long a text outside the lists of lists")
    _require(lib.shard_scan_end(state))
    leaves = tuple((leaf.rows, leaf.values, bool(leaf.negative)) for leaf in state.leaf[0 : state.leaves])
    text = bytes(ffi.buffer(state.text, state.text_length)) if state.text_length else b""
    return Scanned(text, _array(state, state.start, state.starts), _array(state, state.value, state.values), leaves)


def _require(status: int) -> None:
    if status == lib.SHARD_NO_MEMORY:
        raise MemoryError("the integers of a file")
    if status != lib.SHARD_OK:
        raise Unsupported("a list of lists of something else than integers")


def _array(state: Any, pointer: Any, count: int) -> Ints:
    """View of an array of a scan, which it keeps alive."""
    if not count:
        return np.zeros(0, dtype=np.int64)
    alive = ffi.gc(pointer, lambda _: state)  # frees nothing itself
    return np.frombuffer(ffi.buffer(alive, 8 * count), dtype=np.int64)


class Digest:
    """A fast keyed digest (`c_src/reader/digest.h`) of bytes given in pieces."""

    def __init__(self, seed: bytes) -> None:
        self.seed = seed
        self._key = ffi.from_buffer("uint64_t[]", hashlib.shake_256(seed).digest(8 * lib.SHARD_KEY))
        self._state = ffi.new("uint64_t[2]")
        self._length = 0

    def update(self, piece: Any) -> None:
        """Add a piece; only the last one may end within a block."""
        if self._length % lib.SHARD_BLOCK:
            raise ValueError("a piece after the last one")
        lib.shard_digest(self._key, ffi.from_buffer("uint8_t[]", piece), len(piece), self._state)
        self._length += len(piece)

    def text(self) -> str:
        """Length and digest of all pieces."""
        return f"{self._length}:{self._state[0]:016x}{self._state[1]:016x}"


def in_memory(content: bytes) -> Iterator[memoryview]:
    """Pieces of a content."""
    view = memoryview(content)
    return (view[at : at + PIECE] for at in range(0, len(view), PIECE))


def on_disk(path: str | os.PathLike[str], digest: Digest) -> Iterator[memoryview]:
    """Pieces of a file, also added to the digest; each is valid until the next."""
    view = memoryview(bytearray(PIECE))
    with open(path, "rb", buffering=0) as stream:
        while length := _fill(stream, view):
            digest.update(view[:length])
            yield view[:length]


def _fill(stream: Any, view: memoryview) -> int:
    """Read until the view is full or the file ends; return the number of bytes."""
    length = 0
    while length < len(view) and (more := stream.readinto(view[length:])):
        length += more
    return length


def unpacked(pieces: Iterator[memoryview]) -> Iterator[Any]:
    """Decompress the pieces if they are gzip; Unsupported for damaged or multiple streams."""
    first = next(pieces, memoryview(b""))
    content = itertools.chain([first], pieces)
    return _decompressed(content) if first[:2] == jsonfile.GZIP_MAGIC else content


def _decompressed(pieces: Iterable[Any]) -> Iterator[bytes]:
    stream = zlib.decompressobj(wbits=31)
    try:
        for piece in pieces:
            packed = piece
            while packed and not stream.eof:
                yield stream.decompress(packed, PIECE)
                packed = stream.unconsumed_tail
            if packed or stream.unused_data:
                raise Unsupported("data after the gzip stream")
    except zlib.error as error:
        raise Unsupported(str(error)) from None
    if not stream.eof:
        raise Unsupported("an incomplete gzip stream")


def limited(pieces: Iterable[Any]) -> Iterator[Any]:
    """Pass the pieces through; TooLarge once they exceed the largest instance."""
    total = 0
    for piece in pieces:
        total += len(piece)
        if total > jsonfile.LARGEST:
            raise TooLarge("", "", jsonfile.too_many_bytes(jsonfile.LARGEST))
        yield piece


def seen_by(digest: Any, pieces: Iterable[Any]) -> Iterator[Any]:
    """Pass the pieces through, adding each to a `hashlib` digest."""
    for piece in pieces:
        digest.update(piece)
        yield piece
