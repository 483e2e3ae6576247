"""The forked process that becomes a run: it sets up files, signals, limits and environment, then runs the solver."""

from __future__ import annotations

import contextlib
import fcntl
import os
import resource
import signal
import sys
import tempfile
import traceback
from dataclasses import dataclass
from pathlib import Path

from shardmark.harness.sandbox import worker
from shardmark.harness.sandbox.backends.prctl import drop_keyring
from shardmark.harness.sandbox.backends.seccomp import ignore_affinity_calls
from shardmark.harness.sandbox.contract import THREAD_VARIABLES, Order
from shardmark.harness.sandbox.signals import MAX_FILES, lower_limit, reset_signals

CHANNEL = 3  # file descriptor of the message pipe in a run
OPEN_FILES = 4096  # files that a process of a run may have open, the usual hard limit of Linux distributions
MIB = 1 << 20


@dataclass(frozen=True)
class Launch:
    """All that a forked process needs to become a run.

    ``deadline`` is the solver's, a value of `time.monotonic`. ``command`` is that of an external solver, empty for a
    Python solver. ``folder`` becomes the current folder. ``ends`` are file descriptors: standard output, standard
    error, and a third, which for a Python solver is the message pipe. For a ``command`` it is the end of a pipe that
    closes when the program starts; usage before that is not the solver's. ``nice`` is the priority. ``pin``: requests
    to run on other cores have no effect.
    """

    order: Order
    deadline: float
    command: list[str]
    folder: Path
    ends: tuple[int, int, int]
    nice: int
    pin: bool

    def run(self) -> None:
        """Turn this process into the run; never returns."""
        status = 1
        try:
            os.setsid()
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
        """Return the supervisor's environment with the run's own folder and number of threads."""
        threads = dict.fromkeys(THREAD_VARIABLES, str(self.order.limits.cores))
        return {**os.environ, **threads, "HOME": str(self.folder), "TMPDIR": str(self.folder)}

    def _connect(self) -> None:
        """Keep the standard files, the third of ``ends`` and no other; give signals their default actions."""
        ends = [os.open(os.devnull, os.O_RDONLY), *self.ends]
        for number, end in enumerate([fcntl.fcntl(end, fcntl.F_DUPFD, len(ends)) for end in ends]):
            os.dup2(end, number, inheritable=number < CHANNEL)
        os.closerange(len(ends), MAX_FILES)
        sys.stdout, sys.stderr = (os.fdopen(number, "w", 1, errors="backslashreplace") for number in (1, 2))
        reset_signals()

    def _limit(self) -> None:
        """Set the limits that the system enforces; none on address space, as many programs reserve much unused."""
        limits = self.order.limits
        lower_limit(resource.RLIMIT_CORE, 0)
        lower_limit(resource.RLIMIT_NOFILE, OPEN_FILES)
        largest_file = max(limits.output_mib, limits.memory_mib)  # shared memory is a file
        lower_limit(resource.RLIMIT_FSIZE, int(largest_file * MIB))
        os.setpriority(os.PRIO_PROCESS, 0, self.nice)
        if self.order.cpus:
            os.sched_setaffinity(0, self.order.cpus)
            if self.pin:
                ignore_affinity_calls()

    def _execute(self) -> None:
        """Become another program; if it cannot be started, end as a shell would."""
        try:
            os.execvpe(self.command[0], self.command, self.environment())
        except OSError as error:
            print(f"cannot start {self.command[0]}: {error.strerror}", file=sys.stderr)
            raise SystemExit(127 if isinstance(error, FileNotFoundError) else 126) from None

    def _solve(self) -> None:
        """Run the Python solver in a process that looks as if Python had been started for it."""
        environment = self.environment()
        os.environ.clear()
        os.environ.update(environment)
        tempfile.tempdir = None  # the supervisor's
        for number in (signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_IGN)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        worker.run_order(self.order, CHANNEL, self.deadline)


def _status_of(end: SystemExit) -> int:
    """Return the exit status as Python does: a number itself, 0 for None, 1 for a text, which is printed."""
    if end.code is None or isinstance(end.code, int):
        return (end.code or 0) & 0xFF
    print(end.code, file=sys.stderr)
    return 1
