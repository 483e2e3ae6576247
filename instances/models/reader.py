"""Models of every format that is read, told apart by content."""

from __future__ import annotations

import gzip
import os
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path

from shardmark.instances.errors import InputError
from shardmark.instances.files.jsonfile import GZIP_MAGIC, read_bytes
from shardmark.instances.models.model import Model
from shardmark.instances.models.onnx_file import LARGEST, read_onnx
from shardmark.instances.models.stablehlo.apart import read_stablehlo
from shardmark.instances.models.stablehlo.module import is_stablehlo


def is_onnx(content: bytes) -> bool:
    """True if the content of a file begins with the field ir_version, as ONNX models do."""
    return content[:1] == b"\x08" and content[1:2] != b"\x00"


def begins_as_onnx(path: str | os.PathLike[str]) -> bool:
    """True if a file, plain or gzip, begins as ONNX models do; False as well if it cannot be read."""
    try:
        with Path(path).open("rb") as stream:
            head = stream.read(len(GZIP_MAGIC))
        if head == GZIP_MAGIC:
            with gzip.open(path) as stream:
                head = stream.read(2)
    except (OSError, EOFError, zlib.error):
        return False
    return is_onnx(head)


def read_model(
    path: str | os.PathLike[str],
    dims: Mapping[str, int] | None = None,
    tell: Callable[[str], None] = lambda _: None,
    branches: Mapping[str, str] | None = None,
) -> Model:
    """The model of an ONNX file, or of a StableHLO program as text or portable artifact.

    ``dims`` has values for symbolic sizes of an ONNX model, ``branches`` choices of branches by their names or patterns
    of names: "then", "else", or a number if there are more. ``tell`` gets sentences on doubts. Raises
    InputError for any other file, and for what the format's reader refuses.
    """
    if begins_as_onnx(path):
        return read_onnx(path, dims, tell, branches)
    if is_stablehlo(read_bytes(path, LARGEST)):
        return read_stablehlo(path, tell, branches)
    program = "a StableHLO program (MLIR text or portable artifact), as JAX lowers to"
    raise InputError(path, "", f"expected an ONNX model, as torch.onnx.export writes, or {program}")
