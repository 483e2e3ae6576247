"""Run a command under a wall-clock and a memory limit, keep its messages with the times of their arrival.

The clock is the referee's own and starts before the process does: starting Python and reading the instance count.
The memory of the whole process tree is polled; proportional set size where the system knows it.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from harness.memory import peak_bytes
from harness.protocol import Frames

LOG_BYTES = 16 * 1024
KEPT = 500  # messages kept from the beginning of a run, and as many from its end
POLL_S = 0.02
#: Variables by which numeric libraries learn how many threads they may start.
THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "POLARS_MAX_THREADS",
)


class Cancelled(Exception):
    """The campaign was interrupted while this run was under way."""


@dataclass(frozen=True)
class Limits:
    """What a run may use: seconds of wall time, MiB of memory for the process tree, cores."""

    timeout_s: float
    memory_mib: float
    cores: int = 1

    def margin_s(self) -> float:
        """How long before the limit a solver's own deadline lies, so that its last report arrives in time."""
        return min(0.5, max(0.2, 0.05 * self.timeout_s), 0.2 * self.timeout_s)

    def overused(self, peak_mib: float) -> str:
        """The reason of a run that used more memory than it may."""
        return f"used {peak_mib:.0f} MiB, the limit is {self.memory_mib:.0f} MiB"


@dataclass
class Outcome:
    """How a process ended and what came out of its pipe.

    ``stop`` is "exit", "timeout", "memory" or "crash"; ``reason`` says more unless it is "exit".
    ``messages`` holds (seconds since the start, payload) of what arrived within the limit.
    """

    stop: str = "exit"
    reason: str = ""
    wall_s: float = 0.0
    cpu_s: float = 0.0
    peak_mib: float = 0.0
    messages: list[tuple[float, bytes]] = field(default_factory=list)
    fault: str | None = None
    log: str = ""


def execute(
    command: Callable[[int, float], Sequence[str]],
    limits: Limits,
    folder: Path,
    cancel: threading.Event | None = None,
) -> Outcome:
    """Run a command in ``folder`` until it ends or breaks a limit, and kill what it leaves behind.

    ``command(channel, start)`` gives the arguments; ``channel`` is the file descriptor of the message pipe in the
    child, ``start`` the moment (`time.monotonic`) from which the limit counts. Raises Cancelled once ``cancel`` is set.
    """
    reader, channel = os.pipe()
    environment = {**os.environ, **dict.fromkeys(THREAD_VARIABLES, str(limits.cores)), "PYTHONUNBUFFERED": "1"}
    start = time.monotonic()
    try:
        process = subprocess.Popen(
            command(channel, start),
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            pass_fds=[channel],
            start_new_session=True,
        )
    except BaseException:
        os.close(reader)
        raise
    finally:
        os.close(channel)
    with _Watch(process, reader, start, limits) as watch:
        return watch.until_end(cancel)


class _Watch:
    """One process under observation."""

    def __init__(self, process: subprocess.Popen[bytes], reader: int, start: float, limits: Limits) -> None:
        self.process = process
        self.start = start
        self.limits = limits
        self.outcome = Outcome()
        self.frames = Frames()
        self.log = bytearray()
        self.latest: deque[tuple[float, bytes]] = deque(maxlen=KEPT)
        self.left_out = 0
        self.tree = _Tree(process.pid)
        assert process.stdout is not None
        self.selector = selectors.DefaultSelector()
        self.pipes = {reader: self._take_message, process.stdout.fileno(): self._take_log}
        self.reader = reader
        for pipe in self.pipes:
            os.set_blocking(pipe, False)
            self.selector.register(pipe, selectors.EVENT_READ)

    def __enter__(self) -> _Watch:
        return self

    def __exit__(self, *_: object) -> None:
        self._kill()
        self.selector.close()
        os.close(self.reader)
        assert self.process.stdout is not None
        self.process.stdout.close()

    def until_end(self, cancel: threading.Event | None) -> Outcome:
        end = self.start + self.limits.timeout_s
        next_poll = self.start
        while not self._reap(os.WNOHANG):
            now = time.monotonic()
            if cancel is not None and cancel.is_set():
                raise Cancelled
            if now >= end:
                self._stop("timeout", f"killed at the time limit of {self.limits.timeout_s:g} s")
                break
            if now >= next_poll:
                next_poll = now + self._poll_memory()
                if self.outcome.peak_mib > self.limits.memory_mib:
                    self._stop("memory", self.limits.overused(self.outcome.peak_mib))
                    break
            self._read(min(POLL_S, max(0.0, end - now)))
        self.outcome.wall_s = time.monotonic() - self.start
        self._kill()
        self._read(0.0)
        self.frames.close()
        self.outcome.messages += self.latest
        if self.left_out:
            lost = f"the referee kept the first and the last {KEPT} messages, {self.left_out} between are lost"
            self.log += f"\n({lost})\n".encode()
        self.outcome.fault = self.frames.fault
        self.outcome.log = self.log.decode(errors="replace")
        return self.outcome

    def _stop(self, stop: str, reason: str) -> None:
        self.outcome.stop, self.outcome.reason = stop, reason

    def _poll_memory(self) -> float:
        """Look at the tree's memory; return the seconds until the next look, more when looking is dear."""
        began = time.monotonic()
        memory, cpu = self.tree.usage()
        self.outcome.peak_mib = max(self.outcome.peak_mib, memory / 2**20)
        self.outcome.cpu_s = max(self.outcome.cpu_s, cpu)
        return max(0.05, 20 * (time.monotonic() - began))

    def _read(self, timeout: float) -> None:
        if not self.selector.get_map():  # all pipes are closed, the process lives on
            time.sleep(timeout)
            return
        for key, _ in self.selector.select(timeout):
            for _ in range(64):  # a flood must not keep us from looking at the clock
                try:
                    data = os.read(key.fd, 1 << 16)
                except BlockingIOError:
                    break
                if not data:
                    self.selector.unregister(key.fd)
                    break
                self.pipes[key.fd](data)

    def _take_message(self, data: bytes) -> None:
        arrival = time.monotonic() - self.start
        payloads = self.frames.feed(data)
        for payload in payloads if arrival <= self.limits.timeout_s else ():
            if len(self.outcome.messages) < KEPT:
                self.outcome.messages.append((arrival, payload))
            else:
                self.left_out += len(self.latest) == KEPT
                self.latest.append((arrival, payload))

    def _take_log(self, data: bytes) -> None:
        self.log += data
        if len(self.log) > 2 * LOG_BYTES:
            del self.log[:-LOG_BYTES]

    def _kill(self) -> None:
        self.tree.kill()
        if self.process.returncode is None:
            self._reap(0)

    def _reap(self, options: int) -> bool:
        """Collect the process if it has ended; its resources are those of all descendants that it waited for."""
        if self.process.returncode is not None:
            return True
        pid, status, usage = os.wait4(self.process.pid, options)
        if pid == 0:
            return False
        code = os.waitstatus_to_exitcode(status)
        self.process.returncode = code
        self.outcome.cpu_s = max(self.outcome.cpu_s, usage.ru_utime + usage.ru_stime)
        if sys.platform == "darwin":  # elsewhere this counts from the referee's own memory, before the process began
            self.outcome.peak_mib = max(self.outcome.peak_mib, usage.ru_maxrss / 2**20)
        if self.outcome.stop == "exit" and code != 0:
            how = f"killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit status {code}"
            self._stop("crash", how)
        return True


class _Tree:
    """A process and all its descendants, also those that have lost their parent since they were seen."""

    def __init__(self, pid: int) -> None:
        self.group = pid
        self.seen: dict[int, psutil.Process] = {}
        with contextlib.suppress(psutil.NoSuchProcess):
            self.seen[pid] = psutil.Process(pid)

    def _refresh(self) -> None:
        for process in list(self.seen.values()):
            try:
                found = process.children(recursive=True)
            except psutil.Error:
                self.seen.pop(process.pid, None)
                continue
            for child in found:
                self.seen.setdefault(child.pid, child)

    def usage(self) -> tuple[float, float]:
        """Bytes of memory and seconds of CPU of all processes that are alive."""
        self._refresh()
        memory = cpu = 0.0
        for process in list(self.seen.values()):
            with contextlib.suppress(psutil.Error):
                times = process.cpu_times()
                cpu += times.user + times.system + times.children_user + times.children_system
                memory += self._memory(process)
        return memory, cpu

    def _memory(self, process: psutil.Process) -> float:
        if len(self.seen) == 1:
            return float(peak_bytes(process.pid) or process.memory_info().rss)
        full = process.memory_full_info()  # forked processes share pages: count each page once
        return float(getattr(full, "pss", full.uss))

    def kill(self) -> None:
        """Kill everything, again until nothing new appears."""
        for _ in range(20):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.group, signal.SIGKILL)
            self._refresh()
            alive = [process for process in self.seen.values() if _alive(process)]
            if not alive:
                return
            for process in alive:
                with contextlib.suppress(psutil.Error):
                    process.kill()
            time.sleep(0.005)


def _alive(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False
