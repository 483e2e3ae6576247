"""Filters of system calls, which a process sets for itself and all its descendants, permanently.

``ignore_affinity_calls``  requests to run on other cores succeed without effect
``hide_clone3``            no process can be started in another control group
``hide_kernel_memory``     no sockets without network namespaces, no memory that no process holds

Filters are for calls that Linux grants to everybody. All else is a matter of rights (see `namespaces`): no list of
forbidden calls would be complete.
"""

from __future__ import annotations

import ctypes
import errno
import struct
from collections.abc import Iterable

from shardmark.harness.sandbox.backends.prctl import NO_NEW_PRIVS, check, prctl, syscall

# Numbers of system calls on x86-64.
SECCOMP = 317
CLONE3 = 435
SCHED_SETAFFINITY = 203
IO_URING_SETUP = 425
VMSPLICE = 278
SOCKETS = (41, 53)  # `socket` and `socketpair`
MEMFDS = (319, 447)  # `memfd_create` and `memfd_secret`
# Numbers of system calls of 32-bit programs.
SCHED_SETAFFINITY_32 = 241
KERNEL_MEMORY_32 = (102, 359, 360, 316, 356, 447)  # `socketcall`, SOCKETS, VMSPLICE and MEMFDS
# Architectures as a filter sees them: AUDIT_ARCH_X86_64 and AUDIT_ARCH_I386.
X86_64 = 0xC000003E
I386 = 0x40000003
X32 = 0x40000000  # smallest number of a system call of the x32 interface
UNIX = 1  # family of Unix sockets, which have no protocols
#: Other families of sockets that a run may have, all with network namespaces: IPv4, IPv6, netlink.
FAMILIES = (2, 10, 16)
PROTOCOLS = (0, 6, 17)  # their protocols: any, TCP and UDP; 0 of netlink tells which networks there are
NOT_X32 = 0xBFFFFFFF  # clears the bit that marks a call of the x32 interface
# Arguments of seccomp(2): SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_SPEC_ALLOW (keeps the processor's speculation).
SET_FILTER = 1
ALLOW_SPECULATION = 4
# Instructions of the packet filter: load a word, and, skip if equal, skip if at least, return.
LOAD = 0x20
AND = 0x54
EQUAL = 0x15
AT_LEAST = 0x35
RETURN = 0x06
# Offsets in bytes of the number of the call, the architecture, the first and the third argument in a filter's data.
CALL = 0
ARCHITECTURE = 4
FIRST = 16
THIRD = 32
# Results of a filter; FAIL takes an error number, 0 for success without effect.
ALLOW = 0x7FFF0000
FAIL = 0x00050000

Step = tuple[int, int, int, int]  # instruction, steps to skip if it is true, steps to skip if it is false, its value


def ignore_affinity_calls() -> bool:
    """From here on, let requests to run on other cores have no effect; return False if the system has no filters."""
    try:
        install(
            (LOAD, 0, 0, ARCHITECTURE),
            (EQUAL, 0, 3, X86_64),
            (LOAD, 0, 0, CALL),
            (AND, 0, 0, NOT_X32),
            (EQUAL, 4, 3, SCHED_SETAFFINITY),
            (EQUAL, 0, 2, I386),
            (LOAD, 0, 0, CALL),
            (EQUAL, 1, 0, SCHED_SETAFFINITY_32),
            (RETURN, 0, 0, ALLOW),
            (RETURN, 0, 0, FAIL),
        )
    except OSError:
        return False
    return True


def hide_clone3() -> None:
    """From here on, let `clone3` fail as on a system without it, so that libraries use `clone`; OSError if refused.

    `clone3` can start a process in any control group of the user, even if its folder is read-only. Its arguments lie in
    memory, which a filter cannot read.
    """
    install(
        (LOAD, 0, 0, CALL),
        (AND, 0, 0, NOT_X32),
        (EQUAL, 0, 1, CLONE3),
        (RETURN, 0, 0, FAIL | errno.ENOSYS),
        (RETURN, 0, 0, ALLOW),
    )


def hide_kernel_memory(*, memfds: bool) -> None:
    """From here on, refuse all sockets but Unix, TCP and UDP, and memory that no process holds; OSError if refused.

    Other sockets can reach the host of a virtual machine, or hold memory in the kernel that no record counts. So can
    `io_uring`, whose calls no filter sees, and pages that `vmsplice` has put into a pipe and that are no longer mapped.
    Unless ``memfds`` are allowed, neither are files in memory: one on its way through a socket is open in no process.
    """
    hidden = (IO_URING_SETUP, VMSPLICE, *(() if memfds else MEMFDS))
    absent = FAIL | errno.ENOSYS
    compatible = ((LOAD, 0, 0, CALL), *_answer((IO_URING_SETUP, *KERNEL_MEMORY_32), absent), (RETURN, 0, 0, ALLOW))
    of_sockets = (
        (LOAD, 0, 0, FIRST),
        *_answer((UNIX,), ALLOW),
        *((EQUAL, len(FAMILIES) - number, 0, family) for number, family in enumerate(FAMILIES)),
        (RETURN, 0, 0, FAIL | errno.EAFNOSUPPORT),
        (LOAD, 0, 0, THIRD),
        *_answer(PROTOCOLS, ALLOW),
        (RETURN, 0, 0, FAIL | errno.EPROTONOSUPPORT),
    )
    install(
        (LOAD, 0, 0, ARCHITECTURE),
        (EQUAL, len(compatible), 0, X86_64),
        *compatible,
        (LOAD, 0, 0, CALL),
        (AT_LEAST, 0, 1, X32),
        (RETURN, 0, 0, absent),
        *_answer(hidden, absent),
        *((EQUAL, len(SOCKETS) - number, 0, call) for number, call in enumerate(SOCKETS)),
        (RETURN, 0, 0, ALLOW),
        *of_sockets,
    )


def _answer(values: Iterable[int], result: int) -> list[Step]:
    return [step for value in values for step in ((EQUAL, 0, 1, value), (RETURN, 0, 0, result))]


def install(*steps: Step) -> None:
    """Set a filter, and give up gaining rights by starting programs; OSError if the system refuses."""
    program = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *step) for step in steps))
    descriptor = struct.pack("@HP", len(steps), ctypes.addressof(program))
    prctl(NO_NEW_PRIVS, 1)
    check(syscall(SECCOMP, SET_FILTER, ALLOW_SPECULATION, descriptor), "seccomp")
