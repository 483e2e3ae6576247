"""CPU time of whole process trees by the kernel's performance counters, including children that no one waits for.

The usual records lose these: if a parent ignores the end of its children, Linux adds their time to no record. A
counter that children inherit is exact, costs them about a microsecond each, and they cannot turn it off. It is granted
to root, and to others unless ``kernel.perf_event_paranoid`` is above 2 or a container forbids it.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable

from shardmark.harness.sandbox.backends.prctl import syscall

PERF_EVENT_OPEN = 298  # number of the system call
# Fields of struct perf_event_attr, see perf_event_open(2).
SOFTWARE = 1
TASK_CLOCK = 1
INHERIT = 2
EXCLUDE_KERNEL = 32  # leaves out the kernel's addresses, not the time spent in it
EXCLUDE_HYPERVISOR = 64
CLOSE_ON_EXEC = 8
ATTRIBUTES = struct.Struct("=IIQQQQQ16x")


def counter(*, inherit: bool) -> int | None:
    """Open a counter of this process's CPU time from here on, with ``inherit`` also of all that it starts.

    None if the system grants none.
    """
    flags = EXCLUDE_KERNEL | EXCLUDE_HYPERVISOR | (INHERIT if inherit else 0)
    attributes = ATTRIBUTES.pack(SOFTWARE, ATTRIBUTES.size, TASK_CLOCK, 0, 0, 0, flags)
    file = syscall(PERF_EVENT_OPEN, attributes, 0, -1, -1, CLOSE_ON_EXEC)
    return file if file >= 0 else None


class TreeClock:
    """CPU time of all processes that one process has started since ``begin``, without its own.

    ``files`` are two counters of that process, with and without what it starts; none if the system grants none.
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
        """Return seconds so far, of living and ended processes; 0 if the system grants no counter."""
        if not self.files:
            return 0.0
        total, own = (int.from_bytes(os.read(file, 8), "little") for file in self.files)
        return max(0, total - own) * 1e-9

    def close(self) -> None:
        while self.files:
            os.close(self.files.pop())
