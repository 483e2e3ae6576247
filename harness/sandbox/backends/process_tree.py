"""The processes of a run that is not isolated: finding, waiting for and killing all descendants of its supervisor."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
from collections.abc import Iterator

from shardmark.harness.sandbox.memory import largest_bytes
from shardmark.harness.sandbox.meters.processes import Proc, ProcMeter


class ProcessTree:
    """All descendants of this process, which is their subreaper: it adopts orphans and waits for them.

    ``cpu_s`` and ``largest`` are CPU seconds of those that have ended and the peak bytes of the largest of them.
    """

    def __init__(self) -> None:
        self.cpu_s = 0.0
        self.largest = 0
        self.proc = Proc(os.open("/proc", os.O_RDONLY))

    def close(self) -> None:
        os.close(self.proc.folder)

    def meter(self) -> ProcMeter:
        """Return a meter of the descendants that have not ended."""
        return ProcMeter(self.proc, self.members, waited=lambda: self.cpu_s)

    def members(self) -> Iterator[int]:
        """Yield every descendant, parents before children."""
        waiting, seen = self.proc.children(os.getpid()), set[int]()
        while waiting:
            pid = waiting.pop()
            if pid not in seen:
                seen.add(pid)
                yield pid
                waiting += self.proc.children(pid)

    def reap(self) -> dict[int, int]:
        """Wait for every process that has ended; return exit statuses by process id."""
        ended: dict[int, int] = {}
        with contextlib.suppress(ChildProcessError):
            while (found := os.wait4(-1, os.WNOHANG))[0]:
                ended[found[0]] = os.waitstatus_to_exitcode(found[1])
                self._add(found[2])
        return ended

    def kill_all(self, group: int) -> None:
        """Kill every descendant that there is now; the process ``group`` first, as it dies at once."""
        with contextlib.suppress(OSError):
            os.killpg(group, signal.SIGKILL)
        for pid in self.members():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def kill_and_wait(self, group: int) -> None:
        """Kill every descendant and wait for it, until none is left; see `kill_all`.

        A killed process starts no other, and its children become children of this process: even if processes are
        started faster than they are killed, fewer are left each time.
        """
        while True:
            self.kill_all(group)
            try:
                self._add(os.wait4(-1, 0)[2])
            except ChildProcessError:
                return
            self.reap()

    def _add(self, used: resource.struct_rusage) -> None:
        self.cpu_s += used.ru_utime + used.ru_stime
        self.largest = max(self.largest, largest_bytes(used))
