"""CPU time as the kernel's performance counters have it: of whole process trees, also of children nobody waits for.

The usual records lose that: if a parent ignores the end of its children, the system adds their time to no record. A
counter that children inherit is exact, costs them about a microsecond each, and cannot be turned off by them. It is
granted to root, and to others unless ``kernel.perf_event_paranoid`` is above 2 or a container forbids it.
"""

from __future__ import annotations

import os
import platform
import struct

from harness.sandbox.backends.prctl import LIBC

#: Number of `perf_event_open` by machine.
PERF_EVENT_OPEN = {"x86_64": 298, "aarch64": 241, "riscv64": 241}
SOFTWARE, TASK_CLOCK = 1, 1
INHERIT, EXCLUDE_KERNEL, EXCLUDE_HYPERVISOR = 2, 32, 64  # time in the kernel counts: what is left out is its addresses
CLOSE_ON_EXEC = 8
ATTRIBUTES = struct.Struct("=IIQQQQQ16x")


class CpuClock:
    """Counts the CPU time of this process from here on, with ``inherit`` also that of all that it starts."""

    def __init__(self, *, inherit: bool) -> None:
        flags = EXCLUDE_KERNEL | EXCLUDE_HYPERVISOR | (INHERIT if inherit else 0)
        attributes = ATTRIBUTES.pack(SOFTWARE, ATTRIBUTES.size, TASK_CLOCK, 0, 0, 0, flags)
        call = PERF_EVENT_OPEN.get(platform.machine())
        file = -1 if call is None else LIBC.syscall(call, attributes, 0, -1, -1, CLOSE_ON_EXEC)
        self.file: int | None = file if file >= 0 else None

    def read(self) -> float:
        """Seconds so far; 0 if the system grants no counter."""
        return 0.0 if self.file is None else int.from_bytes(os.read(self.file, 8), "little") * 1e-9

    def close(self) -> None:
        """Stop counting."""
        if self.file is not None:
            os.close(self.file)
            self.file = None


class TreeClock:
    """Counts the CPU time of all processes that this one starts from here on, without its own, which ``own`` counts."""

    def __init__(self, own: CpuClock) -> None:
        self.all = CpuClock(inherit=True)
        self.own, self.own_before = own, own.read()

    def read(self) -> float:
        """Seconds so far, of the living and the dead; 0 if the system grants no counter."""
        return max(0.0, self.all.read() - (self.own.read() - self.own_before))

    def close(self) -> None:
        """Stop counting."""
        self.all.close()
