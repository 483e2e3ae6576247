"""Imports one stranger's solver file or package apart from everything else, where the system permits.

``python -m harness.campaign.import_check PLACE FOLDER PARENT`` is ``python -m harness.sandbox.worker list`` for one
place, isolated as a run is: no network, no files to write but in memory, no process that outlives it. FOLDER becomes
its scratch folder. It is made here, and deleted here on SIGTERM or when process PARENT, which asks, has ended: a
referee that is killed meanwhile leaves none behind.
Each process is held to limits of CPU time and memory; isolated, all processes of the import together to that of memory.
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

from harness.sandbox.backends import namespaces, prctl

# None of these loads NumPy, which starts threads: a fork is to follow.
from harness.sandbox.backends.process_tree import Proc, ProcMeter
from harness.sandbox.backends.view import view_of
from harness.sandbox.contract import BackendError
from harness.sandbox.signals import lower_limit, reset_signals

SPACE = 64 << 20  # bytes for files, in memory
MEMORY = 4 << 30  # bytes
PROCESSES = 512
CPU_S = 60
IMPORT_TIMEOUT_S = 60.0
LOOK_S = 0.05
SPENT, FULL = 128 + signal.SIGXCPU, 120  # exit status of an import that has used up its CPU time, its memory


def main(arguments: list[str]) -> int:
    """List what a place declares; the exit status is that of the process which imports it, 128 + N after signal N."""
    place, scratch, parent = arguments
    end_with(int(parent), scratch)
    os.mkdir(scratch, 0o700)
    until = time.monotonic() + IMPORT_TIMEOUT_S
    room = namespaces.Sandbox(Path(scratch), SPACE, SPACE, view_of(place), until=until)
    try:
        imported = namespaces.start(room, lambda: become(place, scratch))
    except BackendError:
        become(place, scratch)
    try:
        return watched(imported)
    finally:
        discard(scratch)


def end_with(parent: int, scratch: str) -> None:
    """End on SIGTERM without a trace, which is what comes when the parent ends, where the system can tell."""

    def end(number: int, _: object) -> NoReturn:
        discard(scratch)
        os._exit(128 + number)  # and what is isolated with it

    signal.signal(signal.SIGTERM, end)
    if sys.platform == "linux":
        prctl.die_with_parent(signal.SIGTERM)
    if os.getppid() != parent:  # it has ended already
        os._exit(1)


def discard(scratch: str) -> None:
    """Delete the scratch folder: what an isolated import has written is not in it, but in memory."""
    with contextlib.suppress(OSError):
        os.rmdir(scratch)


def watched(imported: namespaces.IsolatedProcess) -> int:
    """The exit status of an import, once it has ended or uses too much memory."""
    proc = Proc(imported.proc)
    of_run = (imported.shared, imported.scratch)
    meter = ProcMeter(proc, lambda: (pid for pid in proc.processes() if pid != 1), of_run)
    while (status := imported.ended()) is None:
        used = meter.read(MEMORY, PROCESSES)
        if used.memory > MEMORY or used.processes > PROCESSES:
            return FULL
        select.select([imported.link], [], [], LOOK_S)
    return status if status >= 0 else 128 - status


def become(place: str, scratch: str) -> NoReturn:
    """Turn this process into the one that imports."""
    reset_signals()
    if sys.platform == "linux":
        prctl.die_with_parent()
    lower_limit(resource.RLIMIT_CORE, 0)
    lower_limit(resource.RLIMIT_FSIZE, SPACE)
    lower_limit(resource.RLIMIT_DATA, MEMORY)
    lower_limit(resource.RLIMIT_CPU, CPU_S)
    os.chdir(scratch)
    own = {"HOME": scratch, "TMPDIR": scratch, "PYTHONUSERBASE": site.getuserbase()}  # packages stay those of the user
    command = [sys.executable, "-P", "-m", "harness.sandbox.worker", "list", json.dumps([place])]
    os.execve(command[0], command, {**os.environ, **own})


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
