"""The monitor on simulated runs: time stamps, kept messages and output, and the enforcement of limits."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import threading
import time
from types import SimpleNamespace

import pytest

from shardmark.harness.sandbox import outside
from shardmark.harness.sandbox.contract import Cancelled, Limits, Usage
from shardmark.harness.sandbox.monitor import KEPT_MESSAGES, LATE_S, LONGEST_S, Monitor, Pipes
from shardmark.harness.sandbox.protocol import BEGUN, encode

LIMITS = Limits(timeout_s=5.0, memory_mib=100.0, processes=10, output_mib=1.0)
MIB = 1 << 20


class SimulatedRun:
    """A simulated run that ends with ``status`` at its ``last`` check; ``usages`` are its usage at each."""

    def __init__(self, usages=(), status=0, last=3, at_end=None, exit_fd=None):
        self.usages, self.status, self.left, self.killed = list(usages), status, last, 0
        self.at_end, self.exit_fd, self.exited_at = at_end or Usage(), exit_fd, None
        self.killed_all = threading.Event()

    def ended(self):
        self.left -= 1
        return self.status if self.left < 0 else None

    def usage(self):
        return self.usages.pop(0) if self.usages else Usage()

    def kill_all(self):
        self.killed_all.set()

    def finish(self):
        self.killed += 1
        return self.at_end


@pytest.fixture
def pipes():
    pipes = Pipes(external=False)
    yield pipes
    for end in (pipes.channel, pipes.stdout):
        os.close(end)


@pytest.fixture
def control():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, theirs


@pytest.fixture
def watch(pipes, control):
    """Monitor a simulated run to its end."""

    def watch(run, limits=LIMITS):
        with Monitor(pipes, limits, time.monotonic(), control[1].fileno(), external=False) as one:
            outcome = one.wait(run)
        assert run.killed == 1
        return outcome

    return watch


def test_a_long_measurement_does_not_delay_the_end(watch):
    class Slow(SimulatedRun):
        def usage(self):
            self.left = 0 if self.killed_all.wait(60) else 1000
            return Usage()

    run = Slow(status=-signal.SIGKILL, last=1000)
    outcome = watch(run, Limits(0.1, 100.0))
    assert run.killed_all.is_set()
    assert (outcome.stop, outcome.reason) == ("timeout", "killed at the time limit of 0.1 s")
    assert outcome.wall_s < 50


@pytest.mark.parametrize("begins", [True, False])
def test_the_first_message_tells_when_a_run_began_and_is_not_kept(watch, pipes, begins):
    assert encode("begun").endswith(BEGUN)
    os.write(pipes.channel, encode("begun") * begins + encode("bound", 1.0) + encode("begun") * begins)
    outcome = watch(SimulatedRun())
    assert [payload for _, payload in outcome.messages] == [b'["bound",1.0]']
    assert outcome.begun_s == (outcome.messages[0][0] if begins else None)


def test_the_next_usage_comes_before_growth_reaches_the_limit(pipes, control):
    with Monitor(pipes, LIMITS, time.monotonic(), control[1].fileno(), external=False) as one:
        one._next_usage(0.0, Usage(memory=10 * MIB))
        assert one._next_usage(60.0, Usage(memory=10 * MIB)) > time.monotonic() + 100
        assert one._next_usage(60.0, Usage(memory=50 * MIB)) < time.monotonic() + 50


@pytest.mark.parametrize(("last", "before"), [(1000, "killed at the time limit of 0.5 s"), (3, "")])
def test_reports_survive_a_run_that_cannot_be_ended(watch, pipes, last, before):
    os.write(pipes.channel, encode("bound", 1.0))
    outcome = watch(SimulatedRun(last=last, at_end=Usage(unended=True)), Limits(0.5, 100.0))
    assert outcome.stop == "error"
    reason = "the system could not end its processes"
    assert outcome.reason == (f"{reason}; before that it was {before}" if before else reason)
    assert len(outcome.messages) == 1


@pytest.mark.gate
def test_a_run_that_ends_in_time_is_not_killed(watch):
    run = SimulatedRun()
    assert watch(run, Limits(0.5, 100.0)).stop == "exit"
    assert not run.killed_all.wait(0.5 + 3 * LATE_S)


@pytest.mark.parametrize(
    ("used", "stop", "reason"),
    [
        (Usage(memory=101 * MIB), "memory", "used 101 MiB, the limit is 100 MiB"),
        (Usage(memory=50 * MIB, peak=102 * MIB), "memory", "used 102 MiB, the limit is 100 MiB"),
        (Usage(peak=100 * MIB, out_of_memory=True), "memory", "used 100 MiB, the limit is 100 MiB"),
        (Usage(cpu_s=6.5), "cpu", "used 6.5 s of CPU time, the limit is 6 s"),
        (Usage(processes=11), "processes", "had 11 processes at once, the limit is 10"),
        (Usage(processes=2, threads=41), "processes", "had 41 threads at once, the limit is 40"),
        (Usage(written=MIB + 1), "output", "wrote more than 1 MiB to its pipes and its folder"),
        (Usage(memory=100 * MIB, cpu_s=6.0, processes=10, threads=40, written=MIB), "exit", ""),
    ],
)
@pytest.mark.parametrize("at_end", [False, True], ids=["meanwhile", "at its end"])
def test_every_limit_is_enforced(watch, used, stop, reason, at_end):
    run = SimulatedRun(at_end=used) if at_end else SimulatedRun([used], last=1000 if stop != "exit" else 3)
    outcome = watch(run)
    assert (outcome.stop, outcome.reason) == (stop, reason)


@pytest.mark.parametrize(
    ("run", "stop", "reason"),
    [
        (SimulatedRun(status=0), "exit", ""),
        (SimulatedRun(status=7), "crash", "ended with exit status 7"),
        (SimulatedRun(status=-signal.SIGSEGV), "crash", "killed by SIGSEGV"),
        (SimulatedRun(status=-40), "crash", "killed by signal 40"),
        (
            SimulatedRun([Usage(), Usage(memory=200 * MIB)], status=-9, last=1),
            "memory",
            "used 200 MiB, the limit is 100 MiB",
        ),
    ],
)
def test_its_end_is_named(watch, run, stop, reason):
    outcome = watch(run)
    assert (outcome.stop, outcome.reason) == (stop, reason)


OUTER = "killed from outside for lack of memory: it used 36 MiB, the limit is 100 MiB"
UNSENT = "which neither the referee nor a limit of the run sent"


@pytest.mark.parametrize(
    ("used", "status", "kills", "stop", "reason"),
    [
        (Usage(peak=36 * MIB, out_of_memory=True), -9, 0, "killed", OUTER),
        (Usage(peak=36 * MIB, out_of_memory=True), 137, 0, "killed", OUTER),
        (Usage(peak=36 * MIB), -9, 1, "killed", OUTER),
        (Usage(peak=36 * MIB), 137, 1, "killed", OUTER),
        (Usage(peak=36 * MIB), 137, 0, "crash", "ended with exit status 137"),
        (Usage(peak=36 * MIB), 1, 1, "crash", "ended with exit status 1"),
        (Usage(peak=36 * MIB), -11, 1, "crash", "killed by SIGSEGV"),
        (Usage(peak=36 * MIB), 0, 1, "exit", ""),
        (Usage(peak=101 * MIB), -9, 1, "memory", "used 101 MiB, the limit is 100 MiB"),
        (Usage(), -9, 0, "killed", f"killed by SIGKILL, {UNSENT}"),
        (Usage(), -15, 0, "killed", f"killed by SIGTERM, {UNSENT}"),
        (Usage(), -24, 0, "crash", "killed by SIGXCPU"),
    ],
)
def test_an_end_from_outside_is_told_from_the_run_s_own(watch, monkeypatch, used, status, kills, stop, reason):
    counts = iter([7, 7 + kills])
    monkeypatch.setattr(outside, "oom_kills", lambda: next(counts))
    outcome = watch(SimulatedRun(status=status, at_end=used))
    assert (outcome.stop, outcome.reason, outcome.peak_mib) == (stop, reason, used.peak / MIB)


def test_an_outer_limit_on_cpu_time_is_not_the_run_s(watch, monkeypatch):
    monkeypatch.setattr(outside, "cpu_limit", lambda: 60)
    outcome = watch(SimulatedRun(status=-signal.SIGXCPU))
    assert outcome.stop == "killed"
    assert outcome.reason.endswith("60 s of CPU time for every process here (ulimit -t)")


def test_a_run_whose_machine_stood_still_has_not_had_its_time(watch, monkeypatch):
    monkeypatch.setattr(outside, "STALL_S", 0.05)
    monkeypatch.setattr(Monitor, "_read", lambda *_: time.sleep(0.15))
    outcome = watch(SimulatedRun(last=1000), Limits(0.2, 100.0))
    assert outcome.stop == "killed"
    assert re.fullmatch(r"the machine was suspended for 0\.\d s before its time limit of 0\.2 s", outcome.reason)


def test_the_system_s_counter_of_kills_is_read_and_may_be_missing(monkeypatch, tmp_path):
    assert outside.oom_kills() >= 0
    monkeypatch.setattr(outside, "COUNTERS", tmp_path / "vmstat")
    assert outside.oom_kills() == 0
    outside.COUNTERS.write_text("pswpin 3\noom_kill 92\noom_kill_total 5\n")
    assert outside.oom_kills() == 92


def test_peaks_and_times_never_fall(watch):
    usages = [Usage(memory=30 * MIB, cpu_s=0.5), Usage(memory=10 * MIB, peak=40 * MIB, cpu_s=0.7)]
    outcome = watch(SimulatedRun(usages, last=50, at_end=Usage(peak=20 * MIB, cpu_s=0.6)))
    assert (outcome.peak_mib, outcome.cpu_s) == (40, 0.7)


def test_a_run_is_stopped_at_its_time_limit(watch):
    outcome = watch(SimulatedRun(last=10**9), Limits(0.2, 100.0))
    assert (outcome.stop, outcome.reason) == ("timeout", "killed at the time limit of 0.2 s")
    assert 0.2 <= outcome.wall_s < 20


def test_a_run_that_ended_after_its_time_limit_timed_out(watch):
    class Late(SimulatedRun):
        def ended(self):
            time.sleep(0.3)
            return 0

    assert watch(Late(), Limits(0.2, 100.0)).stop == "timeout"


def test_exit_fd_wakes_the_monitor_at_once(watch):
    reader, writer = os.pipe()
    os.write(writer, b"x")
    began = time.monotonic()
    outcome = watch(SimulatedRun(last=1, exit_fd=reader), Limits(20.0, 10**6))
    assert outcome.stop == "exit"
    assert time.monotonic() - began < 5
    os.close(reader)
    os.close(writer)


def test_cancelling_ends_the_run(watch, control):
    run = SimulatedRun(last=10**9)
    control[0].close()
    with pytest.raises(Cancelled):
        watch(run)
    assert run.killed == 1


def test_the_first_and_the_last_messages_are_kept(watch, pipes):
    kept = KEPT_MESSAGES
    os.write(pipes.channel, b"".join(encode("bound", i) for i in range(3 * kept)))
    outcome = watch(SimulatedRun())
    assert [json.loads(payload)[1] for _, payload in outcome.messages] == [*range(kept), *range(2 * kept, 3 * kept)]
    assert outcome.log.endswith(
        f" the first {kept} messages and the last {kept} of each kind, and dropped {kept} in between)\n"
    )


def test_a_flood_of_bounds_displaces_no_solution_and_no_word(watch, pipes):
    kept = KEPT_MESSAGES
    words = [encode("solution", [0])] * kept + [encode("solution", [1]), encode("declined", "")]
    os.write(pipes.channel, b"".join(words + [encode("bound", i) for i in range(kept + 7)]))
    rest = [json.loads(payload) for _, payload in watch(SimulatedRun()).messages[kept:]]
    assert rest == [["solution", [1]], ["declined", ""], *(["bound", i] for i in range(7, kept + 7))]


def test_messages_are_stamped_when_they_arrive_and_half_a_message_is_a_fault(watch, pipes):
    os.write(pipes.channel, encode("solution", [1]) + encode("bound", 2)[:-1])
    outcome = watch(SimulatedRun())
    ((arrival, payload),) = outcome.messages
    assert json.loads(payload) == ["solution", [1]]
    assert 0 < arrival <= outcome.wall_s
    assert outcome.fault == "stopped in the middle of a message"


def test_the_end_of_the_output_is_kept(watch, pipes):
    os.write(pipes.stdout, b"a" * 40_000 + b"\xffend")
    outcome = watch(SimulatedRun(last=20))
    assert outcome.log.endswith("a\ufffdend")
    assert len(outcome.log) < 20_000


def test_measurements_become_rare_but_frequent_near_the_limit(pipes, control, monkeypatch):
    now = 100.0
    monkeypatch.setattr("shardmark.harness.sandbox.monitor.time", SimpleNamespace(monotonic=lambda: now))
    limits, number = Limits(60.0, 10_000.0), control[1].fileno()

    def pause(one, used=None, cost_s=0.0):
        nonlocal now
        now += 1.0
        return one._next_usage(cost_s, used or Usage()) - now

    with Monitor(pipes, limits, now - 30.0, number, external=False) as one:
        assert pause(one) == pytest.approx(LONGEST_S)
        assert pause(one, Usage(memory=9_990 * MIB)) < 0.01
        assert pause(one, cost_s=1.0) > 2
    others = Pipes(external=True)
    others.close_run_ends()
    with Monitor(others, limits, now + 1.0 - LONGEST_S / 2, number, external=False) as one:
        assert pause(one) == pytest.approx(LONGEST_S / 2)
