"""What a program finds when it starts: signals with their default effects, few files, limits of the system's."""

from __future__ import annotations

import resource
import signal

MOST_FILES = 65536  # numbers that open files may have


def reset_signals() -> None:
    """Every signal has its default effect and none is held back."""
    signal.set_wakeup_fd(-1)
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])


def lower_limit(name: int, value: int) -> None:
    """Lower a limit of the system's, for good."""
    _, hard = resource.getrlimit(name)
    value = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(name, (value, value))
