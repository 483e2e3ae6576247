"""Cache of the declarations of the project's own solver files, valid until one of the files changes."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import site
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from shardmark.instances.catalog import cache_folder
from shardmark.instances.errors import InputError

ROOT = Path(__file__).resolve().parents[2]
#: Folders that declarations and versions depend on.
FOLDERS = ("solvers", "c_src", "harness/campaign", "harness/sandbox")


def stamp() -> str:
    """Return the SHA-256 of names, sizes and times of all files that declarations depend on, and of Python's folders.

    Installing a package changes its folder, so packages that declare solvers are noticed as well.
    """
    paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    folders = [*filter(None, paths), *site.getsitepackages(), site.getusersitepackages()]
    digest = hashlib.sha256(os.fsencode(f"{sys.executable} {sys.version}"))
    for path, status in [*_statuses(folders), *(x for folder in FOLDERS for x in _files(f"{ROOT}/{folder}"))]:
        digest.update(os.fsencode(f"{path}\0{status.st_size} {status.st_mtime_ns} {status.st_ctime_ns}\0"))
    return digest.hexdigest()


def _statuses(paths: Sequence[str]) -> Iterator[tuple[str, os.stat_result]]:
    for path in paths:
        with contextlib.suppress(OSError):
            yield path, os.stat(path)


def _files(folder: str) -> Iterator[tuple[str, os.stat_result]]:
    for parent, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if name != "__pycache__")
        yield from _statuses([f"{parent}/{name}" for name in sorted(names)])


def _place() -> Path:
    digest = hashlib.sha256(os.fsencode(f"{ROOT} {sys.executable}"))
    return cache_folder() / "solvers" / f"{digest.hexdigest()[:16]}.json"


def load(stamp: str) -> list[dict[str, Any]] | None:
    """Return the declarations saved under this stamp; None if there are none."""
    with contextlib.suppress(OSError, ValueError, LookupError, TypeError, InputError):
        kept = json.loads(_place().read_bytes())
        return list(kept["declarations"]) if kept["stamp"] == stamp else None
    return None


def save(stamp: str, declarations: Sequence[dict[str, Any]]) -> None:
    """Save declarations under a stamp, replacing earlier ones; do nothing if the user has no cache."""
    with contextlib.suppress(OSError, InputError):
        place = _place()
        place.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=place.parent, delete=False) as file:
            json.dump({"stamp": stamp, "declarations": declarations}, file)
        os.replace(file.name, place)
