"""Memory of a process as Linux counts it."""

from __future__ import annotations

import os
import re
import resource
from pathlib import Path

OUT_OF_MEMORY = "needs more memory than an import may use"  # error of a solver file
PAGE = os.sysconf("SC_PAGE_SIZE")  # bytes of a page of memory


def peak_bytes(pid: int | str = "self") -> int:
    """Return the peak resident memory of a process since it started its program; 0 if it has gone."""
    try:
        text = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    found = re.search(r"^VmHWM:\s+(\d+) kB$", text, re.MULTILINE)
    return int(found[1]) * 1024 if found else 0


def resident_bytes() -> int:
    """Return the resident memory of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE


def largest_bytes(used: resource.struct_rusage) -> int:
    """Return the peak resident memory of the largest process that a resource usage record covers."""
    return used.ru_maxrss * 1024
