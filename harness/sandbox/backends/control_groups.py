"""Control groups as folders of the system: who is in a group and in those below it, and the end of all of them.

Version 1 has a hierarchy per controller, version 2 one for all; a file that only the other version has is skipped, and
so is a group that has gone in the meantime. A run that may write to its group can make others below it.
"""

from __future__ import annotations

import contextlib
import glob
import os
import signal
import time
from collections.abc import Iterable
from pathlib import Path

#: Files by which a group is frozen, and what thaws it: version 1, in which no signal ends a frozen process, and 2.
THAW = {"freezer.state": "THAWED", "cgroup.freeze": "0"}
PROCESSES = "cgroup.procs"  # file that lists the processes of a group
THREADS = ("tasks", "cgroup.threads")  # files that list the threads of a group, in version 1 and in version 2
HIERARCHY = Path("/sys/fs/cgroup")  # where that of version 2 is mounted
RECORD = "groups"  # file in the folder of a supervisor: what paths of its run's control groups begin with, one per line
END_S = 5.0  # for the processes of a group to end once they are killed
LOOK_S = 0.01  # between two looks whether they have


def tree(group: str) -> list[str]:
    """A group and all groups below it, itself first."""
    return [folder for folder, _, _ in os.walk(group)]


def processes(group: str) -> list[int]:
    """Ids of the processes in a group and below it."""
    return [int(word) for folder in tree(group) for word in _read(folder, PROCESSES).split()]


def count(group: str) -> tuple[int, int]:
    """How many processes there are in a group and below it, and how many threads."""
    folders = tree(group)
    threads = sum(_read(folder, name).count(b"\n") for folder in folders for name in THREADS)
    return sum(_read(folder, PROCESSES).count(b"\n") for folder in folders), threads


def thaw(group: str) -> None:
    """Let the processes in a group and below it go on, whoever froze them."""
    for folder in tree(group):
        for name, word in THAW.items():
            with contextlib.suppress(OSError), open(os.path.join(folder, name), "r+") as file:
                file.write(word)


def kill(groups: Iterable[str]) -> None:
    """Kill the processes in groups and below them, frozen or not, without waiting for their end."""
    for group in groups:
        for process in processes(group):
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        thaw(group)


def remove(groups: Iterable[str]) -> None:
    """End the processes in groups and remove these and all below them; what cannot be ended stays."""
    until = time.monotonic() + END_S
    while (left := [group for group in groups if os.path.isdir(group)]) and time.monotonic() < until:
        kill(left)
        for folder in [folder for group in left for folder in reversed(tree(group))]:
            with contextlib.suppress(OSError):
                os.rmdir(folder)
        if any(map(os.path.isdir, left)):
            time.sleep(LOOK_S)


def of_this_process() -> Path:
    """The folder of this process's group of version 2."""
    groups = (line.split(":", 2) for line in Path("/proc/self/cgroup").read_text().splitlines())
    return HIERARCHY / next((path[1:] for _, names, path in groups if not names), "")


def enter(group: Path) -> None:
    """Move this process into a group; OSError if it may not."""
    (group / PROCESSES).write_text(str(os.getpid()))


def record(beginnings: Iterable[str], folder: Path) -> None:
    """Note, before there is a run's first group, what the paths of its groups will begin with.

    Whoever clears up if the supervisor is killed finds them all, however many there are by then. ``folder`` is the
    supervisor's.
    """
    text = os.fsencode("".join(f"{beginning}\n" for beginning in beginnings))
    file = os.open(folder / RECORD, os.O_WRONLY | os.O_CREAT, 0o600)
    os.pwrite(file, text, 0)
    os.ftruncate(file, len(text))  # after writing: some file systems write an emptied file to the disk at once
    os.close(file)


def remove_recorded(folder: Path) -> None:
    """Remove the groups that the last run of a supervisor has left behind, if any."""
    with contextlib.suppress(FileNotFoundError):
        beginnings = (folder / RECORD).read_text().splitlines()
        remove([group for beginning in beginnings for group in glob.glob(f"{glob.escape(beginning)}*")])


def _read(folder: str, name: str) -> bytes:
    """What a file of a group holds; b"" if there is none."""
    try:
        file = os.open(f"{folder}/{name}", os.O_RDONLY)
    except OSError:
        return b""
    with contextlib.suppress(OSError), open(file, "rb", buffering=0) as lines:
        return lines.read()
    return b""
