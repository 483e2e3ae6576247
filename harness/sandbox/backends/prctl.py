"""Linux calls by which a process changes itself: namespaces, rights, its end with its parent."""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import signal
import struct
from typing import Any

LIBC = ctypes.CDLL(None, use_errno=True)
#: The C library called with the interpreter's lock held, which a fork needs.
LIBC_WITH_GIL = ctypes.PyDLL(None, use_errno=True)
PROCESSOR = "x86_64"  # numbers of system calls are those of this processor only

# Options of prctl(2).
PDEATHSIG = 1
DUMPABLE = 4
SECUREBITS = 28
SUBREAPER = 36
NO_NEW_PRIVS = 38
#: Securebits that permanently leave root without rights: NOROOT, NO_SETUID_FIXUP, NO_CAP_AMBIENT_RAISE and all locks.
NO_RIGHTS = 0xEF
CAPABILITY_VERSION = 0x20080522  # _LINUX_CAPABILITY_VERSION_3 of capset(2)
# Numbers of system calls.
CLONE = 56
KEYCTL = 250
JOIN_SESSION_KEYRING = 1  # KEYCTL_JOIN_SESSION_KEYRING of keyctl(2)


def check(result: int, what: str) -> int:
    """Return the result of a C function; raise OSError with the reason and ``what`` was called if it failed."""
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


def prctl(option: int, value: int) -> None:
    """Set an attribute of this process."""
    check(LIBC.prctl(option, ctypes.c_ulong(value), *[ctypes.c_ulong(0)] * 3), f"prctl {option}")


def syscall(number: int, *arguments: Any) -> int:
    """Make a system call by its number; fails with ENOSYS on another processor than `PROCESSOR`."""
    if platform.machine() == PROCESSOR:
        return LIBC.syscall(number, *arguments)
    ctypes.set_errno(errno.ENOSYS)
    return -1


def clone_into(namespaces: int) -> int:
    """Fork into new namespaces; return the process id, 0 in the child. The process must have one thread.

    The hooks of `os.fork` do not run, so the C library and Python take the child for its parent: it should only prepare
    and then call `os.fork`.
    """
    arguments = [ctypes.c_long(word) for word in (namespaces | signal.SIGCHLD, 0, 0, 0, 0)]
    return check(LIBC_WITH_GIL.syscall(ctypes.c_long(CLONE), *arguments), "no new namespaces")


def become_subreaper() -> None:
    """Adopt all descendants whose own parent ends."""
    prctl(SUBREAPER, 1)


def die_with_parent(number: int = signal.SIGKILL) -> None:
    """Receive a signal as soon as the thread that forked this process ends; children do not inherit this."""
    prctl(PDEATHSIG, number)


def set_dumpable(allowed: bool) -> None:
    """Allow or forbid processes of the same user to trace this one and to read its memory and environment."""
    prctl(DUMPABLE, allowed)


def drop_keyring() -> None:
    """Replace the session's keyring by an empty one, if the system has keyrings."""
    syscall(KEYCTL, JOIN_SESSION_KEYRING, None)


def drop_capabilities() -> None:
    """Drop all capabilities permanently; no program started from here on can gain any."""
    prctl(SECUREBITS, NO_RIGHTS)
    prctl(NO_NEW_PRIVS, 1)
    header = struct.pack("=Ii", CAPABILITY_VERSION, 0)
    check(LIBC.capset(header, bytes(24)), "capset")
