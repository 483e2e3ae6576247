"""Mounts in a namespace of one's own: file systems in memory, binds, and everything read-only."""

from __future__ import annotations

import ctypes
import os
import re
from pathlib import Path

from harness.sandbox.backends import prctl

READ_ONLY, NOSUID, NODEV, NOEXEC, REMOUNT, BIND, RECURSIVE, PRIVATE = 1, 2, 4, 8, 32, 4096, 1 << 14, 1 << 18
FLAGS = {"ro": 1, "nosuid": 2, "nodev": 4, "noexec": 8, "noatime": 1024, "nodiratime": 2048, "relatime": 1 << 21}
MOUNT_SETATTR, AT_FDCWD, AT_RECURSIVE = 442, -100, 0x8000


def mount(source: str | None, place: str, kind: str | None, flags: int, options: str | None = None) -> None:
    """Call the system's ``mount``; OSError if it refuses."""
    source_, kind_, options_ = (text and os.fsencode(text) for text in (source, kind, options))
    result = prctl.LIBC.mount(source_, os.fsencode(place), kind_, ctypes.c_ulong(flags), options_)
    prctl.checked(result, f"the system lets us mount nothing at {place}")


def mount_tmpfs(place: str, size: int, mode: str) -> None:
    """Mount an empty file system in memory; ``size`` in bytes, ``mode`` as an octal text."""
    # The system's own memory for each file is about a KiB, however little is in it.
    mount("tmpfs", place, "tmpfs", NOSUID | NODEV, f"size={size},nr_inodes={size // 1024},mode={mode}")


def bind(source: str, place: str) -> None:
    """Let a folder or file, with all that is mounted below it, appear at a second place as well."""
    mount(source, place, None, BIND | RECURSIVE)


def make_read_only() -> None:
    """Make everything that is mounted read-only, in this namespace only."""
    attributes = (ctypes.c_uint64 * 4)(READ_ONLY, 0, 0, 0)
    size = ctypes.c_size_t(ctypes.sizeof(attributes))
    if prctl.LIBC.syscall(MOUNT_SETATTR, AT_FDCWD, b"/", AT_RECURSIVE, ctypes.byref(attributes), size) == 0:
        return
    for place, flags in mounted():  # Linux before 5.12
        mount(None, place, None, REMOUNT | BIND | READ_ONLY | flags)


def mounted() -> list[tuple[str, int]]:
    """Every place where something is mounted, and the flags of that mount."""
    found = []
    for line in lines("/proc/self/mountinfo"):
        words = line.split(" ")
        place = re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), words[4])
        found.append((place, sum(FLAGS.get(word, 0) for word in words[5].split(","))))
    return found


def lines(path: str) -> list[str]:
    """The lines of a file that holds names of files, which may hold any white space but a new line."""
    return os.fsdecode(Path(path).read_bytes()).split("\n")[:-1]
