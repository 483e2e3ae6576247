"""Measurements of processes: what they share counts once, whatever ends or is handed over meanwhile."""

from __future__ import annotations

import mmap
import os
import subprocess
import sys
import time
from collections.abc import Callable

import psutil
import pytest

from shardmark.harness.sandbox.memory import peak_bytes, resident_bytes
from shardmark.harness.sandbox.meters.processes import (
    File,
    MemoryFiles,
    Proc,
    ProcMeter,
    State,
)

MIB = 1 << 20


@pytest.fixture
def proc():
    folder = os.open("/proc", os.O_RDONLY)
    yield Proc(folder)
    os.close(folder)


@pytest.fixture
def child():
    """Fork processes that do something and then wait until the test is over."""
    pids = []

    def child(work=lambda: None):
        reader, writer = os.pipe()
        pid = os.fork()
        if pid == 0:
            kept = work()
            os.write(writer, b"x")
            time.sleep(60)
            os._exit(bool(kept))
        pids.append(pid)
        os.close(writer)
        os.read(reader, 1)
        os.close(reader)
        return pid

    yield child
    for pid in pids:
        os.kill(pid, 9)
        os.waitpid(pid, 0)


def test_a_state_agrees_with_what_psutil_finds(proc, child):
    pid = child(lambda: bytearray(b"x") * (30 * MIB))
    state, other = proc.state(pid), psutil.Process(pid)
    assert state.alive
    assert state.resident == pytest.approx(other.memory_info().rss, rel=0.05)
    assert state.cpu_s == pytest.approx(sum(other.cpu_times()[:2]), abs=0.02)
    assert proc.peak(pid) == peak_bytes(pid) >= 30 * MIB
    assert proc.proportional(pid) == pytest.approx(other.memory_full_info().pss, rel=0.05)


def test_ended_processes_read_as_empty(proc):
    gone = 2**30
    assert (proc.state(gone), proc.children(gone), proc.peak(gone), proc.proportional(gone)) == (None, [], 0, None)
    assert (list(proc.memory_files(gone)), proc.proportional_without(gone, bool)) == ([], 0)


def test_a_process_that_has_ended_is_not_alive(proc):
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    assert not proc.state(pid).alive
    os.waitpid(pid, 0)


def test_a_name_cannot_lie_about_the_state(proc, child):
    def rename():
        with open("/proc/self/comm", "w") as file:
            file.write("x) Z 1 2 3")

    assert proc.state(child(rename)).alive


def test_children_of_all_threads_are_found(proc, child):
    pid = child()
    assert pid in proc.children(os.getpid())
    assert os.getpid() in set(proc.processes())


def has_mapped(proc, files, size):
    """Return True if this process has mapped ``size`` bytes of files, as the difference of two measurements.

    Its other memory may change between them, as a thread runs or a child that shares it ends, so it is tried often.
    """
    return any(in_files(proc, files) == pytest.approx(size, abs=MIB / 2) for _ in range(20))


def in_files(proc, files):
    whole = proc.proportional_without(os.getpid(), lambda file: False)
    return whole - proc.proportional_without(os.getpid(), files.__contains__)


@pytest.fixture
def number():
    """A file in memory of 3 MiB."""
    file = os.memfd_create("file")
    os.write(file, b"x" * (3 * MIB))
    yield file
    os.close(file)


def test_files_in_memory_are_found_mapped_or_not(proc, number):
    facts = os.fstat(number)
    files = dict(filter(None, proc.memory_files(os.getpid())))
    assert files[facts.st_dev, facts.st_ino] == 3 * MIB
    assert has_mapped(proc, files, 0)
    with mmap.mmap(number, 3 * MIB) as content:
        assert content[::4096].count(b"x") == 3 * MIB // 4096
        assert has_mapped(proc, files, 3 * MIB)


def test_a_copy_of_a_file_in_memory_is_no_part_of_the_file(proc, number):
    files = dict(filter(None, proc.memory_files(os.getpid())))
    with mmap.mmap(number, 3 * MIB, mmap.MAP_PRIVATE) as content:
        assert content[::4096].count(b"x") == 3 * MIB // 4096
        assert has_mapped(proc, files, 3 * MIB)
        content[: 2 * MIB] = bytes(2 * MIB)
        assert has_mapped(proc, files, MIB)


def test_a_file_is_left_out_of_many_mappings_as_far_as_there_is_time(proc, number):
    files = dict(filter(None, proc.memory_files(os.getpid())))
    with mmap.mmap(number, 3 * MIB) as content:
        assert content[::4096].count(b"x") == 3 * MIB // 4096
        assert any(is_left_in_late(proc, files, 3 * MIB) for _ in range(20))


def is_left_in_late(proc, files, size):
    """Return True if ``size`` bytes of files count when there is no time to leave them out; see `has_mapped`."""
    late = proc.proportional_without(os.getpid(), files.__contains__, until=time.monotonic())
    whole, rest = proc.proportional(os.getpid()), proc.proportional_without(os.getpid(), files.__contains__)
    return late == pytest.approx(whole, abs=MIB / 2) and late - rest == pytest.approx(size, abs=MIB / 2)


def test_a_search_through_many_open_files_is_continued_by_the_next(proc, monkeypatch):
    monkeypatch.setattr("shardmark.harness.sandbox.meters.processes.FILES_S", -1.0)
    files = [os.memfd_create(str(size)) for size in range(1, 4)]
    for size, file in enumerate(files, 1):
        os.write(file, b"x" * (size * MIB))
    search, looks = MemoryFiles(proc), []
    while not looks or search.search is not None:
        looks.append(sum(search.find([os.getpid()]).values()))
    assert len(looks) > 3
    assert looks == sorted(looks)
    assert looks[-1] == 6 * MIB
    os.close(files.pop())
    while sum(search.find([os.getpid()]).values()) != 3 * MIB:
        assert len(looks) < 1000
        looks.append(0)
    for file in files:
        os.close(file)


@pytest.fixture
def sharing():
    """Four processes that share 64 MiB with a parent and are small otherwise, unlike forks of the test process."""
    program = """
import mmap, os, sys
shared = mmap.mmap(-1, 64 << 20)
shared.write(bytes(64 << 20))
for _ in range(4):
    if os.fork() == 0:
        sum(shared[:: mmap.PAGESIZE])
        os.write(1, b"%d\\n" % os.getpid())
        sys.stdin.read()
        os._exit(0)
sys.stdin.read()
"""
    command = [sys.executable, "-S", "-c", program]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as parent:
        yield [int(parent.stdout.readline()) for _ in range(4)]
        parent.stdin.close()


def test_without_time_for_all_processes_they_are_measured_in_turn(proc, sharing, monkeypatch):
    monkeypatch.setattr("shardmark.harness.sandbox.meters.processes.EXACT_S", -1.0)
    meter = ProcMeter(proc, lambda: iter(sharing))
    sums = [meter.read(10.0 * MIB, 100).memory for _ in range(8)]
    assert sums[0] < 50 * MIB  # one process
    assert 50 * MIB < sums[-1] < 150 * MIB


def test_shared_memory_counts_once(monkeypatch, proc, sharing):
    monkeypatch.setattr(
        "shardmark.harness.sandbox.meters.processes.EXACT_S", 60.0
    )  # this tests the sum, not its time limit
    meter = ProcMeter(proc, lambda: iter(sharing))
    used = meter.read(10.0 * MIB, 100)
    assert used.processes == 4
    assert 50 * MIB < used.memory < 150 * MIB
    assert used.memory == meter.peak


def test_an_irrelevant_exact_sum_is_not_measured(proc, child, monkeypatch):
    pids = [child(), child()]
    meter = ProcMeter(proc, lambda: iter(pids))
    used = meter.read(1e12, 100)
    monkeypatch.setattr(meter, "_exact", lambda *_: pytest.fail("it was"))
    meter.peak = 1e12
    assert meter.read(1e12, 100).memory > used.memory


@pytest.fixture
def played(proc, monkeypatch):
    """A meter of two simulated processes, 1 and 2, and their resident memory, which they do not share."""
    resident = {1: 60 * MIB, 2: 20 * MIB}
    monkeypatch.setattr(proc, "state", lambda pid: State(True, 0.0, 0.0, 1, resident[pid]))
    monkeypatch.setattr(proc, "proportional", resident.get)
    return ProcMeter(proc, lambda: iter([1, 2])), resident


def test_a_sum_beyond_a_limit_is_measured_each_time(played, monkeypatch):
    meter, resident = played
    monkeypatch.setattr(meter.proc, "proportional", {1: 40 * MIB, 2: 10 * MIB}.get)
    assert meter.read(70.0 * MIB, 10).memory == 50 * MIB
    meter.next_exact = float("inf")
    resident[1] += 15 * MIB
    assert meter.read(70.0 * MIB, 10).memory == 50 * MIB
    resident[1] += 10 * MIB
    monkeypatch.setattr(meter.proc, "proportional", {1: 65 * MIB, 2: 10 * MIB}.get)
    assert meter.read(70.0 * MIB, 10).memory == 75 * MIB


def test_memory_handed_over_during_a_measurement_counts_once(played, monkeypatch):
    meter, resident = played

    def passing(pid):
        if pid == 2:
            resident.update({1: 0, 2: 80 * MIB})
        return resident[pid]

    monkeypatch.setattr(meter.proc, "proportional", passing)
    assert meter.read(70.0 * MIB, 10).memory == 80 * MIB


def test_more_processes_than_the_limit_are_only_counted(proc):
    meter = ProcMeter(proc, lambda: iter(range(10**9)))
    assert meter.read(1.0, 50).processes == 51


def test_cpu_time_of_unwaited_processes_is_added_up(proc, monkeypatch):
    states = {1: State(True, 1.0, 0.0, 1, 0), 2: State(True, 2.0, 0.0, 1, 0)}
    monkeypatch.setattr(proc, "state", states.get)
    meter = ProcMeter(proc, lambda: iter(list(states)), waited=lambda: 0.5)
    assert meter.cpu_s(10) == 3.5
    del states[2]
    assert meter.cpu_s(10) == 3.0
    states[1] = State(True, 1.0, 2.25, 1, 0)  # it was waited for after all
    assert meter.cpu_s(10) == 3.75
    states[1], states[2] = (
        State(True, 2.0, 0.0, 1, 0),
        State(True, 0.25, 0.0, 1, 0),
    )  # the number belongs to another process now
    assert meter.cpu_s(10) == 4.25


def test_own_memory_is_measured():
    before = resident_bytes()
    hoard = bytearray(b"x") * (50 * MIB)
    assert resident_bytes() >= before + 45 * MIB
    assert peak_bytes() >= resident_bytes()
    del hoard


class Sharing:
    """A proc file system of processes that share 800 MiB and have no other memory."""

    def __init__(self, pids: list[int], each_measurement: Callable[[], None]) -> None:
        self.pids, self.each_measurement = pids, each_measurement

    def state(self, pid: int) -> State:
        return State(alive=True, cpu_s=0.1, waited_cpu_s=0.0, resident=800 * MIB, threads=1)

    def proportional(self, pid: int) -> int:
        self.each_measurement()
        return 800 * MIB // len(self.pids)

    def peak(self, pid: int) -> int:
        return 800 * MIB

    def memory_files(self, pid: int) -> list[tuple[File, int]]:
        return []


def test_forks_during_a_measurement_do_not_multiply_shared_memory():
    pids = [1, 2]
    meter = ProcMeter(Sharing(pids, lambda: pids.append(len(pids) + 1)), lambda: iter(pids))
    sums = [meter.read(1000.0 * MIB, 10_000).memory for _ in range(6)]
    assert len(pids) > 30
    assert 0 < max(sums) <= 1000 * MIB


def test_processes_without_a_measurement_do_not_count_against_a_run(monkeypatch):
    monkeypatch.setattr("shardmark.harness.sandbox.meters.processes.EXACT_S", -1.0)  # one measurement each time
    meter = ProcMeter(Sharing(list(range(100)), lambda: None), lambda: iter(range(100)))
    sums = [meter.read(1000.0 * MIB, 1000).memory for _ in range(120)]
    assert max(sums) <= 1000 * MIB
    assert sums[-1] == pytest.approx(800 * MIB, rel=0.01)


def test_cpu_time_of_a_process_that_ends_during_a_measurement_counts_once():
    ended = []
    proc = Sharing([7], lambda: None)
    proc.peak = lambda pid: ended.append(pid) or 0  # process 1 waits for it before the measurement ends
    meter = ProcMeter(proc, lambda: iter([7]), waited=lambda: 0.1 if ended else 0.0)
    assert meter.read(1000.0 * MIB, 10).cpu_s == pytest.approx(0.1)
