"""Folders that a run writes to: the bytes of their files, and folders nested deeper than Python can follow."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import sys
from collections import deque
from collections.abc import Iterator
from itertools import count, islice
from uuid import uuid4


def filesystem_bytes(folder: int) -> int:
    """Return the bytes used in the file system of an open folder."""
    facts = os.fstatvfs(folder)
    return (facts.f_blocks - facts.f_bfree) * facts.f_frsize


def folder_bytes(folder: int, most: int = 10_000) -> int:
    """Return the bytes of the files below an open folder, of the first ``most`` entries; links are not followed.

    Files whose path is longer than the system accepts are not found.
    """
    total, folders = 0, deque(["."])
    while folders and most > 0:
        place = folders.popleft()
        try:
            for name, facts in _entries(place, folder, most):
                most -= 1
                if stat.S_ISDIR(facts.st_mode):
                    folders.append(f"{place}/{name}")
                elif stat.S_ISREG(facts.st_mode):
                    total += facts.st_blocks * 512
        except OSError as error:  # it has gone, or may not be read
            if error.errno == errno.EMFILE:  # the run took this process's right to open files
                raise
    return total


def flatten(folder: int) -> None:
    """Move all folders below an open folder directly into it, so that deleting it needs no recursion."""
    prefix, number = uuid4().hex, count()
    waiting = deque(_folders(".", folder))
    while waiting:
        name = waiting.popleft()
        for inner in _folders(name, folder):
            lifted = f"{prefix}-{next(number)}"
            with contextlib.suppress(OSError):  # it stays where it is
                os.chmod(f"{name}/{inner}", stat.S_IRWXU, dir_fd=folder)  # else it cannot be moved
                os.rename(f"{name}/{inner}", lifted, src_dir_fd=folder, dst_dir_fd=folder)
                waiting.append(lifted)


def _folders(place: str, folder: int) -> list[str]:
    """Return the names of the folders in a place below an open folder; none if it cannot be read."""
    try:
        return [name for name, facts in _entries(place, folder, sys.maxsize) if stat.S_ISDIR(facts.st_mode)]
    except OSError:
        return []


def _entries(place: str, folder: int, most: int) -> Iterator[tuple[str, os.stat_result]]:
    """Yield name and status of at most ``most`` entries of a place below an open folder."""
    inside = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=folder)
    try:
        with os.scandir(inside) as entries:
            for entry in islice(entries, most):
                with contextlib.suppress(OSError):
                    yield entry.name, entry.stat(follow_symlinks=False)
    finally:
        os.close(inside)
