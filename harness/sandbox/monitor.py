"""The referee's eye on one run: its clock, the pipes it reads, the limits it holds the run to.

The clock is the watcher's own and starts before the run does: starting a solver and reading the instance count.
"""

from __future__ import annotations

import contextlib
import fcntl
import math
import os
import selectors
import signal
import time
from collections import deque
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Protocol

from harness.sandbox.contract import Cancelled, Limits, Outcome, Usage
from harness.sandbox.external_answer import AnswerParser
from harness.sandbox.protocol import FrameDecoder

LOG_BYTES = 16 * 1024
KEPT = 500  # messages kept from the beginning of a run, and as many from its end
POLL_S = 0.02  # between two questions whether a run has ended, where nothing tells
PIPE_S = 0.005  # the longest that one pipe is read without a look at the clock
PIPE_BYTES = 1 << 20  # of messages, for which a run need not wait

SHORTEST_S, LONGEST_S = 0.001, 0.05  # between two looks at what a run uses
FASTEST = 16 * 2**30  # bytes a second that a run can take, in huge pages and with several threads
THREADS = 4  # times as many as processes may be
LATE_S = 0.05  # after the time limit, until a run is killed whatever a look at it still does
SHARE = 4  # times the CPU time of a look, until the next one: a run that slows looks down cannot put them off
MOST_LOOKS = 2.0  # as long as the last one, that the next may take


class RunHandle(Protocol):
    """A run as a backend holds it.

    ``exited_at`` is the `time.monotonic` at which its first process was seen to have ended, if the exit status comes
    later; None before that, and if it does not. ``exit_fd`` is a file descriptor that becomes readable once the first
    process has ended; None if there is none.
    """

    exited_at: float | None
    exit_fd: int | None

    def ended(self) -> int | None:
        """Exit status of the run's first process, as `os.waitstatus_to_exitcode` gives it; None while it is alive."""

    def usage(self) -> Usage:
        """What all processes of the run use."""

    def kill_all(self) -> None:
        """Kill the processes of the run in the midst of a look, without waiting for them; `kill` follows."""

    def kill(self) -> Usage:
        """End all processes of the run, wait for them, and return what they used in all."""


class Pipes:
    """The pipes between a run and its watcher; the ends named ``channel``, ``stdout`` and ``stderr`` are the run's."""

    def __init__(self, *, external: bool) -> None:
        self.messages, self.channel = os.pipe()
        self.output, self.stdout = os.pipe()
        self.errors, self.stderr = os.pipe() if external else (self.output, self.stdout)
        with contextlib.suppress(OSError, AttributeError):  # where the system has no larger ones
            fcntl.fcntl(self.messages, fcntl.F_SETPIPE_SZ, PIPE_BYTES)

    def started(self) -> None:
        """Close the run's ends here, once the run has them."""
        for end in {self.channel, self.stdout, self.stderr}:
            os.close(end)

    def close(self) -> None:
        """Close the watcher's ends."""
        for end in {self.messages, self.output, self.errors}:
            os.close(end)


class Monitor:
    """One run under observation; ``control`` is a file descriptor that becomes readable when the run is called off."""

    def __init__(self, pipes: Pipes, limits: Limits, start: float, control: int, *, external: bool) -> None:
        self.start = start
        self.limits = limits
        self.outcome = Outcome()
        self.frames = FrameDecoder()
        self.log = bytearray()
        self.answer = AnswerParser(limits.timeout_s, self._take_log)
        self.latest: deque[tuple[float, bytes]] = deque(maxlen=KEPT)
        self.left_out = 0
        self.received = 0
        self.most = limits.output_mib * 2**20
        self.last_look = start, 0.0  # and the memory that it found
        self.exit_fd: int | None = None
        self.told = False  # whether the exit_fd will tell of the end
        self.last_stamp = math.inf  # what is read after the run's end was written before it
        self.killed_at = math.inf  # when the run was killed during a look at it
        self.pipes = pipes
        self.control = control
        self.selector = selectors.DefaultSelector()
        takers = {
            pipes.errors: self._take_log,
            pipes.output: self.answer.feed if external else self._take_log,
            pipes.messages: self._take_message,
        }
        for pipe, taker in takers.items():
            os.set_blocking(pipe, False)
            self.selector.register(pipe, selectors.EVENT_READ, taker)
        self.selector.register(control, selectors.EVENT_READ)

    def __enter__(self) -> Monitor:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.selector.close()
        self.pipes.close()

    def wait(self, run: RunHandle) -> Outcome:
        """Wait for the run's end or bring it about; raises Cancelled when the run is called off."""
        try:
            with interrupted_at(self.start + self.limits.timeout_s + LATE_S, lambda: self._kill_late(run)):
                self.outcome.wall_s = self.last_stamp = self._hold(run) - self.start
        finally:
            used = run.kill()
        self._read(0.0, math.inf)  # nobody is left to write more
        self.frames.close()
        self._account(used)
        return self._finish()

    def _kill_late(self, run: RunHandle) -> None:
        self.killed_at = time.monotonic()
        run.kill_all()

    def _hold(self, run: RunHandle) -> float:
        """Let the run go on until it ends or breaks a limit; the time at which it did."""
        end = self.start + self.limits.timeout_s
        next_look = self.start
        while (status := run.ended()) is None:
            now = time.monotonic()
            if now >= end and run.exited_at is None:
                self._stop("timeout", self._too_late)
                return min(now, self.killed_at)
            if now >= next_look or self.received > self.most:
                began = time.thread_time()
                used = run.usage()
                self._account(used)
                if self.outcome.stop != "exit":
                    return now
                next_look = self._next_look(time.thread_time() - began, used)
                if next_look + MOST_LOOKS * (time.monotonic() - now) > end:
                    next_look = math.inf  # what is reported at the end must be read, and stamped, when it comes
            self._wait(run, min(next_look, end))
        over = min(run.exited_at or time.monotonic(), self.killed_at)
        self._account(run.usage())
        if self.outcome.stop == "exit" and over > end:
            self._stop("timeout", self._too_late)
        elif self.outcome.stop == "exit" and status:
            self._stop("crash", f"killed by {named(-status)}" if status < 0 else f"ended with exit status {status}")
        return over

    @property
    def _too_late(self) -> str:
        return f"killed at the time limit of {self.limits.timeout_s:g} s"

    def _next_look(self, cost_s: float, used: Usage) -> float:
        """When to look again: before the limit on memory can be reached, often at first, at little cost.

        Whatever it costs, before a run that grows as it has grown since the last look has come halfway to the limit.
        """
        now = time.monotonic()
        left = self.limits.memory_mib * 2**20 - max(used.memory, used.peak)
        pause = min(LONGEST_S, left / FASTEST, now - self.start)
        before, memory = self.last_look
        self.last_look = now, used.memory
        halfway = left / 2 * (now - before) / max(1.0, used.memory - memory)
        return now + max(SHORTEST_S, min(max(pause, SHARE * cost_s), halfway))

    def _wait(self, run: RunHandle, until: float) -> None:
        """Read what comes until then, or until the run has ended."""
        if run.exit_fd is not None and self.exit_fd is None:
            self.exit_fd = run.exit_fd
            self.selector.register(run.exit_fd, selectors.EVENT_READ)
            self.told = True
        pause = max(0.0, until - time.monotonic())
        self._read(pause if self.told else min(POLL_S, max(0.001, pause)), PIPE_S)

    def _stop(self, stop: str, reason: str) -> None:
        self.outcome.stop, self.outcome.reason = stop, reason

    def _account(self, used: Usage) -> None:
        """Note what is used, and the first limit that it breaks."""
        outcome, limits = self.outcome, self.limits
        outcome.peak_mib = max(outcome.peak_mib, used.memory / 2**20, used.peak / 2**20)
        outcome.cpu_s = max(outcome.cpu_s, used.cpu_s)
        if used.unended:
            before = f"; before that it was {outcome.reason}" if outcome.reason else ""
            self._stop("error", f"the system could not end its processes{before}")
        if outcome.stop != "exit":
            return
        if used.out_of_memory or outcome.peak_mib > limits.memory_mib:
            self._stop("memory", limits.overused(outcome.peak_mib))
        elif outcome.cpu_s > limits.cpu_limit_s:
            self._stop("cpu", f"used {outcome.cpu_s:.1f} s of CPU time, the limit is {limits.cpu_limit_s:g} s")
        elif used.processes > limits.processes:
            self._stop("processes", f"had {used.processes} processes at once, the limit is {limits.processes}")
        elif used.threads > THREADS * limits.processes:
            self._stop("processes", f"had {used.threads} threads at once, the limit is {THREADS * limits.processes}")
        elif self.received + used.written > self.most:
            self._stop("output", f"wrote more than {limits.output_mib:g} MiB to its pipes and its folder")

    def _read(self, timeout: float, longest: float) -> None:
        """Wait for data, then read from each pipe what is there, for at most ``longest`` seconds."""
        for key, _ in self.selector.select(timeout):
            if key.fd == self.control:
                raise Cancelled
            if key.fd == self.exit_fd:
                self.selector.unregister(key.fd)
                self.told = False
                continue
            until = time.monotonic() + longest
            while time.monotonic() < until:  # a flood must not keep us from looking at the clock
                try:
                    data = os.read(key.fd, 1 << 16)
                except BlockingIOError:
                    break
                if not data:
                    self.selector.unregister(key.fd)
                    break
                self.received += len(data)
                key.data(data, min(time.monotonic() - self.start, self.last_stamp))

    def _take_message(self, data: bytes, arrival: float) -> None:
        payloads = self.frames.feed(data)
        for payload in payloads if arrival <= self.limits.timeout_s else ():
            if len(self.outcome.messages) < KEPT:
                self.outcome.messages.append((arrival, payload))
            else:
                self.left_out += len(self.latest) == KEPT
                self.latest.append((arrival, payload))

    def _take_log(self, data: bytes, _: float = 0.0) -> None:
        self.log += data
        if len(self.log) > 2 * LOG_BYTES:
            del self.log[:-LOG_BYTES]

    def _finish(self) -> Outcome:
        outcome = self.outcome
        if message := self.answer.close():
            outcome.messages.append(message)
        outcome.messages += self.latest
        if self.left_out:
            lost = f"the referee kept the first and the last {KEPT} messages, {self.left_out} between are lost"
            self.log += f"\n({lost})\n".encode()
        outcome.fault = self.frames.fault or self.answer.fault
        outcome.log = self.log[-LOG_BYTES:].decode(errors="replace")
        return outcome


@contextlib.contextmanager
def interrupted_at(moment: float, do: Callable[[], None]) -> Iterator[None]:
    """Unless it is over before, ``do`` something at a time of `time.monotonic`, in the midst of what is under way.

    Only the main thread can be interrupted. A thread of its own would not do: the forks of a supervisor must find none.
    """
    before = signal.signal(signal.SIGALRM, lambda *_: do())
    signal.setitimer(signal.ITIMER_REAL, max(SHORTEST_S, moment - time.monotonic()))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)


def named(number: int) -> str:
    """A signal's name, or its number where it has none."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
