"""The greatest memory that a process has used, as the system counts it."""

from __future__ import annotations

import re
from pathlib import Path


def peak_bytes(pid: int | str = "self") -> int:
    """Greatest resident memory of a process since it began its program; 0 where the system does not say."""
    try:
        text = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    found = re.search(r"^VmHWM:\s+(\d+) kB$", text, re.MULTILINE)
    return int(found[1]) * 1024 if found else 0
