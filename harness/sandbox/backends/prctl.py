"""What a process can ask of Linux about itself: whom it dies with, who may look into it, what it can never do again."""

from __future__ import annotations

import ctypes
import os
import platform
import signal
import struct

LIBC = ctypes.CDLL(None, use_errno=True)
LIBC_WITH_GIL = ctypes.PyDLL(None, use_errno=True)  # holds the interpreter meanwhile, which a fork must

PDEATHSIG, DUMPABLE, SECUREBITS, SUBREAPER, NO_NEW_PRIVS = 1, 4, 28, 36, 38
#: Root without rights, for ever: NOROOT, NO_SETUID_FIXUP, NO_CAP_AMBIENT_RAISE, each with its lock, KEEP_CAPS locked.
POWERLESS = 0xEF
CAPABILITY_VERSION = 0x20080522

#: Number of `clone` by machine.
CLONE = {"x86_64": 56, "aarch64": 220, "riscv64": 220}
#: Number of `keyctl` by machine.
KEYCTL = {"x86_64": 250, "aarch64": 219, "riscv64": 219}
JOIN_SESSION_KEYRING = 1


def checked(result: int, what: str) -> int:
    """The result of a C function, or OSError with the reason and what it was for."""
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


def prctl(option: int, value: int) -> None:
    """Set one of the process's switches."""
    checked(LIBC.prctl(option, ctypes.c_ulong(value), *[ctypes.c_ulong(0)] * 3), f"prctl {option}")


def clone_into(namespaces: int) -> int:
    """Fork a process into new namespaces; its number here, 0 there. The process must have one thread.

    None of the hooks run that `os.fork` runs, so that the C library and Python take the child for its parent: all that
    it should do is prepare, and then `os.fork`.
    """
    arguments = [ctypes.c_long(word) for word in (namespaces | signal.SIGCHLD, 0, 0, 0, 0)]
    return checked(LIBC_WITH_GIL.syscall(ctypes.c_long(CLONE[platform.machine()]), *arguments), "no new namespaces")


def become_subreaper() -> None:
    """Become the parent of all descendants whose own parent ends."""
    prctl(SUBREAPER, 1)


def die_with_parent(number: int = signal.SIGKILL) -> None:
    """Get a signal as soon as the thread that forked this process ends; children do not inherit this."""
    prctl(PDEATHSIG, number)


def set_dumpable(allowed: bool) -> None:
    """Whether processes of the same user may trace this one, read its memory and its environment."""
    prctl(DUMPABLE, allowed)


def drop_keyring() -> None:
    """Leave the keys that the system keeps for this session; begin with none, where it keeps any."""
    if platform.machine() in KEYCTL:
        LIBC.syscall(KEYCTL[platform.machine()], JOIN_SESSION_KEYRING, None)


def drop_capabilities() -> None:
    """Drop all capabilities; no program that is started from here on can gain any."""
    prctl(SECUREBITS, POWERLESS)
    prctl(NO_NEW_PRIVS, 1)
    header = struct.pack("=Ii", CAPABILITY_VERSION, 0)
    checked(LIBC.capset(header, bytes(24)), "capset")
