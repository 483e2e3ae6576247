"""Files beside the records, named by the SHA-256 of their content: written whole, checked when read."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from shardmark.instances import InputError
from shardmark.instances.files.jsonfile import decode, encode, parse_json, read_bytes, sha256, write_json

DIGITS = 12  # of the SHA-256, in the name of a file


def digest(document: Any) -> str:
    """Return the SHA-256 of a document as compact JSON, the content of its file."""
    return sha256(encode(document))


def write(path: Path, document: Any) -> None:
    """Write a document to a file, whose folder is made if need be."""
    try:
        path.parent.mkdir(exist_ok=True)
    except OSError as error:
        raise InputError(path.parent, "", f"expected a folder that can be written ({error.strerror})") from None
    write_json(path, document)


def read(path: Path, checksum: str, longest: int) -> Any:
    """Return the document in a file of at most ``longest`` bytes; InputError if it is missing or has changed."""
    return parse_json(text(path, checksum, longest), path)


def text(path: Path, checksum: str, longest: int) -> str:
    """Return what `read` parses."""
    content = read_bytes(path, longest)
    if (found := sha256(content)) != checksum:
        raise InputError(path, "checksum", f"expected sha256 {checksum}, found {found}")
    return decode(content, path)


def keep_only(folder: Path, kept: Iterable[Path]) -> None:
    """Remove the other files of a folder: those of records that were beaten, and of an update that was killed."""
    named = set(kept)
    for path in folder.glob("*.json.gz*"):  # with temporary files
        if path not in named:
            path.unlink()
