"""The files of graphs that reproductions generate."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from harness.results.database import make_folder
from instances import InputError, track_module
from instances.files.jsonfile import encode, read_bytes, sha256, write_bytes


def written(graph: Any, folder: Path) -> Path:
    """The file of a graph, its content's digest in its name, written unless it is there.

    Raises InputError for one that is there with other content.
    """
    content = encode(track_module(graph.track).to_document(graph))
    path = folder / f"{graph.name}-{sha256(content)[:12]}.json"
    if not path.is_file():
        make_folder(folder)
        write_bytes(path, content)
    elif read_bytes(path) != content:
        raise InputError(path, "", "expected the graph that it was written with, which is damaged: delete the file")
    return path
