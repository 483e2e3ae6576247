"""The forked process that becomes a run: its files, signals, limits, environment, and then the solver."""

from __future__ import annotations

import contextlib
import fcntl
import os
import resource
import signal
import sys
import tempfile
import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.sandbox import worker
from harness.sandbox.backends.prctl import drop_keyring
from harness.sandbox.backends.seccomp import ignore_affinity_calls
from harness.sandbox.contract import THREAD_VARIABLES, Order
from harness.sandbox.signals import MOST_FILES, lower_limit, reset_signals

CHANNEL = 3  # number of the message pipe in a run
OPEN = 4096  # files that a process may have open
MIB = 1 << 20


@dataclass(frozen=True)
class Launch:
    """All that a forked process needs to become a run.

    ``command`` is that of an external solver, empty for the Python solver of ``job``; ``folder`` becomes the current
    one. ``ends`` are files: standard output, standard errors, and a third. That is the message pipe of a Python solver;
    of a ``command`` it is the end of a pipe that closes when its program begins: what was before is not the solver's.
    ``nice`` is the priority, ``pin`` whether requests for other cores do nothing.
    """

    order: Order
    job: Mapping[str, Any]
    command: list[str]
    folder: Path
    ends: tuple[int, int, int]
    nice: int
    pin: bool

    def become(self) -> None:
        """Turn this process into the run, which inherits no keys; never returns."""
        status = 1
        try:
            os.setsid()
            if sys.platform == "linux":
                drop_keyring()
            self._connect()
            self._limit()
            os.chdir(self.folder)
            if self.command:
                self._execute()
            self._solve()
            status = 0
        except SystemExit as end:
            status = _status_of(end)
        except BaseException:
            traceback.print_exc()
        finally:
            with contextlib.suppress(BaseException):
                sys.stdout.flush()
                sys.stderr.flush()
            os._exit(status)

    def environment(self) -> dict[str, str]:
        """The supervisor's environment, but for the run's own folder and number of threads."""
        threads = dict.fromkeys(THREAD_VARIABLES, str(self.order.limits.cores))
        return {**os.environ, **threads, "HOME": str(self.folder), "TMPDIR": str(self.folder)}

    def _connect(self) -> None:
        """Standard files, the third of ``ends``, and no other; signals as a program finds them at its start."""
        ends = [os.open(os.devnull, os.O_RDONLY), *self.ends]
        for number, end in enumerate([fcntl.fcntl(end, fcntl.F_DUPFD, len(ends)) for end in ends]):
            os.dup2(end, number, inheritable=number < CHANNEL)
        os.closerange(len(ends), MOST_FILES)
        sys.stdout, sys.stderr = (os.fdopen(number, "w", 1, errors="backslashreplace") for number in (1, 2))
        reset_signals()

    def _limit(self) -> None:
        """Limits that the system holds. None on addresses: honest programs reserve many more than they use."""
        limits = self.order.limits
        lower_limit(resource.RLIMIT_CORE, 0)
        lower_limit(resource.RLIMIT_NOFILE, OPEN)
        lower_limit(
            resource.RLIMIT_FSIZE, int(max(limits.output_mib, limits.memory_mib) * MIB)
        )  # shared memory is a file
        os.setpriority(os.PRIO_PROCESS, 0, self.nice)
        if self.order.cpus and hasattr(os, "sched_setaffinity"):
            os.sched_setaffinity(0, self.order.cpus)
            if self.pin:
                ignore_affinity_calls()

    def _execute(self) -> None:
        """Become another program; one that cannot be started ends as it would in a shell."""
        try:
            os.execvpe(self.command[0], self.command, self.environment())
        except OSError as error:
            print(f"cannot start {self.command[0]}: {error.strerror}", file=sys.stderr)
            raise SystemExit(127 if isinstance(error, FileNotFoundError) else 126) from None

    def _solve(self) -> None:
        """Run the Python solver, in a process that looks as if Python had been started for it."""
        environment = self.environment()
        os.environ.clear()
        os.environ.update(environment)
        tempfile.tempdir = None  # it was the supervisor's
        for number in (signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_IGN)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        worker.run_job({**self.job, "channel": CHANNEL})


def _status_of(end: SystemExit) -> int:
    """The exit status that Python gives: a number is the status, None is 0, a text is printed and gives 1."""
    if end.code is None or isinstance(end.code, int):
        return (end.code or 0) & 0xFF
    print(end.code, file=sys.stderr)
    return 1
