"""Backend ``posix``: a run is a fork of its warden, in a session of its own, its orphans adopted by the warden."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness import worker
from harness.limits import MEASURES, Order
from harness.tree import Tree
from harness.watch import Pipes, Usage

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36  # of Linux's prctl
ENFORCED = dict.fromkeys(MEASURES, "polled") | {"wall": "hard", "network": "none", "files": "none"}


class Posix:
    """The backend; one an own process, the warden."""

    name = "posix"

    def __init__(self) -> None:
        if sys.platform == "linux":
            ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)

    def start(self, order: Order, job: Mapping[str, Any], command: list[str], folder: Path, pipes: Pipes) -> Run:
        """Start a run: ``command`` if there is one, else the Python solver of ``job``."""
        pid = os.fork()
        if pid == 0:
            _child(order, job, command, folder, pipes)
        return Run(pid)


def _child(order: Order, job: Mapping[str, Any], command: list[str], folder: Path, pipes: Pipes) -> None:
    """What the forked process does; never returns."""
    status = 1
    try:
        os.setsid()
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(pipes.stdout, 1)
        os.dup2(pipes.stderr, 2)
        kept = pipes.channel
        if kept != 3:
            os.dup2(kept, 3)
        os.closerange(4, os.sysconf("SC_OPEN_MAX") if sys.platform != "linux" else 65536)
        if sys.platform == "linux":  # should the warden be killed, the run goes with it
            ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if order.cpus and hasattr(os, "sched_setaffinity"):
            os.sched_setaffinity(0, order.cpus)
        os.chdir(folder)
        os.environ["TMPDIR"] = str(folder)
        if command:
            os.close(3)
            os.execvp(command[0], command)
        worker.run_job({**job, "channel": 3})
        status = 0
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)


class Run:
    """A run that is under way."""

    enforced = ENFORCED
    over: float | None = None

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.status: int | None = None
        self.tree = Tree()

    def ended(self) -> int | None:
        """Exit status of the first process; None while it is alive."""
        self.status = self.tree.reap().get(self.pid, self.status)
        return self.status

    def usage(self) -> Usage:
        """What all processes use."""
        return self.tree.usage()

    def kill(self) -> Usage:
        """End all processes, those that were adopted among them."""
        return self.tree.kill()
