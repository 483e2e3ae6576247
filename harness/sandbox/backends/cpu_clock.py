"""CPU time as the kernel's performance counters have it: of whole process trees, also of children nobody waits for.

The usual records lose that: if a parent ignores the end of its children, the system adds their time to no record. A
counter that children inherit is exact, costs them about a microsecond each, and cannot be turned off by them. It is
granted to root, and to others unless ``kernel.perf_event_paranoid`` is above 2 or a container forbids it.
"""

from __future__ import annotations

import os
import platform
import struct
from collections.abc import Iterable

from harness.sandbox.backends.prctl import LIBC

#: Number of `perf_event_open` by machine.
PERF_EVENT_OPEN = {"x86_64": 298, "aarch64": 241, "riscv64": 241}
SOFTWARE, TASK_CLOCK = 1, 1
INHERIT, EXCLUDE_KERNEL, EXCLUDE_HYPERVISOR = 2, 32, 64  # time in the kernel counts: what is left out is its addresses
CLOSE_ON_EXEC = 8
ATTRIBUTES = struct.Struct("=IIQQQQQ16x")


def counter(*, inherit: bool) -> int | None:
    """An open file that counts the CPU time of this process from here on, with ``inherit`` of all that it starts too.

    None if the system grants none.
    """
    flags = EXCLUDE_KERNEL | EXCLUDE_HYPERVISOR | (INHERIT if inherit else 0)
    attributes = ATTRIBUTES.pack(SOFTWARE, ATTRIBUTES.size, TASK_CLOCK, 0, 0, 0, flags)
    call = PERF_EVENT_OPEN.get(platform.machine())
    file = -1 if call is None else LIBC.syscall(call, attributes, 0, -1, -1, CLOSE_ON_EXEC)
    return file if file >= 0 else None


class TreeClock:
    """The CPU time of all processes that another has started since ``begin``, without its own.

    ``files`` are two counters, of that process with all that it starts and without; none if the system grants none.
    """

    def __init__(self, files: Iterable[int] = ()) -> None:
        self.files = list(files)

    @classmethod
    def begin(cls) -> TreeClock:
        """Count what this process starts from here on."""
        files = [file for inherit in (True, False) if (file := counter(inherit=inherit)) is not None]
        clock = cls(files)
        if len(files) == 1:
            clock.close()
        return clock

    def read(self) -> float:
        """Seconds so far, of the living and the dead; 0 if the system grants no counter."""
        if not self.files:
            return 0.0
        everything, own = (int.from_bytes(os.read(file, 8), "little") for file in self.files)
        return max(0, everything - own) * 1e-9

    def close(self) -> None:
        """Stop counting."""
        while self.files:
            os.close(self.files.pop())
