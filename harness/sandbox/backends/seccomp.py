"""Filters of system calls, which a process sets for itself and all that it starts, for ever.

``ignore_affinity_calls``   requests to run on other cores do nothing
``hide_clone3``  no process can be started in another control group
``hide_kernel_memory``  no sockets that know no network namespaces, and no memory that no process has

What a run may not do at all is a matter of its rights, see `namespaces`: a list of calls would never be complete.
A filter is for what the system grants to everybody.
"""

from __future__ import annotations

import ctypes
import errno
import platform
import struct
import sys
from collections.abc import Iterable
from dataclasses import dataclass

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
IO_URING_SETUP = 425  # the same


@dataclass(frozen=True)
class Calls:
    """Numbers of system calls of an architecture."""

    architecture: int
    sockets: tuple[int, ...]  # `socket` and `socketpair`
    vmsplice: int
    memfds: tuple[int, ...]  # `memfd_create` and `memfd_secret`
    compatible: tuple[int, ...] = ()  # all of these of 32-bit programs, and `socketcall`


#: By machine.
CALLS = {
    "x86_64": Calls(0xC000003E, (41, 53), 278, (319, 447), (102, 359, 360, 316, 356, 447)),
    "aarch64": Calls(0xC00000B7, (198, 199), 75, (279, 447), (281, 288, 343, 385, 447)),
    "riscv64": Calls(0xC00000F3, (198, 199), 75, (279, 447)),
}
#: Families of sockets that a run may have, each in a network namespace, and the protocols of all but the first.
UNIX, OTHERS = 1, (2, 10, 16)  # the latter of IP, version 4 and 6, and netlink
PROTOCOLS = (0, 6, 17)  # any, TCP and UDP; 0 of netlink: which networks there are

LOAD, AND, EQUAL, AT_LEAST, RETURN = 0x20, 0x54, 0x15, 0x35, 0x06  # instructions of the kernel's packet filter
CALL, ARCHITECTURE = 0, 4  # where the number of the call and the architecture lie in what a filter sees
FIRST, THIRD = 16, 32  # and the first and the third argument
X32 = 0x40000000
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


def hide_kernel_memory(*, memfds: bool) -> None:
    """From here on, have Unix, TCP and UDP sockets only; OSError where that cannot be had.

    Others can reach the host of a virtual machine, or hold memory in the kernel that nobody counts. So can `io_uring`,
    whose calls no filter sees, and pages that `vmsplice` has put into a pipe and that are mapped no longer. Without
    ``memfds`` there are no files in memory either: one on its way through a socket is open in no process.
    """
    calls = CALLS.get(platform.machine())
    if calls is None:
        raise OSError(errno.ENOSYS, f"no filters of system calls are known of {platform.machine()}")
    hidden = (IO_URING_SETUP, calls.vmsplice, *(() if memfds else calls.memfds))
    compatible = (
        (LOAD, 0, 0, CALL),
        *_refuse((IO_URING_SETUP, *calls.compatible), errno.ENOSYS),
        (RETURN, 0, 0, ALLOW),
    )
    of_sockets = (
        (LOAD, 0, 0, FIRST),
        *_allow((UNIX,)),
        *((EQUAL, len(OTHERS) - number, 0, family) for number, family in enumerate(OTHERS)),
        (RETURN, 0, 0, FAIL | errno.EAFNOSUPPORT),
        (LOAD, 0, 0, THIRD),
        *_allow(PROTOCOLS),
        (RETURN, 0, 0, FAIL | errno.EPROTONOSUPPORT),
    )
    install(
        (LOAD, 0, 0, ARCHITECTURE),
        (EQUAL, len(compatible), 0, calls.architecture),
        *compatible,
        (LOAD, 0, 0, CALL),
        (AT_LEAST, 0, 1, X32),  # other numbers for the same
        (RETURN, 0, 0, FAIL | errno.ENOSYS),
        *_refuse(hidden, errno.ENOSYS),
        *((EQUAL, len(calls.sockets) - number, 0, call) for number, call in enumerate(calls.sockets)),
        (RETURN, 0, 0, ALLOW),
        *of_sockets,
    )


def _refuse(values: Iterable[int], error: int) -> list[Step]:
    return [step for value in values for step in ((EQUAL, 0, 1, value), (RETURN, 0, 0, FAIL | error))]


def _allow(values: Iterable[int]) -> list[Step]:
    return [step for value in values for step in ((EQUAL, 0, 1, value), (RETURN, 0, 0, ALLOW))]


def install(*steps: Step) -> None:
    """Set a filter, and never gain rights by a program that is started; OSError where that cannot be had."""
    program = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *step) for step in steps))
    descriptor = struct.pack("@HP", len(steps), ctypes.addressof(program))
    if platform.machine() not in SECCOMP:
        raise OSError(errno.ENOSYS, f"no filters of system calls are known of {platform.machine()}")
    prctl(NO_NEW_PRIVS, 1)
    checked(LIBC.syscall(SECCOMP[platform.machine()], FILTER, AS_IT_IS, descriptor), "seccomp")
