"""Evidence that a run was ended from outside: by the system, an outer limit or another user, not by the referee."""

from __future__ import annotations

import re
import resource
import signal
from pathlib import Path

from shardmark.harness.sandbox.contract import Limits

COUNTERS = Path("/proc/vmstat")  # the system's counters, in a container those of the whole machine
#: Signals that no fault of a program raises, so somebody sent them. A program that sends one to itself looks the same.
SENT = (signal.SIGKILL, signal.SIGTERM)
#: Exit status of a shell whose program was ended by SIGKILL.
SHELL_KILLED = 128 + signal.SIGKILL
#: End of the reason of a run of which only its signal says that somebody else ended it.
UNSENT = "which neither the referee nor a limit of the run sent"
STALL_S = 1.0  # seconds that the monitor may wake late; a paused container and a suspended machine stop it for longer


def oom_kills() -> int:
    """Return how many processes the system has killed for lack of memory since it started; 0 if it does not count."""
    try:
        found = re.search(r"^oom_kill (\d+)$", COUNTERS.read_text(), re.MULTILINE)
    except OSError:
        return 0
    return int(found[1]) if found else 0


def cpu_limit() -> int:
    """Return the seconds of CPU time after which the system ends each process of the referee and of its runs, or -1."""
    return resource.getrlimit(resource.RLIMIT_CPU)[0]


def out_of_memory(limits: Limits, peak_mib: float) -> str:
    """Return the reason of a run that the system killed for lack of memory below the run's own limit."""
    return f"killed from outside for lack of memory: it {limits.memory_reason(peak_mib)}"


def reason(status: int, limits: Limits, peak_mib: float, kills: int) -> str:
    """Return why a run with an exit status as of `os.waitstatus_to_exitcode` was ended from outside; "" if it was not.

    The run has broken no limit, and the referee has not killed it. ``kills`` is the rise of `oom_kills` meanwhile.
    """
    if kills > 0 and status in (-signal.SIGKILL, SHELL_KILLED):
        return out_of_memory(limits, peak_mib)
    if -status in SENT:
        return f"killed by {signal.Signals(-status).name}, {UNSENT}"
    if status == -signal.SIGXCPU and cpu_limit() != resource.RLIM_INFINITY:
        return f"killed at a limit from outside: {cpu_limit()} s of CPU time for every process here (ulimit -t)"
    return ""


def stalled(seconds: float, limits: Limits) -> str:
    """Return the reason of a run at its time limit during which the monitor stood still for ``seconds``."""
    return f"the machine was suspended for {seconds:.1f} s before its time limit of {limits.timeout_s:g} s"
