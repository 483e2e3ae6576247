"""The monitor of one run: it keeps the clock, reads the pipes and enforces the limits.

The clock starts before the run does, so starting the solver and reading the instance count.
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
from collections.abc import Callable, Iterator, Mapping
from itertools import chain
from types import TracebackType
from typing import Protocol

from shardmark.harness.sandbox import outside
from shardmark.harness.sandbox.contract import KILLED, Cancelled, Limits, Outcome, Usage
from shardmark.harness.sandbox.external_output import OutputParser
from shardmark.harness.sandbox.link import Relay
from shardmark.harness.sandbox.protocol import BEGUN, FrameDecoder, kind_of

LOG_BYTES = 16 * 1024  # bytes of the log that are kept, those at its end
KEPT_MESSAGES = 500  # messages kept from the beginning of a run, and as many solutions, bounds and others from its end
POLL_S = 0.02  # seconds between two checks for the end of a run that has no ``exit_fd``
PIPE_S = 0.005  # longest time in seconds that one pipe is read without checking the clock
PIPE_BYTES = 1 << 20  # size in bytes of the message pipe: a run need not wait for the monitor until it is full
SHORTEST_S = 0.001  # shortest time in seconds between two measurements of a run's usage
LONGEST_S = 0.05  # longest time in seconds between two measurements, unless they are costly
FASTEST = 16 * 2**30  # fastest growth of a run's memory in bytes per second, with huge pages and several threads
THREADS = 4  # threads that a run may have per process that it may have
LATE_S = 0.05  # seconds after the time limit at which a run is killed even in the middle of a measurement
#: Time until the next measurement in units of the CPU time of the last one, so that measuring costs at most a fifth.
COST_RATIO = 4
GROWTH_RATIO = 2.0  # duration that the next measurement may have, in units of the last one's


class RunHandle(Protocol):
    """A run as its backend holds it.

    ``exited_at`` is the `time.monotonic` at which its first process was seen to have ended, if the exit status becomes
    known later; None before that, and if it does not. ``exit_fd`` is a file descriptor that becomes readable once the
    first process has ended; None if there is none. ``enforced`` is that of `Outcome`.
    """

    enforced: Mapping[str, str]
    exited_at: float | None
    exit_fd: int | None

    def ended(self) -> int | None:
        """Return the exit status of the first process as `os.waitstatus_to_exitcode` does; None while it is alive."""

    def usage(self) -> Usage:
        """Measure the usage of all processes."""

    def kill_all(self) -> None:
        """Kill all processes without waiting for them, possibly in the middle of a measurement; `finish` follows."""

    def finish(self) -> Usage:
        """Kill all processes, wait for them, release what the run held and return its total usage."""


class Pipes:
    """The pipes between a run and its monitor; ``channel``, ``stdout`` and ``stderr`` are the run's ends."""

    def __init__(self, *, external: bool) -> None:
        self.messages, self.channel = os.pipe()
        self.output, self.stdout = os.pipe()
        self.errors, self.stderr = os.pipe() if external else (self.output, self.stdout)
        with contextlib.suppress(OSError):  # the user has too many large pipes
            fcntl.fcntl(self.messages, fcntl.F_SETPIPE_SZ, PIPE_BYTES)

    def close_run_ends(self) -> None:
        """Close the run's ends in this process, once the run has them."""
        for end in {self.channel, self.stdout, self.stderr}:
            os.close(end)

    def close(self) -> None:
        """Close the monitor's ends."""
        for end in {self.messages, self.output, self.errors}:
            os.close(end)


class Monitor:
    """Monitors one run; ``control`` is a file descriptor that becomes readable when the run is cancelled.

    With a ``relay``, ``control`` is its socket: the client gets news of the run on it, and may ask to end the run.
    """

    def __init__(
        self, pipes: Pipes, limits: Limits, start: float, control: int, *, external: bool, relay: Relay | None = None
    ) -> None:
        self.start, self.limits, self.pipes, self.control, self.relay = start, limits, pipes, control, relay
        self.outcome = Outcome(begun_s=0.0 if external else None)
        self.frames = FrameDecoder()
        self.log = bytearray()
        self.printed = OutputParser(limits.timeout_s, self._keep_message, self._take_log)
        self.latest: dict[bytes, deque[tuple[float, bytes]]] = {}  # by kind: no flood of bounds displaces a solution
        self.left_out = self.received = 0
        self.output_limit = limits.output_mib * 2**20
        self.last_usage = start, 0.0  # time and memory of the last measurement
        self.exit_fd: int | None = None
        self.waits_for_exit_fd = False  # exit_fd is registered and has not yet become readable
        self.last_stamp = math.inf  # data read after the end of the run was written before it
        self.killed_at = math.inf  # time of a kill during a measurement
        self.status = 0  # exit status of a run that ended by itself, or was ended from outside
        self.oom_kills = outside.oom_kills()  # before the run
        self.stalled_s = 0.0  # seconds that the monitor woke late, as it was stopped itself
        self.selector = selectors.DefaultSelector()
        takers = {
            pipes.errors: self._take_log,
            pipes.output: self.printed.feed if external else self._take_log,
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
        """Wait until the run ends or end it at a limit; raise Cancelled if it is cancelled."""
        try:
            with interrupted_at(self.start + self.limits.timeout_s + LATE_S, lambda: self._kill_late(run)):
                self.outcome.wall_s = self.last_stamp = self._watch(run) - self.start
        finally:
            used = run.finish()
        self._read(0.0, math.inf)  # no process is left to write more
        self.frames.close()
        self._account(used)
        if self.outcome.stop == "exit" and self.status:
            self._name_end(self.status)
        if self.relay is not None:
            self.relay.finish()
        return self._complete()

    def _kill_late(self, run: RunHandle) -> None:
        self.killed_at = time.monotonic()
        run.kill_all()

    def _watch(self, run: RunHandle) -> float:
        """Watch the run until it ends or breaks a limit; return the time of that."""
        end = self.start + self.limits.timeout_s
        next_usage = self.start
        while (status := run.ended()) is None:
            now = time.monotonic()
            if now >= end and run.exited_at is None:
                self._time_out()
                return min(now, self.killed_at)
            if now >= next_usage or self.received > self.output_limit:
                began = time.thread_time()
                used = run.usage()
                self._account(used)
                if self.outcome.stop != "exit":
                    return now
                next_usage = self._next_usage(time.thread_time() - began, used)
                if next_usage + GROWTH_RATIO * (time.monotonic() - now) > end:
                    next_usage = math.inf  # no measurement may delay reading, and so stamping, the last messages
            self._wait_until(run, min(next_usage, end))
            if self.outcome.stop == "halted":
                return time.monotonic()
        ended = min(run.exited_at or time.monotonic(), self.killed_at)
        self._account(run.usage())
        if self.outcome.stop == "exit" and ended > end:
            self._time_out()
        self.status = status
        return ended

    def _time_out(self) -> None:
        if self.stalled_s:
            self._stop(KILLED, outside.stalled(self.stalled_s, self.limits))
        else:
            self._stop("timeout", f"killed at the time limit of {self.limits.timeout_s:g} s")

    def _name_end(self, status: int) -> None:
        """Tell an end from outside from a crash, once all usage is known: the run has broken no limit."""
        kills = outside.oom_kills() - self.oom_kills
        if reason := outside.reason(status, self.limits, self.outcome.peak_mib, kills):
            self._stop(KILLED, reason)
        else:
            self._stop(
                "crash", f"killed by {signal_name(-status)}" if status < 0 else f"ended with exit status {status}"
            )

    def _next_usage(self, cost_s: float, used: Usage) -> float:
        """Return the time of the next measurement: before the memory limit can be reached, soon at first, cheaply.

        Whatever it costs, it comes before a run that keeps growing at its last rate is halfway to the limit.
        """
        now = time.monotonic()
        left = self.limits.memory_mib * 2**20 - max(used.memory, used.peak)
        pause = min(LONGEST_S, left / FASTEST, now - self.start)
        before, memory = self.last_usage
        self.last_usage = now, used.memory
        halfway = left / 2 * (now - before) / max(1.0, used.memory - memory)
        return now + max(SHORTEST_S, min(max(pause, COST_RATIO * cost_s), halfway))

    def _wait_until(self, run: RunHandle, until: float) -> None:
        """Read messages and output until the given time, or until the run ends."""
        if run.exit_fd is not None and self.exit_fd is None:
            self.exit_fd = run.exit_fd
            self.selector.register(run.exit_fd, selectors.EVENT_READ)
            self.waits_for_exit_fd = True
        due = max(until, time.monotonic())
        pause = due - time.monotonic()
        self._read(pause if self.waits_for_exit_fd else min(POLL_S, max(0.001, pause)), PIPE_S)
        if (late := time.monotonic() - due) > outside.STALL_S:
            self.stalled_s += late

    def _stop(self, stop: str, reason: str) -> None:
        self.outcome.stop, self.outcome.reason = stop, reason

    def _account(self, used: Usage) -> None:
        """Record usage, and the first limit that it breaks."""
        outcome, limits = self.outcome, self.limits
        outcome.peak_mib = max(outcome.peak_mib, used.memory / 2**20, used.peak / 2**20)
        outcome.cpu_s = max(outcome.cpu_s, used.cpu_s)
        if used.unended:
            before = f"; before that it was {outcome.reason}" if outcome.reason else ""
            self._stop("error", f"the system could not end its processes{before}")
        if outcome.stop != "exit":
            return
        if used.out_of_memory and outcome.peak_mib < limits.memory_mib:
            self._stop(KILLED, outside.out_of_memory(limits, outcome.peak_mib))
        elif used.out_of_memory or outcome.peak_mib > limits.memory_mib:
            self._stop("memory", limits.memory_reason(outcome.peak_mib))
        elif outcome.cpu_s > limits.cpu_limit_s:
            self._stop("cpu", f"used {outcome.cpu_s:.1f} s of CPU time, the limit is {limits.cpu_limit_s:g} s")
        elif used.processes > limits.processes:
            self._stop("processes", f"had {used.processes} processes at once, the limit is {limits.processes}")
        elif used.threads > THREADS * limits.processes:
            self._stop("processes", f"had {used.threads} threads at once, the limit is {THREADS * limits.processes}")
        elif self.received + used.written > self.output_limit:
            self._stop("output", f"wrote more than {limits.output_mib:g} MiB to its pipes and its folder")

    def _read(self, timeout: float, longest: float) -> None:
        """Wait for data for at most ``timeout`` seconds, then read each pipe for at most ``longest`` seconds."""
        for key, events in self.selector.select(timeout):
            if key.fd == self.control:
                self._heed_client(events)
                continue
            if key.fd == self.exit_fd:
                self.selector.unregister(key.fd)
                self.waits_for_exit_fd = False
                continue
            until = time.monotonic() + longest
            while time.monotonic() < until:  # a flood of data must not keep the monitor from its clock
                try:
                    data = os.read(key.fd, 1 << 16)
                except BlockingIOError:
                    break
                if not data:
                    self.selector.unregister(key.fd)
                    break
                self.received += len(data)
                key.data(data, min(time.monotonic() - self.start, self.last_stamp))

    def _heed_client(self, events: int) -> None:
        """Take a request of the client and send it news; raise Cancelled if it has gone."""
        if self.relay is None:
            raise Cancelled
        under_way = self.outcome.stop == "exit" and self.last_stamp == math.inf
        if events & selectors.EVENT_READ and (reason := self.relay.request()) and under_way:
            self._stop("halted", reason)
        self._send_news()

    def _send_news(self) -> None:
        """Send what the client waits for, and watch for room in its socket if there is none."""
        if self.relay is not None:
            self.relay.flush()
            write = selectors.EVENT_WRITE if self.relay.waiting else 0
            self.selector.modify(self.control, selectors.EVENT_READ | write)

    def _take_message(self, data: bytes, arrival: float) -> None:
        for payload in self.frames.feed(data):
            if payload != BEGUN:
                self._keep_message(arrival, payload)
            elif self.outcome.begun_s is None:
                self.outcome.begun_s = arrival

    def _keep_message(self, arrival: float, payload: bytes) -> None:
        if arrival > self.limits.timeout_s:
            return
        if self.relay is not None:
            self.relay.offer(arrival, payload)
            self._send_news()
        if len(self.outcome.messages) < KEPT_MESSAGES:
            self.outcome.messages.append((arrival, payload))
        else:
            latest = self.latest.setdefault(kind_of(payload), deque(maxlen=KEPT_MESSAGES))
            self.left_out += len(latest) == KEPT_MESSAGES
            latest.append((arrival, payload))

    def _take_log(self, data: bytes, _: float = 0.0) -> None:
        self.log += data
        if len(self.log) > 2 * LOG_BYTES:
            del self.log[:-LOG_BYTES]

    def _complete(self) -> Outcome:
        outcome = self.outcome
        answer = self.printed.close()
        outcome.messages += chain(*self.latest.values(), [answer] if answer else [])
        outcome.messages.sort(key=lambda message: message[0])  # the answer may have come before the last report
        if self.left_out:
            kept = f"the referee kept the first {KEPT_MESSAGES} messages and the last {KEPT_MESSAGES} of each kind"
            self.log += f"\n({kept}, and dropped {self.left_out} in between)\n".encode()
        outcome.fault = self.frames.fault or self.printed.fault
        outcome.log = self.log[-LOG_BYTES:].decode(errors="replace")
        return outcome


@contextlib.contextmanager
def interrupted_at(moment: float, action: Callable[[], None]) -> Iterator[None]:
    """Call ``action`` at a time of `time.monotonic`, interrupting the body, unless the body ends before.

    Only the main thread can be interrupted. No further thread is started, as a supervisor that forks must not have one.
    """
    before = signal.signal(signal.SIGALRM, lambda *_: action())
    signal.setitimer(signal.ITIMER_REAL, max(SHORTEST_S, moment - time.monotonic()))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)


def signal_name(number: int) -> str:
    """Return a signal's name, or its number if it has none."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
