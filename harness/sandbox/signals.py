"""Signals and resource limits as a program expects them when it starts."""

from __future__ import annotations

import resource
import signal

MAX_FILES = 65536  # file descriptors are closed up to this number, 16 times the number of files that a run may open


def reset_signals() -> None:
    """Give every signal its default action and unblock all."""
    signal.set_wakeup_fd(-1)
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])


def lower_limit(name: int, value: int) -> None:
    """Lower a resource limit for good."""
    _, hard = resource.getrlimit(name)
    value = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(name, (value, value))
