"""Imports one stranger's solver file or package apart from everything else, where the system permits.

``python -m harness.listing PLACE FOLDER`` is ``python -m harness.worker list`` for one place, isolated as a run is: no
network, no files to write but in memory, no process that outlives it. FOLDER is empty, and becomes its scratch folder.
"""

from __future__ import annotations

import json
import os
import resource
import select
import site
import sys
from pathlib import Path

from harness import isolate
from harness.signals import reset_signals

SPACE = 64 << 20  # bytes for files, in memory


def main(arguments: list[str]) -> int:
    """List what a place declares; the exit status is that of the process which imports it, 128 + N after signal N."""
    place, scratch = arguments
    if isolate.obstacle():
        become(place, scratch)
    room = isolate.Room(Path(scratch), SPACE, SPACE, needed(place))
    imported = isolate.start(room, lambda: become(place, scratch))
    while (status := imported.ended()) is None:
        select.select([imported.link], [], [])
    return status if status >= 0 else 128 - status


def become(place: str, scratch: str) -> None:
    """Turn this process into the one that imports."""
    reset_signals()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (SPACE, SPACE))
    os.chdir(scratch)
    own = {"HOME": scratch, "TMPDIR": scratch, "PYTHONUSERBASE": site.getuserbase()}  # packages stay those of the user
    command = [sys.executable, "-P", "-m", "harness.worker", "list", json.dumps([place])]
    os.execve(command[0], command, {**os.environ, **own})


def needed(place: str) -> tuple[Path, ...]:
    """Folders that an import has to be able to read: Python's, ours and its file's."""
    folders = map(Path, (sys.prefix, sys.base_prefix, os.path.dirname(place), *sys.path))
    return tuple(dict.fromkeys(folder for folder in folders if folder.is_absolute()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
