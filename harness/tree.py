"""The processes of a run: all descendants of one process, their memory, their CPU time, their end."""

from __future__ import annotations

import contextlib
import os
import signal

import psutil

from harness.memory import peak_bytes
from harness.watch import Usage


class Tree:
    """All descendants of this process, whoever their parent was; this process is their subreaper and waits for them."""

    def __init__(self) -> None:
        self.me = psutil.Process()
        self.reaped_cpu_s = 0.0

    def reap(self) -> dict[int, int]:
        """Wait for every process that has ended; exit statuses by process id."""
        ended: dict[int, int] = {}
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, status, used = os.wait4(-1, os.WNOHANG)
                if pid == 0:
                    break
                ended[pid] = os.waitstatus_to_exitcode(status)
                self.reaped_cpu_s += used.ru_utime + used.ru_stime
        return ended

    def usage(self) -> Usage:
        """What all processes use: proportional memory where several share pages."""
        processes = self.me.children(recursive=True)
        used = Usage(cpu_s=self.reaped_cpu_s, processes=len(processes))
        for process in processes:
            with contextlib.suppress(psutil.Error):
                times = process.cpu_times()
                used.cpu_s += times.user + times.system
                used.memory += self._memory(process, alone=len(processes) == 1)
        return used

    @staticmethod
    def _memory(process: psutil.Process, *, alone: bool) -> float:
        if alone:
            return float(peak_bytes(process.pid) or process.memory_info().rss)
        full = process.memory_full_info()
        return float(getattr(full, "pss", full.uss))

    def kill(self) -> Usage:
        """Kill and wait for everything, again until nothing is left."""
        while True:
            for process in self.me.children(recursive=True):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process.pid, signal.SIGKILL)
            try:
                _, _, used = os.wait4(-1, 0)
            except ChildProcessError:
                return Usage(cpu_s=self.reaped_cpu_s)
            self.reaped_cpu_s += used.ru_utime + used.ru_stime
