"""Mounts in a separate mount namespace: file systems in memory, binds, and everything read-only."""

from __future__ import annotations

import ctypes
import os
import re
from pathlib import Path

from shardmark.harness.sandbox.backends import prctl

# Flags of mount(2).
READ_ONLY = 1
NOSUID = 2
NODEV = 4
NOEXEC = 8
REMOUNT = 32
BIND = 4096
RECURSIVE = 1 << 14
PRIVATE = 1 << 18
#: Flags by their names in ``mountinfo``.
FLAGS = {"ro": 1, "nosuid": 2, "nodev": 4, "noexec": 8, "noatime": 1024, "nodiratime": 2048, "relatime": 1 << 21}
MOUNT_SETATTR = 442  # number of the system call, the same on all processors
# Arguments of mount_setattr(2).
AT_FDCWD = -100
AT_RECURSIVE = 0x8000


def mount(source: str | None, place: str, kind: str | None, flags: int, options: str | None = None) -> None:
    """Call mount(2); OSError if the system refuses."""
    source_, kind_, options_ = (text and os.fsencode(text) for text in (source, kind, options))
    result = prctl.LIBC.mount(source_, os.fsencode(place), kind_, ctypes.c_ulong(flags), options_)
    prctl.check(result, f"the system does not permit mounting at {place}")


def mount_tmpfs(place: str, size: int, mode: str) -> None:
    """Mount an empty file system in memory; ``size`` in bytes, ``mode`` in octal digits."""
    # An empty file takes about a KiB of the kernel's memory.
    mount("tmpfs", place, "tmpfs", NOSUID | NODEV, f"size={size},nr_inodes={size // 1024},mode={mode}")


def bind(source: str, place: str) -> None:
    """Make a folder or file, with all mounts below it, appear at a second place as well."""
    mount(source, place, None, BIND | RECURSIVE)


def make_read_only() -> None:
    attributes = (ctypes.c_uint64 * 4)(READ_ONLY, 0, 0, 0)
    size = ctypes.c_size_t(ctypes.sizeof(attributes))
    if prctl.LIBC.syscall(MOUNT_SETATTR, AT_FDCWD, b"/", AT_RECURSIVE, ctypes.byref(attributes), size) == 0:
        return
    for place, flags in mounted():  # Linux before 5.12
        mount(None, place, None, REMOUNT | BIND | READ_ONLY | flags)


def mounted() -> list[tuple[str, int]]:
    """Return every mount point with the flags of its mount."""
    found = []
    for line in lines("/proc/self/mountinfo"):
        words = line.split(" ")
        place = re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), words[4])
        found.append((place, sum(FLAGS.get(word, 0) for word in words[5].split(","))))
    return found


def lines(path: str) -> list[str]:
    """Return the lines of a file of paths, which may contain any white space but a newline."""
    return os.fsdecode(Path(path).read_bytes()).split("\n")[:-1]
