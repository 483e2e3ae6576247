"""Backend ``posix``: a run is a fork of its supervisor, isolated where the system permits."""

from __future__ import annotations

import contextlib
import os
import resource
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from harness.sandbox import worker
from harness.sandbox.backends import namespaces, prctl, seccomp, socket_memory
from harness.sandbox.backends.cpu_clock import TreeClock, counter
from harness.sandbox.backends.fork_server import ForkServer
from harness.sandbox.backends.launch import Launch
from harness.sandbox.backends.process_tree import Proc, ProcessTree, ProcMeter, filesystem_bytes, flatten, folder_bytes
from harness.sandbox.backends.view import view_of_run
from harness.sandbox.contract import Order, Usage
from harness.sandbox.memory import largest_bytes
from harness.sandbox.monitor import LATE_S, Pipes

MIB = 1 << 20
URGENT = -20  # the supervisor's priority, if it may: it does little, but that at once
SPARE = 4 * MIB  # bytes above a limit on files, so that it can be seen to be broken
FORKED = (
    2 * MIB
)  # a program that seems to have used no more than this above a fork of the supervisor may have used less
WATCHED = {"wall": "hard", "cpu": "polled", "memory": "polled", "processes": "polled", "output": "polled"}


class ForkBackend:
    """The backend; one an own process, the supervisor. ``isolation`` is "auto" or "none"."""

    name = "posix"

    def __init__(self, isolation: str = "auto") -> None:
        worker.warm_up()
        self.nice = os.getpriority(os.PRIO_PROCESS, 0)
        self.pins = False
        self.fork_server: ForkServer | None = None
        self.counter = counter(inherit=False)  # kept open: the first one of a system takes it 10 ms
        with contextlib.suppress(PermissionError):
            os.setpriority(os.PRIO_PROCESS, 0, URGENT)
        if sys.platform == "linux":
            prctl.become_subreaper()
            prctl.set_dumpable(False)
            # This comes first: as it forks, OpenBLAS ends the threads that it has started here, and isolation needs
            # a process of one thread. In a run OpenBLAS starts them again.
            self.pins = os.waitpid(_fork(lambda: os._exit(not seccomp.ignore_affinity_calls())), 0)[1] == 0
            if isolation != "none" and not namespaces.isolation_error():
                self.fork_server = ForkServer(_fork)
        self.isolated = self.fork_server is not None

    def close(self) -> None:
        """Let go of what belongs to this process alone: nothing."""

    def start(self, order: Order, job: Mapping[str, Any], command: list[str], folder: Path, pipes: Pipes) -> Run:
        """Start a run: ``command`` if there is one, else the Python solver of ``job``."""
        program, begun = os.pipe()
        ends = pipes.stdout, pipes.stderr, begun if command else pipes.channel
        launch = Launch(order, job, command, folder, ends, self.nice, self.pins)
        watched = Program(program, external=bool(command))
        try:
            run = NamespaceRun(launch, watched, self.fork_server) if self.fork_server else TreeRun(launch, watched)
        except BaseException:
            os.close(program)
            raise
        finally:
            os.close(begun)
        contained = "hard" if self.isolated else "none"
        run.enforced = {
            **WATCHED,
            "cores": "hard" if order.cpus and self.pins else "none",
            "network": contained,
            "files": contained,
        }
        return run


class Program:
    """Tells if the program of an external solver has begun: until then its process is a fork of the supervisor."""

    def __init__(self, pipe: int, *, external: bool) -> None:
        self.pipe = pipe
        self.external = external
        os.set_blocking(pipe, False)

    def began(self) -> bool:
        """True once it is there, and always for a Python solver, which is a fork."""
        if not self.external:
            return True
        try:
            return not os.read(self.pipe, 1)
        except BlockingIOError:
            return False

    def largest(self, of_ended: int, of_fork: int, seen: float) -> float:
        """Greatest memory of one process in bytes, from that of those that have ended; ``seen`` was seen before.

        The system adds to the memory of a program that of the fork which it was: no more than that says nothing.
        """
        return 0.0 if self.external and seen and of_ended <= of_fork + FORKED else float(of_ended)


class Run:
    """A run that is under way, see `harness.sandbox.monitor.RunHandle`."""

    enforced: Mapping[str, str]
    exited_at: float | None = None
    exit_fd: int | None = None

    def __init__(self, launch: Launch, program: Program) -> None:
        self.limits = launch.order.limits
        self.memory = self.limits.memory_mib * MIB
        self.program = program


class NamespaceRun(Run):
    """A run in namespaces of its own."""

    def __init__(self, launch: Launch, program: Program, fork_server: ForkServer) -> None:
        super().__init__(launch, program)
        files = int(self.limits.output_mib * MIB) + SPARE
        until = launch.job["deadline"] + self.limits.margin_s() + LATE_S
        view = view_of_run(launch.order, launch.job["instance"], launch.command)
        room = namespaces.Sandbox(launch.folder, files, int(self.memory), view, until=until)
        self.room, self.clock = fork_server.start(room, launch)
        self.exit_fd = self.room.link.fileno()
        self.proc = Proc(self.room.proc)
        self.meter = ProcMeter(
            self.proc,
            lambda: (pid for pid in self.proc.processes() if pid != 1),
            (self.room.shared, self.room.scratch),
            lambda: state.waited_cpu_s if (state := self.proc.state(1)) else 0.0,  # of orphans
        )

    def ended(self) -> int | None:
        """See `RunHandle`."""
        return self.room.ended()

    def usage(self) -> Usage:
        """See `RunHandle`."""
        if not self.program.began():
            return Usage()
        in_sockets = socket_memory.held(self.room.diagnostics)
        used = self.meter.read(self.memory - in_sockets, self.limits.processes)
        used.memory += in_sockets
        used.cpu_s = max(used.cpu_s, self.clock.read() - self.room.setup_cpu_s)
        used.written = filesystem_bytes(self.room.scratch)
        return used

    def kill_all(self) -> None:
        """See `RunHandle`."""
        self.room.kill()

    def kill(self) -> Usage:
        """See `RunHandle`. Nobody waits for whom process 1 takes with it: their CPU time is what a look finds."""
        in_files = filesystem_bytes(self.room.scratch)
        seen_s = self.meter.cpu_s(self.limits.processes) if self.program.began() else 0.0
        self.room.kill()
        _, _, used = os.wait4(self.room.init, 0)
        counted_s = max(used.ru_utime + used.ru_stime, self.clock.read()) - self.room.setup_cpu_s
        for held in (self.room, self.clock):
            held.close()
        os.close(self.program.pipe)
        peak = self.program.largest(largest_bytes(used), self.room.setup_peak, self.meter.peak)
        return Usage(peak=peak, cpu_s=max(seen_s, counted_s), written=in_files)


class TreeRun(Run):
    """A run among all other processes; the supervisor adopts its orphans."""

    def __init__(self, launch: Launch, program: Program) -> None:
        super().__init__(launch, program)
        self.tree = ProcessTree()
        self.meter = self.tree.meter()
        self.folder = os.open(launch.folder, os.O_RDONLY)
        self.of_fork = largest_bytes(resource.getrusage(resource.RUSAGE_SELF))
        self.clock = TreeClock.begin()
        self.pid = _fork(launch.become)
        self.exit_fd = os.pidfd_open(self.pid) if hasattr(os, "pidfd_open") else None
        self.status: int | None = None

    def ended(self) -> int | None:
        """See `RunHandle`."""
        self.status = self.tree.reap().get(self.pid, self.status)
        return self.status

    def usage(self) -> Usage:
        """See `RunHandle`."""
        if not self.program.began():
            return Usage()
        used = self.meter.read(self.memory, self.limits.processes)
        used.cpu_s = max(used.cpu_s, self.clock.read())
        used.written = folder_bytes(self.folder)
        return used

    def kill_all(self) -> None:
        """See `RunHandle`."""
        self.tree.kill_all(self.pid)

    def kill(self) -> Usage:
        """See `RunHandle`."""
        self.tree.kill(self.pid)
        cpu_s = max(self.tree.cpu_s, self.clock.read())
        in_files = folder_bytes(self.folder)
        flatten(self.folder)
        for held in (self.tree, self.clock):
            held.close()
        for number in (self.folder, self.program.pipe, self.exit_fd):
            if number is not None:
                os.close(number)
        peak = self.program.largest(self.tree.largest, self.of_fork, self.meter.peak)
        return Usage(peak=peak, cpu_s=cpu_s, written=in_files)


def _fork(body: Callable[[], None]) -> int:
    """Fork a process that calls ``body``, which must not return; it dies with this one."""
    supervisor = os.getpid()
    pid = os.fork()
    if pid == 0:
        try:
            if sys.platform == "linux":
                prctl.set_dumpable(True)
                prctl.die_with_parent()
            if os.getppid() == supervisor:
                body()
        finally:
            os._exit(1)
    return pid
