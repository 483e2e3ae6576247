"""Measuring the memory and CPU time of a changing set of processes, by a proc file system."""

from __future__ import annotations

import contextlib
import math
import os
import re
import time
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import NamedTuple

from shardmark.harness.sandbox.contract import Usage
from shardmark.harness.sandbox.memory import PAGE
from shardmark.harness.sandbox.meters.folders import filesystem_bytes

TICK_S = 1.0 / os.sysconf("SC_CLK_TCK")  # seconds of a clock tick, the unit of CPU time in ``/proc``
#: Time until memory is next measured exactly, in units of the CPU time of the last measurement: it costs at most 5 %.
COST_RATIO = 20
FILES_S = 0.1  # seconds that one search for open files may take; the next search continues with those left
#: Seconds that one exact measurement may take; processes that were not reached keep their last measurement.
EXACT_S = 0.5
PEAKS = 8  # number of processes, the oldest ones, whose own peak memory is read each time
File = tuple[int, int]  # a file: device and inode


@dataclass(frozen=True)
class State:
    """A process in ``/proc``: CPU seconds, those of children it has waited for, threads, resident bytes."""

    alive: bool
    cpu_s: float
    waited_cpu_s: float
    threads: int
    resident: int


class Proc:
    """A proc file system, given as an open folder; processes that have gone read as empty."""

    def __init__(self, folder: int) -> None:
        self.folder = folder

    def read(self, path: str) -> bytes:
        """Return a file's content; b"" if it cannot be read."""
        try:
            file = os.open(path, os.O_RDONLY, dir_fd=self.folder)
        except OSError:
            return b""
        parts = []
        with contextlib.suppress(OSError):
            while part := os.read(file, 1 << 16):
                parts.append(part)
        os.close(file)
        return b"".join(parts)

    def lines(self, path: str) -> Iterator[bytes]:
        """Yield a file's lines; none if it cannot be read."""
        with contextlib.suppress(OSError), open(os.open(path, os.O_RDONLY, dir_fd=self.folder), "rb") as lines:
            yield from lines

    def processes(self) -> Iterator[int]:
        """Yield all processes that it shows; endless while processes start faster than they are listed."""
        with os.scandir(self.folder) as entries:
            for entry in entries:
                if entry.name.isdigit():
                    yield int(entry.name)

    def children(self, pid: int) -> list[int]:
        """Return the children of all threads of a process."""
        lists = (self.read(f"{pid}/task/{thread}/children").split() for thread in self.list(f"{pid}/task"))
        return [int(child) for children in lists for child in children]

    def state(self, pid: int) -> State | None:
        """Return the state of a process, None once it has gone."""
        # The fields follow the name in brackets, which may itself contain brackets.
        words = self.read(f"{pid}/stat").rpartition(b")")[2].split()
        if not words:
            return None
        own, waited = sum(map(int, words[11:13])) * TICK_S, sum(map(int, words[13:15])) * TICK_S
        return State(words[0] not in (b"Z", b"X"), own, waited, int(words[17]), int(words[21]) * PAGE)

    def peak(self, pid: int) -> int:
        """Return the peak resident bytes of a process since it started its program."""
        return self._size(f"{pid}/status", b"VmHWM") or 0

    def proportional(self, pid: int) -> int | None:
        """Return resident bytes, each page divided by the number of processes sharing it (PSS); None if unreadable."""
        return self._size(f"{pid}/smaps_rollup", b"Pss")

    def _size(self, path: str, name: bytes) -> int | None:
        found = re.search(rb"^%s:\s+(\d+) kB$" % name, self.read(path), re.MULTILINE)
        return int(found[1]) * 1024 if found else None

    def proportional_without(self, pid: int, left_out: Callable[[File], bool], until: float = math.inf) -> int:
        """Return `proportional` without mapped pages of the files ``left_out``; private copies of them count.

        It sums the other mappings: between two measurements to be subtracted, a file could change hands. If the process
        has so many mappings that they are not read by ``until``, the files among the rest count.
        """
        size, skipped, part, skip = 0, 0, 0, False
        for line in self.lines(f"{pid}/smaps"):
            if line[:4] == b"Pss:":
                part = int(line.split()[1]) * 1024
                size, skipped = (size, skipped + part) if skip else (size + part, skipped)
            elif skip and line[:10] == b"Anonymous:":  # pages of a private mapping that the process has written to
                size += min(part, int(line.split()[1]) * 1024)
            elif header := re.match(rb"[0-9a-f]+-[0-9a-f]+ \S+ \S+ ([0-9a-f]+):([0-9a-f]+) (\d+)", line):
                if time.monotonic() > until:
                    return max(size, (self.proportional(pid) or 0) - skipped)
                skip = left_out((os.makedev(int(header[1], 16), int(header[2], 16)), int(header[3])))
        return size

    def memory_files(self, pid: int) -> Iterator[tuple[File, int] | None]:
        """Yield per open file of a process (file, bytes) if it is a nameless file in memory (memfd), else None."""
        for number in self.list(f"{pid}/fd"):
            found = None
            with contextlib.suppress(OSError):
                if os.readlink(f"{pid}/fd/{number}", dir_fd=self.folder).startswith("/memfd:"):
                    facts = os.stat(f"{pid}/fd/{number}", dir_fd=self.folder)
                    found = (facts.st_dev, facts.st_ino), facts.st_blocks * 512
            yield found

    def list(self, path: str) -> list[str]:
        """Return the names in a folder; none if it cannot be read."""
        with contextlib.suppress(OSError):
            folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY, dir_fd=self.folder)
            try:
                return os.listdir(folder)
            finally:
                os.close(folder)
        return []


class MemoryFiles:
    """The memfd files that processes hold open; a search through very many open files is spread over several calls."""

    def __init__(self, proc: Proc) -> None:
        self.proc = proc
        self.known: dict[File, int] = {}
        self.coming: dict[File, int] = {}
        self.search: Iterator[tuple[File, int] | None] | None = None

    def find(self, pids: Iterable[int]) -> dict[File, int]:
        """Return the bytes per file; if time runs out, files not reached keep the bytes of the last search."""
        until = time.monotonic() + FILES_S
        if self.search is None:
            self.search = chain.from_iterable(map(self.proc.memory_files, list(pids)))
        for found in self.search:
            if found:
                self.coming[found[0]] = found[1]
            if time.monotonic() > until:
                return self.known | self.coming
        self.known, self.coming, self.search = self.coming, {}, None
        return self.known


class OwnMemory(NamedTuple):
    """An exact measurement of a process: its proportional bytes without files, its resident bytes.

    ``among`` is the number of processes that were alive then.
    """

    size: int
    resident: int
    among: int


@dataclass
class ProcMeter:
    """Measures memory and CPU time of a changing set of processes; ``peak`` is the greatest memory so far, in bytes.

    ``members`` lists the processes, including those that have ended and were not waited for. ``shared`` are open
    folders of file systems in memory that count. ``waited`` returns the CPU seconds of processes that have ended and
    that others have waited for. If a parent ignores the end of its children, no one waits for them: the last time
    seen of each process that has gone is summed as well, and the greater sum counts.

    The sum of resident memory is cheap and never too small but counts shared pages once per process. The exact sum is
    measured if the cheap one exceeds the limit, else now and then. Processes that were not reached in time count with
    their last measurement and their growth since; a process that was never measured does not count yet. If there are
    more processes than at the time of a measurement, what was measured may now be shared with the new ones, and counts
    for proportionally less.
    """

    proc: Proc
    members: Callable[[], Iterable[int]]
    shared: tuple[int, ...] = ()
    waited: Callable[[], float] = float
    peak: float = 0.0
    current: float = 0.0
    next_exact: float = field(default=0.0, repr=False)  # time of `time.monotonic`
    own: dict[int, OwnMemory] = field(default_factory=dict, repr=False)  # last measurement per process, oldest first
    seen: dict[int, float] = field(default_factory=dict, repr=False)  # CPU seconds per process, without children
    gone_s: float = 0.0  # CPU seconds seen of processes that have gone

    def __post_init__(self) -> None:
        self.files = MemoryFiles(self.proc)
        self.devices = {os.fstat(folder).st_dev for folder in self.shared}

    def read(self, limit: float, most: int) -> Usage:
        """Measure usage, memory exactly if above ``limit`` bytes; of more than ``most`` processes only count them."""
        waited = self.waited()  # first, so that a process that ends meanwhile is not counted twice
        members = list(islice(self.members(), most + 1))
        if len(members) > most:
            return Usage(processes=len(members))
        states = {pid: state for pid in members if (state := self.proc.state(pid))}
        cpu_s = self._cpu_s(states, waited)
        alive = {pid: state for pid, state in states.items() if state.alive}
        return Usage(
            memory=self._memory(alive, limit),
            peak=max((self.proc.peak(pid) for pid in islice(alive, PEAKS)), default=0.0),
            cpu_s=cpu_s,
            processes=len(members),
            threads=sum(state.threads for state in alive.values()),
        )

    def cpu_s(self, most: int) -> float:
        """Return the CPU seconds of the first ``most`` processes and of all that have gone."""
        waited = self.waited()
        members = islice(self.members(), most)
        return self._cpu_s({pid: state for pid in members if (state := self.proc.state(pid))}, waited)

    def _cpu_s(self, states: dict[int, State], waited: float) -> float:
        now = {pid: state.cpu_s for pid, state in states.items()}
        # A process with less time than before is a new one with the same number.
        self.gone_s += sum(seen for pid, seen in self.seen.items() if now.get(pid, 0.0) < seen)
        self.seen = now
        recorded = sum(state.cpu_s + state.waited_cpu_s for state in states.values()) + waited
        return max(recorded, sum(now.values()) + self.gone_s)

    def _memory(self, alive: dict[int, State], limit: float) -> float:
        files = self.files.find(alive)
        in_files = sum(files.values()) + sum(map(filesystem_bytes, self.shared))
        bound = float(sum(state.resident for state in alive.values()) + in_files)
        if not alive or (len(alive) == 1 and not in_files) or bound <= self.peak:
            self.current = bound
        elif bound > limit or time.monotonic() >= self.next_exact:
            began = time.thread_time()
            self.current = self._exact(alive, files, in_files)
            self.next_exact = time.monotonic() + COST_RATIO * (time.thread_time() - began)
        self.peak = max(self.peak, self.current)
        return self.current

    def _exact(self, alive: dict[int, State], files: dict[File, int], in_files: int) -> float:
        """Measure processes until `EXACT_S` is over, new ones and then the oldest measurements first; sum all."""
        until = time.monotonic() + EXACT_S
        self.own = {pid: found for pid, found in self.own.items() if pid in alive}
        measured = set()
        for pid in [*(alive.keys() - self.own.keys()), *self.own]:
            self.own.pop(pid, None)
            self.own[pid] = OwnMemory(*self._own(pid, files, in_files, until), len(alive))
            measured.add(pid)
            if time.monotonic() > until:
                break
        states = {pid: state for pid in alive if (state := self.proc.state(pid)) and state.alive}
        return in_files + self._sum(states, measured, sum(1 for _ in self.members()))

    def _sum(self, states: Mapping[int, State], measured: Container[int], processes: int) -> float:
        """Sum the last measurements, now that there are ``processes``, corrected by what has changed since.

        The growth of a process that has just been ``measured`` does not count, as it may be shared; its
        shrinkage does, as another process may own those pages now.
        """
        total = 0.0
        for pid, state in states.items():
            if own := self.own.get(pid):
                grown = state.resident - own.resident
                part = own.size * min(1.0, own.among / max(1, processes))
                total += max(0.0, part + (min(0, grown) if pid in measured else grown))
        return total

    def _own(self, pid: int, files: dict[File, int], in_files: int, until: float) -> tuple[int, int]:
        """Return the proportional bytes of a process without files, and its resident bytes."""
        own, state = self.proc.proportional(pid), self.proc.state(pid)
        resident = state.resident if state and state.alive else 0
        if own is None:  # it has ended meanwhile, or may not be read
            return resident, resident
        if in_files:
            own = self.proc.proportional_without(pid, lambda file: file in files or file[0] in self.devices, until)
        return own, resident
