"""The memory of a process, as the system counts it."""

from __future__ import annotations

import os
import re
import resource
import sys
from pathlib import Path

OUT_OF_MEMORY = "needs more memory than an import may use"
PAGE = os.sysconf("SC_PAGE_SIZE")
RUSAGE_UNIT = 1 if sys.platform == "darwin" else 1024  # bytes in which `resource` counts memory


def peak_bytes(pid: int | str = "self") -> int:
    """Greatest resident memory of a process since it began its program; 0 where the system does not say."""
    try:
        text = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    found = re.search(r"^VmHWM:\s+(\d+) kB$", text, re.MULTILINE)
    return int(found[1]) * 1024 if found else 0


def resident_bytes() -> int:
    """Resident memory of this process now; its greatest where the system does not say."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE
    except OSError:
        return largest_bytes(resource.getrusage(resource.RUSAGE_SELF))


def largest_bytes(used: resource.struct_rusage) -> int:
    """Greatest resident memory of any one process of those that a record of use is about."""
    return used.ru_maxrss * RUSAGE_UNIT
