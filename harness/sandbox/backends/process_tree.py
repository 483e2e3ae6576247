"""The processes of a run: who they are, what memory and CPU time they use, and their end."""

from __future__ import annotations

import contextlib
import errno
import math
import os
import re
import resource
import signal
import stat
import sys
import time
from collections import deque
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain, count, islice
from typing import NamedTuple, Protocol
from uuid import uuid4

import psutil

from harness.sandbox.contract import Usage
from harness.sandbox.memory import PAGE, largest_bytes

TICK_S = 1.0 / os.sysconf("SC_CLK_TCK")
PAUSE = 20  # times the CPU time of a thorough look at memory, until the next one
NEAR = 4  # the same where resident memory is beyond the limit
LOOK_S = 0.1  # that a look at open files may take; the next looks go on with what is left
EXACT_S = 0.5  # that an exact sum may take, also on a busy machine; what is left counts as it did, and what has grown
FEW = 8  # processes whose own peaks are looked at each time, those that began first
File = tuple[int, int]  # device and number


@dataclass(frozen=True)
class State:
    """A process in ``/proc``: is it alive, CPU time, that of children it has waited for, threads, resident bytes."""

    alive: bool
    cpu_s: float
    waited_cpu_s: float
    threads: int
    resident: int


class Proc:
    """A proc file system, an open folder; what has gone in the meantime reads as nothing."""

    def __init__(self, folder: int) -> None:
        self.folder = folder

    def read(self, path: str) -> bytes:
        """A file's content; b"" if it cannot be read."""
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
        """A file's lines, read a few at a time; none if it cannot be read."""
        with contextlib.suppress(OSError), open(os.open(path, os.O_RDONLY, dir_fd=self.folder), "rb") as lines:
            yield from lines

    def processes(self) -> Iterator[int]:
        """All processes that it shows; without end while new ones come faster than they are listed."""
        with os.scandir(self.folder) as entries:
            for entry in entries:
                if entry.name.isdigit():
                    yield int(entry.name)

    def children(self, pid: int) -> list[int]:
        """Children of all threads of a process."""
        return [int(child) for thread in self.list(f"{pid}/task") for child in self._children(pid, thread)]

    def _children(self, pid: int, thread: str) -> list[bytes]:
        return self.read(f"{pid}/task/{thread}/children").split()

    def state(self, pid: int) -> State | None:
        """The state of a process, None once it has gone. The fields follow its name, which may hold anything."""
        words = self.read(f"{pid}/stat").rpartition(b")")[2].split()
        if not words:
            return None
        own, waited = sum(map(int, words[11:13])) * TICK_S, sum(map(int, words[13:15])) * TICK_S
        return State(words[0] not in (b"Z", b"X"), own, waited, int(words[17]), int(words[21]) * PAGE)

    def peak(self, pid: int) -> int:
        """Greatest resident bytes of a process since it began its program."""
        found = re.search(rb"^VmHWM:\s+(\d+) kB$", self.read(f"{pid}/status"), re.MULTILINE)
        return int(found[1]) * 1024 if found else 0

    def proportional(self, pid: int) -> int | None:
        """Resident bytes of a process, shared pages divided among those who share them; None if it may not be read."""
        found = re.search(rb"^Pss:\s+(\d+) kB$", self.read(f"{pid}/smaps_rollup"), re.MULTILINE)
        return int(found[1]) * 1024 if found else None

    def beside(self, pid: int, of: Callable[[File], bool], until: float = math.inf) -> int:
        """What `proportional` is without certain files, but with the copies of their pages that are its own.

        It is the sum over the other mappings, not a difference of two looks, between which a file may change hands.
        Of a process with very many mappings only those files are found that are read until a time of `time.monotonic`.
        """
        size, left_out, part, counts = 0, 0, 0, False
        for line in self.lines(f"{pid}/smaps"):
            if line[:4] == b"Pss:":
                part = int(line.split()[1]) * 1024
                size, left_out = (size, left_out + part) if counts else (size + part, left_out)
            elif counts and line[:10] == b"Anonymous:":  # pages of a private mapping that it has written to
                size += min(part, int(line.split()[1]) * 1024)
            elif header := re.match(rb"[0-9a-f]+-[0-9a-f]+ \S+ \S+ ([0-9a-f]+):([0-9a-f]+) (\d+)", line):
                if time.monotonic() > until:
                    return max(size, (self.proportional(pid) or 0) - left_out)
                counts = of((os.makedev(int(header[1], 16), int(header[2], 16)), int(header[3])))
        return size

    def memory_files(self, pid: int) -> Iterator[tuple[File, int] | None]:
        """Files in memory without a name that a process holds open, and the bytes of each; None for each other."""
        for number in self.list(f"{pid}/fd"):
            found = None
            with contextlib.suppress(OSError):
                if os.readlink(f"{pid}/fd/{number}", dir_fd=self.folder).startswith("/memfd:"):
                    facts = os.stat(f"{pid}/fd/{number}", dir_fd=self.folder)
                    found = (facts.st_dev, facts.st_ino), facts.st_blocks * 512
            yield found

    def list(self, path: str) -> list[str]:
        """Names in a folder."""
        try:
            folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY, dir_fd=self.folder)
        except OSError:
            return []
        try:
            return os.listdir(folder)
        except OSError:
            return []
        finally:
            os.close(folder)


def filesystem_bytes(folder: int) -> int:
    """Bytes that the files of a whole file system take, of which ``folder`` is open."""
    facts = os.fstatvfs(folder)
    return (facts.f_blocks - facts.f_bfree) * facts.f_frsize


class Meter(Protocol):
    """What adds up the use of a changing set of processes; ``peak`` is the greatest memory so far.

    Processes that end while they are counted count, and so do those that have ended and that nobody has waited for.
    """

    peak: float

    def read(self, limit: float, most: int) -> Usage:
        """What they use now; more than ``limit`` bytes is told exactly, more than ``most`` processes only as such."""


class MemoryFiles:
    """The files in memory that processes hold open, looked for over several looks where there are very many."""

    def __init__(self, proc: Proc) -> None:
        self.proc = proc
        self.known: dict[File, int] = {}
        self.coming: dict[File, int] = {}
        self.search: Iterator[tuple[File, int] | None] | None = None

    def look(self, pids: Iterable[int]) -> dict[File, int]:
        """Bytes of each file; those of an older look where time is over before all has been looked at again."""
        until = time.monotonic() + LOOK_S
        if self.search is None:
            self.search = chain.from_iterable(map(self.proc.memory_files, list(pids)))
        for found in self.search:
            if found:
                self.coming[found[0]] = found[1]
            if time.monotonic() > until:
                return self.known | self.coming
        self.known, self.coming, self.search = self.coming, {}, None
        return self.known


class Own(NamedTuple):
    """The part of a process in what all use, without files, and its resident bytes, when so many were alive."""

    size: int
    resident: int
    among: int


UNSEEN = Own(0, 0, 1)


@dataclass
class ProcMeter:
    """A meter that reads a proc file system; ``shared`` are their own file systems in memory, open folders.

    ``waited`` is the CPU time of those that have ended and that somebody else has waited for. Whose parent ignores the
    end of its children, nobody waits for: what was seen of them is added up as well, and the greater sum is the truth.

    The sum of resident memory is quickly found and never too small, but counts what is shared again and again. The
    exact sum is looked for only when that may decide something: a new peak now and then, or the limit as soon as the
    last exact sum and what has grown since are beyond it. Where there is no time to look at all processes again, what
    one has grown since counts as its own, and one that was never looked at not yet. Where processes have become more
    since one was looked at, it may share with them what it had then: its part counts as so much less.
    """

    proc: Proc
    members: Callable[[], Iterable[int]]
    shared: tuple[int, ...] = ()
    waited: Callable[[], float] = float
    peak: float = 0.0
    exact: float = 0.0
    next_look: float = field(default=0.0, repr=False)
    own: dict[int, Own] = field(default_factory=dict, repr=False)  # the look at each, oldest first
    seen: dict[int, float] = field(default_factory=dict, repr=False)  # CPU time of each, without children
    gone_s: float = 0.0  # and what was seen of those that have gone

    def __post_init__(self) -> None:
        self.holdings = MemoryFiles(self.proc)
        self.devices = {os.fstat(folder).st_dev for folder in self.shared}

    def read(self, limit: float, most: int) -> Usage:
        """See `Meter`."""
        waited = self.waited()  # first: who ends during the look is counted by what was seen of it, and not again
        members = list(islice(self.members(), most + 1))
        if len(members) > most:
            return Usage(processes=len(members))
        states = {pid: state for pid in members if (state := self.proc.state(pid))}
        cpu_s = self._cpu_s(states, waited)
        alive = {pid: state for pid, state in states.items() if state.alive}
        return Usage(
            memory=self._memory(alive, limit),
            peak=max((self.proc.peak(pid) for pid in islice(alive, FEW)), default=0.0),
            cpu_s=cpu_s,
            processes=len(members),
            threads=sum(state.threads for state in alive.values()),
        )

    def cpu_s(self, most: int) -> float:
        """CPU time up to now; of the first ``most`` processes and all that have gone."""
        waited = self.waited()
        members = islice(self.members(), most)
        return self._cpu_s({pid: state for pid in members if (state := self.proc.state(pid))}, waited)

    def _cpu_s(self, states: dict[int, State], waited: float) -> float:
        now = {pid: state.cpu_s for pid, state in states.items()}
        self.gone_s += sum(seen for pid, seen in self.seen.items() if now.get(pid, 0.0) < seen)  # less: another process
        self.seen = now
        told = sum(state.cpu_s + state.waited_cpu_s for state in states.values()) + waited
        return max(told, sum(now.values()) + self.gone_s)

    def _memory(self, alive: dict[int, State], limit: float) -> float:
        files = self.holdings.look(alive)
        in_files = sum(files.values()) + sum(map(filesystem_bytes, self.shared))
        bound = float(sum(state.resident for state in alive.values()) + in_files)
        if not alive or (len(alive) == 1 and not in_files) or bound <= self.peak:
            self.exact = bound
        elif (bound > limit and self._suspected(alive, in_files) > limit) or time.monotonic() >= self.next_look:
            began = time.thread_time()
            self.exact = self._exact(alive, files, in_files)
            pause = (NEAR if bound > limit else PAUSE) * (time.thread_time() - began)
            self.next_look = time.monotonic() + pause
        self.peak = max(self.peak, self.exact)
        return self.exact

    def _exact(self, alive: dict[int, State], files: dict[File, int], in_files: int) -> float:
        until = time.monotonic() + EXACT_S
        self.own = {pid: found for pid, found in self.own.items() if pid in alive}
        looked = set()
        for pid in [*(alive.keys() - self.own.keys()), *self.own]:
            self.own.pop(pid, None)
            self.own[pid] = Own(*self._own(pid, files, in_files, until), len(alive))
            looked.add(pid)
            if time.monotonic() > until:
                break
        states = {pid: state for pid in alive if (state := self.proc.state(pid)) and state.alive}
        return self._sum(states, in_files, looked, sum(1 for _ in self.members()))

    def _sum(self, states: Mapping[int, State], in_files: int, looked: Container[int], processes: int) -> float:
        """What they use by the last exact look at each, when there are so many ``processes``.

        What one has grown since counts, unless it has just been ``looked`` at; what it has shrunk may by now be
        another's.
        """
        total = float(in_files)
        for pid, state in states.items():
            if own := self.own.get(pid):
                grown = state.resident - own.resident
                part = own.size * min(1.0, own.among / max(1, processes))
                total += max(0.0, part + (min(0, grown) if pid in looked else grown))
        return total

    def _suspected(self, states: Mapping[int, State], in_files: int) -> float:
        """What they use by the last look at each and what it has grown since; all of one that is new."""
        seen = ((self.own.get(pid, UNSEEN), state.resident) for pid, state in states.items())
        return in_files + sum(max(0, own.size + resident - own.resident) for own, resident in seen)

    def _own(self, pid: int, files: dict[File, int], in_files: int, until: float) -> tuple[int, int]:
        """The part of a process in what all use, without files, and its resident bytes."""
        own, state = self.proc.proportional(pid), self.proc.state(pid)
        resident = state.resident if state and state.alive else 0
        if own is None:  # it has ended meanwhile, or may not be looked into
            return resident, resident
        if in_files:
            own = self.proc.beside(pid, lambda file: file in files or file[0] in self.devices, until)
        return own, resident


class PortableMeter:
    """A meter that asks psutil, where there is no proc file system."""

    def __init__(self, members: Callable[[], Iterable[int]], waited: Callable[[], float] = float) -> None:
        self.members = members
        self.waited = waited
        self.peak = 0.0

    def read(self, limit: float, most: int) -> Usage:
        """See `Meter`."""
        used = Usage(cpu_s=self.waited())
        for pid in islice(self.members(), most + 1):
            used.processes += 1
            with contextlib.suppress(psutil.Error):
                process = psutil.Process(pid)
                times = process.cpu_times()
                used.cpu_s += times.user + times.system
                used.memory += process.memory_full_info().uss
        self.peak = max(self.peak, used.memory)
        return used


class ProcessTree:
    """All descendants of this process, whoever their parent was; this process is their subreaper and waits for them.

    ``cpu_s`` and ``largest`` (bytes) are the CPU time and the greatest memory of any one of those that have ended.
    """

    def __init__(self) -> None:
        self.cpu_s = 0.0
        self.largest = 0
        self.proc: Proc | None = None
        with contextlib.suppress(OSError):
            if os.path.exists(f"/proc/self/task/{os.getpid()}/children"):
                self.proc = Proc(os.open("/proc", os.O_RDONLY))

    def close(self) -> None:
        """Let go of the proc file system."""
        if self.proc is not None:
            os.close(self.proc.folder)

    def meter(self) -> Meter:
        """What adds up the use of those that have not ended."""
        if self.proc is None:
            return PortableMeter(self.members, lambda: self.cpu_s)
        return ProcMeter(self.proc, self.members, waited=lambda: self.cpu_s)

    def members(self) -> Iterator[int]:
        """Every descendant, parents before children."""
        if self.proc is None:
            yield from (process.pid for process in psutil.Process().children(recursive=True))
            return
        waiting, seen = self.proc.children(os.getpid()), set[int]()
        while waiting:
            pid = waiting.pop()
            if pid not in seen:
                seen.add(pid)
                yield pid
                waiting += self.proc.children(pid)

    def reap(self) -> dict[int, int]:
        """Wait for every process that has ended; exit statuses by process id."""
        ended: dict[int, int] = {}
        with contextlib.suppress(ChildProcessError):
            while (found := os.wait4(-1, os.WNOHANG))[0]:
                ended[found[0]] = os.waitstatus_to_exitcode(found[1])
                self._add(found[2])
        return ended

    def kill_all(self, group: int) -> None:
        """Kill everything that there is now; ``group`` first, which is killed at once."""
        with contextlib.suppress(OSError):
            os.killpg(group, signal.SIGKILL)
        for pid in self.members():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def kill(self, group: int) -> None:
        """Kill everything, wait for it, and again until nothing is left, see `kill_all`.

        A process that has been killed starts no other, and whom it leaves behind becomes a child of this process: of
        those that start others faster than they are killed, fewer are left each time.
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


def folder_bytes(folder: int, most: int = 10_000) -> int:
    """Bytes of the files in a folder and below it, of the first ``most`` entries; links are not followed.

    What lies so deep that the system takes no path so long is not found.
    """
    total, folders = 0, deque(["."])
    while folders and most > 0:
        place = folders.popleft()
        try:
            for name, facts in _entries(place, folder, most):
                most -= 1
                if stat.S_ISDIR(facts.st_mode):
                    folders.append(f"{place}/{name}")
                elif stat.S_ISREG(facts.st_mode):
                    total += facts.st_blocks * 512
        except OSError as error:  # it has gone, or is locked
            if error.errno == errno.EMFILE:  # somebody took our right to look
                raise
    return total


def flatten(folder: int) -> None:
    """Bring the folders below a folder up into it, so that whoever deletes it need not go deep; nobody may use it."""
    mark, number = uuid4().hex, count()
    waiting = deque(_folders(".", folder))
    while waiting:
        name = waiting.popleft()
        for inner in _folders(name, folder):
            lifted = f"{mark}-{next(number)}"
            with contextlib.suppress(OSError):  # it stays where it is
                os.chmod(f"{name}/{inner}", stat.S_IRWXU, dir_fd=folder)  # else it cannot be moved
                os.rename(f"{name}/{inner}", lifted, src_dir_fd=folder, dst_dir_fd=folder)
                waiting.append(lifted)


def _folders(place: str, folder: int) -> list[str]:
    """Names of the folders in a place below an open folder, none if they may not be known."""
    try:
        return [name for name, facts in _entries(place, folder, sys.maxsize) if stat.S_ISDIR(facts.st_mode)]
    except OSError:
        return []


def _entries(place: str, folder: int, most: int) -> Iterator[tuple[str, os.stat_result]]:
    """At most so many names and facts of what is in a place below an open folder."""
    inside = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=folder)
    try:
        with os.scandir(inside) as entries:
            for entry in islice(entries, most):
                with contextlib.suppress(OSError):
                    yield entry.name, entry.stat(follow_symlinks=False)
    finally:
        os.close(inside)
