"""CPU time of process trees, by a counter that children inherit."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator

import pytest

from shardmark.harness.sandbox.meters import cpu_clock
from shardmark.harness.sandbox.meters.cpu_clock import TreeClock, counter


@pytest.fixture
def clock() -> Iterator[TreeClock]:
    """The CPU time of children of this process from here on."""
    clock = TreeClock.begin()
    if not clock.files:
        pytest.skip("the system grants no performance counter")
    yield clock
    clock.close()


def burn(seconds: float) -> None:
    """Use CPU time; a forked child begins at 0."""
    while time.process_time() < seconds:
        pass


def child(seconds: float) -> int:
    """Start a child that uses CPU time and ends."""
    pid = os.fork()
    if pid == 0:
        burn(seconds)
        os._exit(0)
    return pid


def ended(pid: int) -> bool:
    """Return True if a child has ended without being waited for."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def test_children_that_nobody_waits_for_count(clock: TreeClock) -> None:
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        for _ in range(20):
            pid = child(0.01)
            while not ended(pid):
                time.sleep(0.001)
    finally:
        signal.signal(signal.SIGCHLD, before)
    assert clock.read() >= 0.18


@pytest.mark.gate
def test_the_living_count_and_this_process_does_not(clock: TreeClock) -> None:
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        burn(0.1)
        os.write(writer, b"x")
        time.sleep(60)
    os.read(reader, 1)
    burn(time.process_time() + 0.5)
    alive = clock.read()
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    os.close(reader)
    os.close(writer)
    assert 0.09 <= alive <= clock.read() < 0.5


def test_grandchildren_count_after_their_parent_has_ended(clock: TreeClock) -> None:
    reader, writer = os.pipe()
    if os.fork() == 0:
        child(0.1)
        os._exit(0)
    os.wait()
    os.close(writer)
    os.read(reader, 1)  # until the grandchild has ended
    os.close(reader)
    assert clock.read() >= 0.09


def test_without_a_counter_there_is_no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: "vax")
    clock = TreeClock.begin()
    os.waitpid(child(0.01), 0)
    assert clock.read() == 0.0
    clock.close()


def test_a_counter_that_is_refused_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu_clock, "ATTRIBUTES", cpu_clock.struct.Struct("=IIQQQQQ8x"))
    assert counter(inherit=True) is None
