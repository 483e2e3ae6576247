"""Imports one third-party solver file or package, isolated if the system permits.

``python -m shardmark.harness.campaign.import_check PLACE FOLDER PARENT`` does for one place what the worker's ``list``
does, isolated as a run is. FOLDER becomes its scratch folder: it is made here, and deleted here on SIGTERM and when
process PARENT, the client, has ended, so that a killed client leaves none behind.
Each process has limits on CPU time and memory; if isolated, the limit on memory holds for all together.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import select
import signal
import site
import sys
import time
from pathlib import Path
from typing import NoReturn

from shardmark.harness.sandbox.backends import namespaces, prctl
from shardmark.harness.sandbox.backends.visible_files import view_of
from shardmark.harness.sandbox.contract import BackendError

# None of these loads NumPy, which starts threads: a process that forks into namespaces must have one thread.
from shardmark.harness.sandbox.meters.processes import Proc, ProcMeter
from shardmark.harness.sandbox.signals import lower_limit, reset_signals

FILE_BYTES = 64 << 20  # bytes for files, in memory
MEMORY_BYTES = 4 << 30  # bytes of memory
PROCESSES = 512  # processes at once
CPU_S = 60  # seconds of CPU time per process
IMPORT_TIMEOUT_S = 60.0  # seconds for an import; the project's own files share them
CHECK_S = 0.05  # seconds between two measurements of memory
OUT_OF_CPU_STATUS = 128 + signal.SIGXCPU  # exit status of an import that has used up its CPU time
#: Exit status of an import that has used up its memory; an arbitrary number that shells do not use.
OUT_OF_MEMORY_STATUS = 120


def main(arguments: list[str]) -> int:
    """List what a place declares; return the exit status of the importing process, 128 + N after signal N."""
    place, scratch, parent = arguments
    end_with_parent(int(parent), scratch)
    os.mkdir(scratch, 0o700)
    until = time.monotonic() + IMPORT_TIMEOUT_S
    sandbox = namespaces.Sandbox(Path(scratch), FILE_BYTES, FILE_BYTES, view_of(place), until=until)
    try:
        imported = namespaces.start(sandbox, lambda: become_import(place, scratch))
    except BackendError:
        become_import(place, scratch)
    try:
        return wait(imported)
    finally:
        discard(scratch)


def end_with_parent(parent: int, scratch: str) -> None:
    """Delete the scratch folder and end on SIGTERM, which the system sends when the parent ends."""

    def end(number: int, _: object) -> NoReturn:
        discard(scratch)
        os._exit(128 + number)  # the isolated processes end with this one

    signal.signal(signal.SIGTERM, end)
    prctl.die_with_parent(signal.SIGTERM)
    if os.getppid() != parent:  # it has ended already
        os._exit(1)


def discard(scratch: str) -> None:
    """Delete the scratch folder, which is empty: an isolated import writes to memory."""
    with contextlib.suppress(OSError):
        os.rmdir(scratch)


def wait(imported: namespaces.IsolatedProcess) -> int:
    """Return the exit status of an import, once it has ended or uses too much memory."""
    proc = Proc(imported.proc)
    shared = (imported.shared, imported.scratch)
    meter = ProcMeter(proc, lambda: (pid for pid in proc.processes() if pid != 1), shared)
    while (status := imported.ended()) is None:
        used = meter.read(MEMORY_BYTES, PROCESSES)
        if used.memory > MEMORY_BYTES or used.processes > PROCESSES:
            return OUT_OF_MEMORY_STATUS
        select.select([imported.link], [], [], CHECK_S)
    return status if status >= 0 else 128 - status


def become_import(place: str, scratch: str) -> NoReturn:
    """Turn this process into the one that imports."""
    reset_signals()
    prctl.die_with_parent()
    lower_limit(resource.RLIMIT_CORE, 0)
    lower_limit(resource.RLIMIT_FSIZE, FILE_BYTES)
    lower_limit(resource.RLIMIT_DATA, MEMORY_BYTES)
    lower_limit(resource.RLIMIT_CPU, CPU_S)
    os.chdir(scratch)
    own = {"HOME": scratch, "TMPDIR": scratch, "PYTHONUSERBASE": site.getuserbase()}  # the user's packages stay visible
    command = [sys.executable, "-P", "-m", "shardmark.harness.sandbox.worker", "list", json.dumps([place])]
    os.execve(command[0], command, {**os.environ, **own})


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
