"""Filters of system calls, which a process sets for itself and all that it starts, for ever.

``ignore_affinity_calls``   requests to run on other cores do nothing
``hide_clone3``  no process can be started in another control group

What a run may not do at all is a matter of its rights, see `namespaces`: a list of calls would never be complete.
A filter is for what the system grants to everybody.
"""

from __future__ import annotations

import ctypes
import errno
import platform
import struct
import sys

from harness.sandbox.backends.prctl import LIBC, NO_NEW_PRIVS, checked, prctl

#: Number of `seccomp` by machine.
SECCOMP = {"x86_64": 317, "aarch64": 277, "riscv64": 277}
FILTER, AS_IT_IS = 1, 4  # set a filter; leave the processor's speculation as it is
#: By machine: architecture and number of `sched_setaffinity`, native and 32-bit.
AFFINITY_CALLS = {
    "x86_64": (0xC000003E, 203, 0x40000003, 241),
    "aarch64": (0xC00000B7, 122, 0x40000028, 241),
}
CLONE3 = 435  # on every machine, native and 32-bit

LOAD, AND, EQUAL, RETURN = 0x20, 0x54, 0x15, 0x06  # instructions of the kernel's packet filter
CALL, ARCHITECTURE = 0, 4  # where the number of the call and the architecture lie in what a filter sees
ALLOW, FAIL = 0x7FFF0000, 0x00050000  # the latter with an error number, 0 for success without doing anything
NOT_X32 = 0xBFFFFFFF

Step = tuple[int, int, int, int]  # instruction, steps to skip if it is true and if not, its value


def ignore_affinity_calls() -> bool:
    """From here on, let requests to run on other cores do nothing; False where that cannot be had."""
    if sys.platform != "linux" or platform.machine() not in AFFINITY_CALLS:
        return False
    native, call, compatible, compatible_call = AFFINITY_CALLS[platform.machine()]
    try:
        install(
            (LOAD, 0, 0, ARCHITECTURE),
            (EQUAL, 0, 3, native),
            (LOAD, 0, 0, CALL),
            (AND, 0, 0, NOT_X32),
            (EQUAL, 4, 3, call),
            (EQUAL, 0, 2, compatible),
            (LOAD, 0, 0, CALL),
            (EQUAL, 1, 0, compatible_call),
            (RETURN, 0, 0, ALLOW),
            (RETURN, 0, 0, FAIL),
        )
    except OSError:
        return False
    return True


def hide_clone3() -> None:
    """From here on, act as a system without `clone3`, and libraries take `clone`; OSError where that cannot be had.

    `clone3` can start a process in any control group that the user owns, also where a folder of it is read-only. Its
    arguments lie in memory, where no filter sees them.
    """
    install(
        (LOAD, 0, 0, CALL),
        (AND, 0, 0, NOT_X32),
        (EQUAL, 0, 1, CLONE3),
        (RETURN, 0, 0, FAIL | errno.ENOSYS),
        (RETURN, 0, 0, ALLOW),
    )


def install(*steps: Step) -> None:
    """Set a filter, and never gain rights by a program that is started; OSError where that cannot be had."""
    program = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *step) for step in steps))
    descriptor = struct.pack("@HP", len(steps), ctypes.addressof(program))
    if platform.machine() not in SECCOMP:
        raise OSError(errno.ENOSYS, f"no filters of system calls are known of {platform.machine()}")
    prctl(NO_NEW_PRIVS, 1)
    checked(LIBC.syscall(SECCOMP[platform.machine()], FILTER, AS_IT_IS, descriptor), "seccomp")
