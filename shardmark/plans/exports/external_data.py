"""Weights that an ONNX model keeps outside its file: found and checked before anything relies on them.

A location is relative to the model's folder. Links are followed if they end within that folder, or within the folder
of the file that the model itself is a link to: download caches keep both as links into one folder.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from shardmark.instances.errors import InputError
from shardmark.instances.models.model import BITS

ALIGNMENT = 4096  # bytes; external data begin at a page, as ONNX advises, so that they can be mapped into memory
CHUNK = 16 << 20  # bytes that are copied at a time


@dataclass(frozen=True)
class ExternalData:
    """The bytes of a tensor: a regular file without links in its path, the first byte, and their number."""

    file: Path
    offset: int
    bytes: int


def stored_outside(graph: Any) -> Iterator[Any]:
    """Every `onnx.TensorProto` of a graph with external data: initializers and attributes."""
    for tensor in stored(graph):
        if tensor.data_location == tensor.EXTERNAL:
            yield tensor


def stored(graph: Any) -> Iterator[Any]:
    """Every `onnx.TensorProto` of a graph: initializers and attributes."""
    yield from graph.initializer
    for sparse in graph.sparse_initializer:
        yield from (sparse.values, sparse.indices)
    for node in graph.node:
        yield from (attribute.t for attribute in node.attribute if attribute.HasField("t"))


def external_data(tensor: Any, model: Path) -> ExternalData:
    """Where the data of a tensor lie; ``model`` is the model's file.

    Raises InputError that names file, tensor and what is wrong: a file that is missing, outside the folder or not
    regular, an offset or a length that is no number, or too few bytes or too many.
    """
    entries = {entry.key: entry.value for entry in tensor.external_data}
    named = model.parent / entries.get("location", "")
    try:
        file, size = _regular_file(entries.get("location", ""), model)
        needed = _bytes_needed(tensor)
        offset, length = _number(entries, "offset"), _number(entries, "length") or needed
        if length != needed:
            raise _Unfit(f"expected {needed} bytes of external data, found a length of {length}")
        if offset + needed > size:
            there = f"found {max(size - offset, 0)}, as the file has {size}"
            raise _Unfit(f"expected {needed} bytes of external data from byte {offset} on, {there}")
    except _Unfit as error:
        raise InputError(named, f"tensor {tensor.name}", str(error)) from None
    return ExternalData(file, offset, needed)


class _Unfit(ValueError):
    """External data that cannot be used; the text says what was expected."""


def _regular_file(location: str, model: Path) -> tuple[Path, int]:
    """The file at a location, with all links followed, and its size in bytes."""
    place = PurePosixPath(os.path.normpath(location))
    if not location or "\0" in location or place.is_absolute() or ".." in place.parts:
        raise _Unfit(f"expected external data at a path within the model's folder, found location {location!r}")
    try:
        file = (model.parent / location).resolve(strict=True)
        status = file.stat()
    except (OSError, RuntimeError) as error:  # RuntimeError: links in a circle
        why = error.strerror if isinstance(error, OSError) else "links in a circle"
        missing = "there is no such file" if isinstance(error, FileNotFoundError) else why
        raise _Unfit(f"expected its external data ({missing})") from None
    if not any(file.is_relative_to(folder) for folder in _folders(model)):
        raise _Unfit(f"expected external data within the model's folder, found a link to {file}")
    if not stat.S_ISREG(status.st_mode):
        found = "a folder" if stat.S_ISDIR(status.st_mode) else "a pipe or a device"
        raise _Unfit(f"expected a regular file of external data, found {found}")
    if not os.access(file, os.R_OK):
        raise _Unfit("expected external data that can be read (Permission denied)")
    return file, status.st_size


def _folders(model: Path) -> tuple[Path, Path]:
    """The folder of a model's file, and that of the file that it is a link to."""
    return model.parent.resolve(), model.resolve().parent


def common_folder(model: Path) -> Path:
    """The folder below which all external data of a model are found."""
    return Path(os.path.commonpath(_folders(model)))


def _bytes_needed(tensor: Any) -> int:
    """Bytes of a tensor's numbers; those of less than a byte are packed."""
    from onnx import helper

    try:
        bits = BITS[helper.tensor_dtype_to_np_dtype(tensor.data_type).name]
    except KeyError:
        raise _Unfit(f"expected a tensor of numbers, found data type {tensor.data_type}") from None
    numbers = 1
    for size in tensor.dims:
        if size < 0:
            raise _Unfit(f"expected sizes of at least 0, found {list(tensor.dims)}")
        numbers *= size
    return -(-numbers * bits // 8)


def _number(entries: Mapping[str, str], key: str) -> int:
    """A number of bytes; 0 if there is none: a length of 0 stands for all bytes that the tensor has."""
    text = entries.get(key, "0")
    if not re.fullmatch("[0-9]{1,19}", text):
        raise _Unfit(f"expected the {key} of external data as a whole number of bytes, found {text[:40]!r}")
    return int(text)


def locate_weights(model: Any, path: Path) -> None:
    """Let the locations of a model's external data be files without links, relative to its `common_folder`.

    ``path`` is the model's file. Raises InputError as `external_data` does.
    """
    folder = common_folder(path)
    for tensor in stored_outside(model.graph):
        found = external_data(tensor, path)
        _place(tensor, str(found.file.relative_to(folder)), found.offset, found.bytes)


def carry_weights(model: Any, source: Path, target: Path) -> None:
    """Copy the external data of a model, whose file is ``source``, into one file; without any, write no file.

    Raises InputError as `external_data` does.
    """
    outside = list(stored_outside(model.graph))
    if not outside:
        return
    with open(target, "wb") as copy:
        for tensor in outside:
            found = external_data(tensor, source)
            copy.write(bytes(-copy.tell() % ALIGNMENT))
            _place(tensor, target.name, copy.tell(), found.bytes)
            _append(found, copy)


def _append(found: ExternalData, copy: Any) -> None:
    with open(found.file, "rb") as stream:
        stream.seek(found.offset)
        left = found.bytes
        while left:
            chunk = stream.read(min(left, CHUNK))
            if not chunk:
                raise InputError(found.file, "", "expected a file that does not change while it is copied")
            copy.write(chunk)
            left -= len(chunk)


def _place(tensor: Any, location: str, offset: int, length: int) -> None:
    del tensor.external_data[:]
    for key, value in (("location", location), ("offset", offset), ("length", length)):
        tensor.external_data.add(key=key, value=str(value))
