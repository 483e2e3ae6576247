"""Backend ``benchexec``: a run in control groups and, unless isolation is off, in namespaces, by BenchExec.

BenchExec measures and limits memory and cores and makes the namespaces, in which `namespaces` mounts the file systems.
The monitor keeps the clock and polls the rest, as BenchExec checks time only about once a second. Files that a run
writes to its scratch folder and to ``/tmp`` lie in memory, count as such, and vanish with it.

An isolated run cannot change control groups: it has no capabilities, can gain none, and sees them read-only. A run that
is not isolated may do with its groups what its user may; processes that it moves or freezes there are still found.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import resource
import select
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from benchexec import container
from benchexec.cgroups import Cgroups
from benchexec.container import DIR_READ_ONLY
from benchexec.runexecutor import RunExecutor

from shardmark.harness.sandbox.backends import control_groups, namespaces, prctl, seccomp
from shardmark.harness.sandbox.backends.visible_files import view_of_run
from shardmark.harness.sandbox.contract import (
    MEASURES,
    SUPERVISOR_VARIABLE,
    THREAD_VARIABLES,
    BackendError,
    Order,
    Usage,
)
from shardmark.harness.sandbox.memory import PAGE, largest_bytes
from shardmark.harness.sandbox.meters import socket_memory
from shardmark.harness.sandbox.meters.folders import folder_bytes
from shardmark.harness.sandbox.monitor import Pipes

#: Seconds that BenchExec may take to clear up after a run; the client waits `supervisor.GRACE_S`, which is longer.
CLEAR_UP_S = 20.0
HELP_S = 1.0  # seconds after which processes that BenchExec has not ended are killed: as a rule it takes 0.01 s
CHECK_S = 0.01  # seconds between two checks whether BenchExec has cleared up
CHARGE = 1 << 18  # most bytes of memory that the system charges at once: no process can start so close to the limit
FORK_GROWTH = 1 << 21  # bytes above the supervisor's memory up to which resident memory may be that of its fork
PIECE = 1 << 16  # characters of one argument; Linux accepts 2^17
#: `Outcome.enforced` for the measures that this backend always enforces in the same way.
ENFORCED = dict.fromkeys(MEASURES, "polled") | {"wall": "hard", "memory": "hard"}

# BenchExec's modules turn bytecode off for the whole process.
sys.dont_write_bytecode = bool(sys.flags.dont_write_bytecode)
# With control groups of version 2 BenchExec would give a run its own writable group.
container.setup_cgroup_namespace = lambda: None


class Executor(RunExecutor):
    """BenchExec's executor, except that it reads the meters once: a second reading would cost each run 0.1 s.

    Memory that other processes loaded before, such as libraries, is not charged to a control group but is in the
    process's own record, ``resident``. That record may be of the fork with which the run began: it counts only if it
    is greater than the fork. ``sandbox`` describes an isolated run, None if it is not isolated; ``folder`` is the
    supervisor's.
    """

    group_peak = 0  # peak bytes of the control group, even if the run could not be started
    groups: tuple[str, ...] = ()  # the run's control groups, which contain all that BenchExec or the run makes

    def __init__(self, sandbox: namespaces.Sandbox | None, folder: Path) -> None:
        isolated = sandbox is not None
        super().__init__(use_namespaces=isolated, dir_modes={"/": DIR_READ_ONLY}, container_system_config=False)
        self.sandbox, self.folder = sandbox, folder

    def _setup_cgroups(self, *args: Any) -> Cgroups:
        prefix = f"{self.folder.name}-"
        control_groups.record((f"{parent}/{prefix}" for parent in self.cgroups.paths), self.folder)
        create = partial(type(self.cgroups).create_fresh_child_cgroup, self.cgroups, prefix=prefix)
        self.cgroups.create_fresh_child_cgroup = create
        made = super()._setup_cgroups(*args)
        self.groups = tuple(map(str, made.paths))
        return made

    def _start_execution(self, *args: Any, cgroups: Cgroups, child_setup_fn: Callable[[], None], **call: Any) -> Any:
        def setup() -> None:
            child_setup_fn()
            if self.sandbox is not None:
                drop_rights()

        try:
            return super()._start_execution(*args, cgroups=cgroups, child_setup_fn=setup, **call)
        except BaseException:
            self.group_peak = cgroups.read_max_mem_usage() or 0
            raise

    def _setup_container_filesystem(self, *_: Any) -> None:
        """Mount the run's file systems instead of BenchExec's, in the first process of the run's namespaces."""
        assert self.sandbox is not None
        namespaces.mount_sandbox(self.sandbox)

    def _get_cgroup_measurements(self, cgroups: Cgroups, ru_child: Any, result: dict[str, Any]) -> None:
        resident = largest_bytes(ru_child) if ru_child else 0
        fork = largest_bytes(resource.getrusage(resource.RUSAGE_SELF)) + FORK_GROWTH
        result["resident"] = resident if resident > fork else 0
        result["cputime"] = cgroups.read_cputime()
        result["memory"] = self.group_peak = cgroups.read_max_mem_usage() or 0
        result["oom_kill_count"] = cgroups.read_oom_kill_count()


def drop_rights() -> None:
    """Drop all rights permanently, in the process that is to become the run's program."""
    namespaces.mount_proc()
    prctl.drop_keyring()
    prctl.drop_capabilities()
    seccomp.hide_clone3()
    seccomp.hide_kernel_memory(memfds=True)  # as memfd files count in the control group, whichever process has them


class BenchexecBackend:
    """The backend, one per supervisor process; ``isolation`` is "auto" or "none"."""

    name = "benchexec"

    def __init__(self, isolation: str = "auto") -> None:
        self.isolated = isolation != "none"
        # Only BenchExec's log says why a run cannot be started; it lies in memory, as a run keeps only standard files.
        sys.stdout = self.log = os.fdopen(os.memfd_create("benchexec"), "w+")
        logging.basicConfig(stream=self.log, level=logging.ERROR, format="%(message)s", force=True)
        os.register_at_fork(after_in_child=self._after_fork)
        self.first_group = control_groups.of_this_process()
        self.own_group: Path | None = None

    def close(self) -> None:
        """Leave the control group that BenchExec made for this process and remove it: version 2 keeps it otherwise."""
        if self.own_group is not None and self.own_group.name.startswith("benchexec_"):
            with contextlib.suppress(OSError):  # a service manager removes its groups with their last process
                control_groups.enter(self.first_group)
                control_groups.remove([str(self.own_group)])

    def _after_fork(self) -> None:
        """Let a fork, and so its run, die with the supervisor, and let it write errors to the log.

        BenchExec's process of a run keeps standard error open, and a reader of the supervisor's would wait for its end.
        """
        prctl.die_with_parent()
        sys.stderr = self.log

    def start(self, order: Order, deadline: float, command: list[str], folder: Path, pipes: Pipes) -> BenchexecRun:
        """Start a run of ``command``, or of the order's Python solver if that is empty.

        `env` starts it, so the exit status for a missing program is that of a shell.
        """
        program = command or worker_command(order, deadline)
        executor = self._executor(order, command, folder)
        self.log.seek(0)
        self.log.truncate()
        channel = None if command else os.dup(pipes.channel)
        stdout, stderr = os.dup(pipes.stdout), os.dup(pipes.stderr)
        threads = [f"{name}={order.limits.cores}" for name in THREAD_VARIABLES]
        call = {
            "args": [
                *("/usr/bin/env", f"HOME={folder}", f"TMPDIR={folder}", *threads),
                *(("nice", "-n", "0", "--") if "=" in program[0] else ()),  # `env` would take it for a variable
                *program,
            ],
            "stdin": channel,
            "output_filename": f"/proc/self/fd/{stdout}",
            "error_filename": f"/proc/self/fd/{stderr}",
            "write_header": False,
            "memlimit": -int(-order.limits.memory_mib * 2**20 // PAGE) * PAGE,
            "cores": list(order.cpus) or None,
            "workingDir": str(folder),
        }
        isolation = "hard" if self.isolated else "none"
        cores = "hard" if order.cpus else "none"
        enforced = ENFORCED | {"cores": cores, "network": isolation, "files": isolation}
        ends = [end for end in (channel, stdout, stderr) if end is not None]
        return BenchexecRun(executor, call, ends, enforced, self._complaint)

    def _executor(self, order: Order, command: list[str], folder: Path) -> Executor:
        sandbox = None
        if self.isolated:
            size = int(order.limits.memory_mib * 2**20)
            view = view_of_run(order, command)
            sandbox = namespaces.Sandbox(folder, size, size, view, namespaces.named_sockets())
        try:
            executor = Executor(sandbox, Path(os.environ[SUPERVISOR_VARIABLE]))
        except SystemExit as end:
            raise BackendError(f"BenchExec: {one_line(end)}") from None
        self.own_group = executor.cgroups.path if executor.cgroups.version == 2 else None
        return executor

    def _complaint(self) -> str:
        self.log.seek(0)
        return self.log.readline().strip(" .\n")


def worker_command(order: Order, deadline: float) -> list[str]:
    """Return the command of the worker; its channel is standard input, as BenchExec closes all other files."""
    text = json.dumps(asdict(order))
    pieces = (text[at : at + PIECE] for at in range(0, len(text), PIECE))
    return [sys.executable, "-P", "-m", "shardmark.harness.sandbox.worker", "run", "0", repr(deadline), *pieces]


def one_line(error: BaseException) -> str:
    """Return the first 300 characters of BenchExec's message, which is often a page, as one line."""
    return " ".join(str(error).split())[:300].rstrip(".")


class BenchexecRun:
    """A run of this backend, see `RunHandle`; a thread waits in BenchExec until it has ended and cleared up."""

    def __init__(
        self,
        executor: Executor,
        call: Mapping[str, Any],
        ends: list[int],
        enforced: dict[str, str],
        complaint: Callable[[], str],
    ) -> None:
        self.executor, self.enforced, self.complaint = executor, enforced, complaint
        self.folder, self.memory = call["workingDir"], call["memlimit"]
        self.result: dict[str, Any] = {}
        self.failure = ""
        self.process: int | None = None  # file descriptor (pidfd) of the run's first process
        self.cgroups: Cgroups | None = None
        self.exited_at: float | None = None
        self.exit_fd: int | None = None  # is `process`
        self.scratch: int | None = None  # open scratch folder, as the run sees it
        self.diagnostics: socket.socket | None = None  # of its sockets, if its control group does not count them
        self.thread = threading.Thread(target=self._execute, args=(call, ends), daemon=True)
        self.thread.start()

    def _execute(self, call: Mapping[str, Any], ends: list[int]) -> None:
        try:
            self.result = self.executor.execute_run(**call)
        except (Exception, SystemExit) as error:
            self.failure = one_line(error) or repr(error)
        finally:
            for end in ends:
                os.close(end)
        if "exitcode" not in self.result:
            self.failure = self.failure or self.complaint() or "it does not say why"

    def ended(self) -> int | None:
        """See `RunHandle`. BackendError if BenchExec could not start the run.

        A run for whose start there was no memory counts as killed. If BenchExec does not clear up within `CLEAR_UP_S`,
        the status is that of SIGKILL.
        """
        if self.thread.is_alive():
            self._find()
            if self.exited_at is None and self.process is not None and select.select([self.process], [], [], 0)[0]:
                self.exited_at = time.monotonic()
            if self.exited_at is None:
                return None
            if time.monotonic() > self.exited_at + HELP_S:
                self.kill_all()
            self.thread.join(CHECK_S)
            return None if time.monotonic() < self.exited_at + CLEAR_UP_S else -signal.SIGKILL
        if self.failure and not self._full:
            raise BackendError(f"BenchExec: {self.failure}")
        return self._status()

    def usage(self) -> Usage:
        self._find()
        if self.cgroups is None or not self.thread.is_alive():
            return self._used()
        processes, threads = control_groups.count(self.cgroups[self.cgroups.MEMORY])
        with contextlib.suppress(LookupError, OSError, ValueError):  # the run has ended in the meantime
            return Usage(
                memory=self._with_sockets(),
                peak=self.cgroups.read_max_mem_usage() or 0,
                cpu_s=self.cgroups.read_cputime(),
                processes=processes,
                threads=threads,
                written=0 if self.scratch is None else folder_bytes(self.scratch),
            )
        return Usage()

    def _with_sockets(self) -> int:
        """Return the bytes of the control group and of the sockets now; 0 if the control group counts the sockets.

        Cached files on disks do not count: the group releases them if other processes need memory.
        """
        in_sockets = 0 if self.diagnostics is None else socket_memory.uncounted_bytes(self.diagnostics)
        if not in_sockets or self.cgroups is None:
            return 0
        in_group = int(self.cgroups.get_value(self.cgroups.MEMORY, "usage_in_bytes"))
        parts = dict(self.cgroups.get_key_value_pairs(self.cgroups.MEMORY, "stat"))
        return in_group - int(parts["total_cache"]) + int(parts["total_shmem"]) + in_sockets

    def kill_all(self) -> None:
        """See `RunHandle`. BenchExec's process 1 is spared: it reports the exit status."""
        control_groups.kill([self.cgroups[self.cgroups.MEMORY]] if self.cgroups is not None else [])
        for group in self.executor.groups:
            control_groups.thaw(group)
        if self.process is not None:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self.process, signal.SIGKILL)

    def finish(self) -> Usage:
        end = (self.exited_at or time.monotonic()) + CLEAR_UP_S
        while self.thread.is_alive() and time.monotonic() < end:
            self._find()
            self.kill_all()
            self.thread.join(0.005)
        for held in (self.process, self.scratch):
            if held is not None:
                os.close(held)
        self.process = self.scratch = None
        if self.diagnostics is not None:
            self.diagnostics.close()
            self.diagnostics = None
        return Usage(unended=True) if self.thread.is_alive() else self._used()

    def _find(self) -> None:
        """Open the first process and find its control groups, once there are any."""
        with self.executor.SUB_PROCESS_PIDS_LOCK:
            first = next(iter(self.executor.SUB_PROCESS_PIDS), None)
        if first is None or self.process is not None:
            return
        try:
            self.process = self.exit_fd = os.pidfd_open(first)
        except ProcessLookupError:  # it ended before it was first seen
            self.exited_at = self.exited_at or time.monotonic()
            return
        with contextlib.suppress(OSError):
            with open(f"/proc/{first}/cgroup") as lines:
                found = Cgroups.from_system(lines)
            # A process that has ended may be shown in a group of other processes.
            if all(self._is_below(found, controller) for controller in (found.MEMORY, found.CPU)):
                self.cgroups = found
                self.scratch = os.open(f"/proc/{first}/root{self.folder}", os.O_RDONLY | os.O_DIRECTORY)
                if found.version == 1 and self.executor.sandbox is not None:
                    self.diagnostics = socket_memory.open_diagnostics_of(first)

    def _is_below(self, found: Cgroups, controller: str) -> bool:
        """Return True if a controller's group is one that BenchExec made for a run, below its own."""
        return controller in found and Path(self.executor.cgroups[controller]) in Path(found[controller]).parents

    @property
    def _full(self) -> bool:
        """Return True if the control group has reached its memory limit."""
        return 0 < self.memory < self.executor.group_peak + CHARGE

    def _status(self) -> int:
        if self.failure:
            return -signal.SIGKILL
        code = self.result["exitcode"]
        return -code.signal if code.signal else code.value

    def _used(self) -> Usage:
        """Return what BenchExec measured; a run that was refused memory at its limit has used it.

        The system also tells BenchExec of a refusal by a group above the run's: its own then has room left.

        Resident memory beyond the limit is shared with others: the run's control group has not held it.
        """
        if self.thread.is_alive():
            return Usage()
        if self.failure:
            return Usage(peak=max(self.executor.group_peak, self.memory * self._full), out_of_memory=self._full)
        status, resident = self._status(), self.result["resident"]
        reported = self.result.get("terminationreason") == "memory" and status != 0
        refused = reported or (self._full and status == -signal.SIGKILL)
        peak = max(self.result["memory"], resident * (resident <= self.memory), self.memory * (refused and self._full))
        return Usage(peak=peak, cpu_s=self.result["cputime"], out_of_memory=refused)
