"""Backend ``posix``: a run is a fork, isolated if the system permits namespaces; its usage is polled from ``/proc``."""

from __future__ import annotations

import contextlib
import os
import resource
from collections.abc import Callable, Mapping
from pathlib import Path

from shardmark.harness.sandbox import worker
from shardmark.harness.sandbox.backends import namespaces, prctl, seccomp
from shardmark.harness.sandbox.backends.fork_server import ForkServer
from shardmark.harness.sandbox.backends.launch import Launch
from shardmark.harness.sandbox.backends.process_tree import ProcessTree
from shardmark.harness.sandbox.backends.visible_files import view_of_run
from shardmark.harness.sandbox.contract import BackendError, Order, Usage
from shardmark.harness.sandbox.memory import largest_bytes
from shardmark.harness.sandbox.meters.cpu_clock import TreeClock, counter
from shardmark.harness.sandbox.meters.folders import filesystem_bytes, flatten, folder_bytes
from shardmark.harness.sandbox.meters.processes import Proc, ProcMeter
from shardmark.harness.sandbox.meters.socket_memory import socket_bytes
from shardmark.harness.sandbox.monitor import LATE_S, Pipes

MIB = 1 << 20
PRIORITY = -20  # priority of the supervisor, if it may have it: it does little, but without delay
#: Bytes by which the scratch file system exceeds the output limit, so that a breach of the limit can be seen.
SPARE = 4 * MIB
#: Bytes above the supervisor's memory up to which the peak of an ended program may be that of the fork before it.
FORK_GROWTH = 2 * MIB
#: `Outcome.enforced` for the measures that this backend always enforces in the same way.
ENFORCED = {"wall": "hard", "cpu": "polled", "memory": "polled", "processes": "polled", "output": "polled"}


class ForkBackend:
    """The backend, one per supervisor process; ``isolation`` is "auto" or "none"."""

    name = "posix"

    def __init__(self, isolation: str = "auto") -> None:
        if not os.path.exists(f"/proc/self/task/{os.getpid()}/children"):
            raise BackendError("posix: expected a Linux system that lists the children of a process")
        worker.warm_up()
        self.nice = os.getpriority(os.PRIO_PROCESS, 0)
        self.fork_server: ForkServer | None = None
        self.counter = counter(inherit=False)  # kept open: opening the first one on a system takes 10 ms
        with contextlib.suppress(PermissionError):
            os.setpriority(os.PRIO_PROCESS, 0, PRIORITY)
        prctl.become_subreaper()
        prctl.set_dumpable(False)
        # This comes first: at a fork OpenBLAS ends the threads that it has started here, and isolation needs a
        # process of one thread. In a run OpenBLAS starts them again.
        self.pins = os.waitpid(_fork(lambda: os._exit(not seccomp.ignore_affinity_calls())), 0)[1] == 0
        if isolation != "none" and not namespaces.isolation_error():
            self.fork_server = ForkServer(_fork)
        self.isolated = self.fork_server is not None

    def close(self) -> None:
        """Release nothing: all that belongs to the backend ends with its process."""

    def start(self, order: Order, deadline: float, command: list[str], folder: Path, pipes: Pipes) -> ForkRun:
        """Start a run of ``command``, or of the order's Python solver if that is empty."""
        program, begun = os.pipe()
        ends = pipes.stdout, pipes.stderr, begun if command else pipes.channel
        launch = Launch(order, deadline, command, folder, ends, self.nice, self.pins)
        watched = ProgramStart(program, external=bool(command))
        try:
            run = NamespaceRun(launch, watched, self.fork_server) if self.fork_server else TreeRun(launch, watched)
        except BaseException:
            os.close(program)
            raise
        finally:
            os.close(begun)
        isolation = "hard" if self.isolated else "none"
        cores = "hard" if order.cpus and self.pins else "none"
        run.enforced = {**ENFORCED, "cores": cores, "network": isolation, "files": isolation}
        return run


class ProgramStart:
    """Checks if the program of an external solver has started: until then its process is a fork of the supervisor."""

    def __init__(self, pipe: int, *, external: bool) -> None:
        self.pipe = pipe
        self.external = external
        os.set_blocking(pipe, False)

    def started(self) -> bool:
        """Return True if the program has started; always True for a Python solver, which is a fork."""
        if not self.external:
            return True
        try:
            return not os.read(self.pipe, 1)
        except BlockingIOError:
            return False

    def peak(self, ended: int, fork: int, seen: float) -> float:
        """Return the peak bytes of the largest process, from the system's record of those that have ``ended``.

        The record of a program includes the ``fork`` that it was: if it is not clearly greater, and a peak was
        ``seen``, it is ignored.
        """
        return 0.0 if self.external and seen and ended <= fork + FORK_GROWTH else float(ended)


class ForkRun:
    """A run of this backend, see `shardmark.harness.sandbox.monitor.RunHandle`."""

    enforced: Mapping[str, str]
    exited_at: float | None = None
    exit_fd: int | None = None

    def __init__(self, launch: Launch, program: ProgramStart) -> None:
        self.limits = launch.order.limits
        self.memory = self.limits.memory_mib * MIB
        self.program = program


class NamespaceRun(ForkRun):
    """A run in its own namespaces."""

    def __init__(self, launch: Launch, program: ProgramStart, fork_server: ForkServer) -> None:
        super().__init__(launch, program)
        files = int(self.limits.output_mib * MIB) + SPARE
        until = launch.deadline + self.limits.margin_s() + LATE_S
        view = view_of_run(launch.order, launch.command)
        sandbox = namespaces.Sandbox(launch.folder, files, int(self.memory), view, until=until)
        self.process, self.clock = fork_server.start(sandbox, launch)
        self.exit_fd = self.process.link.fileno()
        proc = Proc(self.process.proc)
        self.meter = ProcMeter(
            proc,
            lambda: (pid for pid in proc.processes() if pid != 1),
            (self.process.shared, self.process.scratch),
            lambda: state.waited_cpu_s if (state := proc.state(1)) else 0.0,  # process 1 waits for orphans
        )

    def ended(self) -> int | None:
        return self.process.ended()

    def usage(self) -> Usage:
        if not self.program.started():
            return Usage()
        in_sockets = socket_bytes(self.process.diagnostics)
        used = self.meter.read(self.memory - in_sockets, self.limits.processes)
        used.memory += in_sockets
        used.cpu_s = max(used.cpu_s, self.clock.read() - self.process.setup_cpu_s)
        used.written = filesystem_bytes(self.process.scratch)
        return used

    def kill_all(self) -> None:
        self.process.kill()

    def finish(self) -> Usage:
        """See `RunHandle`. No one waits for processes killed with process 1: their time is measured before the kill."""
        in_files = filesystem_bytes(self.process.scratch)
        seen_s = self.meter.cpu_s(self.limits.processes) if self.program.started() else 0.0
        self.process.kill()
        _, _, used = os.wait4(self.process.init, 0)
        counted_s = max(used.ru_utime + used.ru_stime, self.clock.read()) - self.process.setup_cpu_s
        self.process.close()
        self.clock.close()
        os.close(self.program.pipe)
        peak = self.program.peak(largest_bytes(used), self.process.setup_peak, self.meter.peak)
        return Usage(peak=peak, cpu_s=max(seen_s, counted_s), written=in_files)


class TreeRun(ForkRun):
    """A run that is not isolated; the supervisor adopts its orphans."""

    def __init__(self, launch: Launch, program: ProgramStart) -> None:
        super().__init__(launch, program)
        self.tree = ProcessTree()
        self.meter = self.tree.meter()
        self.folder = os.open(launch.folder, os.O_RDONLY)
        self.fork_peak = largest_bytes(resource.getrusage(resource.RUSAGE_SELF))
        self.clock = TreeClock.begin()
        self.pid = _fork(launch.run)
        self.pidfd = self.exit_fd = os.pidfd_open(self.pid)
        self.status: int | None = None

    def ended(self) -> int | None:
        self.status = self.tree.reap().get(self.pid, self.status)
        return self.status

    def usage(self) -> Usage:
        if not self.program.started():
            return Usage()
        used = self.meter.read(self.memory, self.limits.processes)
        used.cpu_s = max(used.cpu_s, self.clock.read())
        used.written = folder_bytes(self.folder)
        return used

    def kill_all(self) -> None:
        self.tree.kill_all(self.pid)

    def finish(self) -> Usage:
        self.tree.kill_and_wait(self.pid)
        cpu_s = max(self.tree.cpu_s, self.clock.read())
        in_files = folder_bytes(self.folder)
        flatten(self.folder)
        self.tree.close()
        self.clock.close()
        for file in (self.folder, self.program.pipe, self.pidfd):
            os.close(file)
        peak = self.program.peak(self.tree.largest, self.fork_peak, self.meter.peak)
        return Usage(peak=peak, cpu_s=cpu_s, written=in_files)


def _fork(body: Callable[[], None]) -> int:
    """Fork a process that calls ``body``, which must not return; it dies with this one."""
    supervisor = os.getpid()
    pid = os.fork()
    if pid == 0:
        try:
            prctl.set_dumpable(True)
            prctl.die_with_parent()
            if os.getppid() == supervisor:
                body()
        finally:
            os._exit(1)
    return pid
