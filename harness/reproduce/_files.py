"""Instances that reproductions generate, as files that runs can read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from harness.store import make_folder
from instances import InputError, track_module
from instances.jsonfile import encode, read_bytes, sha256, write_bytes


def written(instance: Any, folder: Path) -> Path:
    """The file of an instance, written unless it is there; its name has the digest of its content."""
    content = encode(track_module(instance.track).to_document(instance))
    path = folder / f"{instance.name}-{sha256(content)[:12]}.json"
    if not path.is_file():
        make_folder(folder)
        write_bytes(path, content)
    elif read_bytes(path) != content:
        raise InputError(path, "", "expected the instance that it was written with, which is damaged: delete the file")
    return path
