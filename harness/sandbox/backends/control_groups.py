"""Control groups as folders: the processes in a group and below it, and killing all of them.

Version 1 has one hierarchy per controller, version 2 a single one; a file that only the other version has is skipped,
and so is a group that has gone. A run that may write to its group can make others below it.
"""

from __future__ import annotations

import contextlib
import glob
import os
import signal
import time
from collections.abc import Iterable
from pathlib import Path

#: File that freezes a group and the word that thaws it, in version 1, where no signal ends a frozen process, and in 2.
THAW = {"freezer.state": "THAWED", "cgroup.freeze": "0"}
PROCESSES = "cgroup.procs"  # file that lists the processes of a group
THREADS = ("tasks", "cgroup.threads")  # files that list the threads of a group, in version 1 and in version 2
HIERARCHY = Path("/sys/fs/cgroup")  # mount point of version 2
RECORD = "groups"  # file in the folder of a supervisor with prefixes of its run's control groups, one per line
END_S = 5.0  # seconds that killed processes may take to end
CHECK_S = 0.01  # seconds between two checks whether they have


def subtree(group: str) -> list[str]:
    """Return a group and all groups below it, itself first."""
    return [folder for folder, _, _ in os.walk(group)]


def processes(group: str) -> list[int]:
    """Return the ids of the processes in a group and below it."""
    return [int(word) for folder in subtree(group) for word in _read(folder, PROCESSES).split()]


def count(group: str) -> tuple[int, int]:
    """Return the number of processes and of threads in a group and below it."""
    folders = subtree(group)
    threads = sum(_read(folder, name).count(b"\n") for folder in folders for name in THREADS)
    return sum(_read(folder, PROCESSES).count(b"\n") for folder in folders), threads


def thaw(group: str) -> None:
    for folder in subtree(group):
        for name, word in THAW.items():
            with contextlib.suppress(OSError), open(os.path.join(folder, name), "r+") as file:
                file.write(word)


def kill(groups: Iterable[str]) -> None:
    """Kill the processes in groups and below them, frozen or not, without waiting for them."""
    for group in groups:
        for process in processes(group):
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        thaw(group)


def remove(groups: Iterable[str]) -> None:
    """Kill the processes in groups and below, and remove the groups; a group whose processes do not end stays."""
    until = time.monotonic() + END_S
    while (left := [group for group in groups if os.path.isdir(group)]) and time.monotonic() < until:
        kill(left)
        for folder in [folder for group in left for folder in reversed(subtree(group))]:
            with contextlib.suppress(OSError):
                os.rmdir(folder)
        if any(map(os.path.isdir, left)):
            time.sleep(CHECK_S)


def of_this_process() -> Path:
    """Return the folder of this process's group of version 2."""
    groups = (line.split(":", 2) for line in Path("/proc/self/cgroup").read_text().splitlines())
    return HIERARCHY / next((path[1:] for _, names, path in groups if not names), "")


def enter(group: Path) -> None:
    """Move this process into a group; OSError if it may not."""
    (group / PROCESSES).write_text(str(os.getpid()))


def record(prefixes: Iterable[str], folder: Path) -> None:
    """Record in a supervisor's folder, before its run has any group, the prefixes of the paths of the run's groups.

    The client removes all groups with these prefixes if the supervisor is killed, however many there are by then.
    """
    text = os.fsencode("".join(f"{prefix}\n" for prefix in prefixes))
    file = os.open(folder / RECORD, os.O_WRONLY | os.O_CREAT, 0o600)
    os.pwrite(file, text, 0)
    os.ftruncate(file, len(text))  # after writing: some file systems write an emptied file to the disk at once
    os.close(file)


def remove_recorded(folder: Path) -> None:
    """Remove the groups that the last run of a supervisor has left, if any."""
    with contextlib.suppress(FileNotFoundError):
        prefixes = (folder / RECORD).read_text().splitlines()
        remove([group for prefix in prefixes for group in glob.glob(f"{glob.escape(prefix)}*")])


def _read(folder: str, name: str) -> bytes:
    """Return the content of a file of a group; b"" if there is none."""
    with contextlib.suppress(OSError), open(f"{folder}/{name}", "rb", buffering=0) as file:
        return file.read()
    return b""
