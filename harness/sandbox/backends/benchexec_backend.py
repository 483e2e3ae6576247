"""Backend ``benchexec``: a run in control groups and, unless isolation is off, in namespaces, by BenchExec.

BenchExec measures and limits memory and cores, and makes namespaces, which `namespaces` sets up. The referee's monitor
keeps the clock and looks at the rest, because BenchExec checks time only about once a second. A run reads the files of
its `view`; files that it writes to its scratch folder and to ``/tmp`` lie in memory, count as such, and vanish with it.

An isolated run reaches no control group: it has no rights, can get none, and finds them read-only. One that is not
isolated may do with its groups what its user may; whom it moves or freezes there is found nevertheless.
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
from functools import partial
from pathlib import Path
from typing import Any

from benchexec import container
from benchexec.cgroups import Cgroups
from benchexec.container import DIR_READ_ONLY
from benchexec.runexecutor import RunExecutor

from harness.sandbox.backends import control_groups, namespaces, prctl, seccomp, socket_memory
from harness.sandbox.backends.process_tree import folder_bytes
from harness.sandbox.backends.view import view_of_run
from harness.sandbox.contract import MEASURES, SUPERVISOR_VARIABLE, THREAD_VARIABLES, BackendError, Order, Usage
from harness.sandbox.memory import PAGE, largest_bytes
from harness.sandbox.monitor import Pipes

END_S = 20.0  # for BenchExec to clear up after a run; the referee gives up a supervisor after `supervisor.GRACE_S`
HELP_S = 1.0  # for it to do so alone
CLEAR_S = 0.01  # what that takes as a rule
CHARGE = 1 << 18  # bytes of memory that the system asks for at once, at most: so near to its limit nothing can begin
FORKED = 1 << 21  # bytes: what is no greater than the supervisor by this may be its fork
PIECE = 1 << 16  # characters of one argument: Linux takes 2^17
HELD = dict.fromkeys(MEASURES, "polled") | {"wall": "hard", "memory": "hard"}

# With control groups of version 2 BenchExec hands a run its own, to write to; without this it finds them as all others.
container.setup_cgroup_namespace = lambda: None


class Executor(RunExecutor):
    """BenchExec's executor, which reads the meters once: the second look that it takes costs each run 0.1 s.

    Memory that others have loaded before, such as libraries, is not in a control group; it is in what the system tells
    of a process, ``resident``. That may be of the fork with which the run began, so only what is greater counts.

    ``room`` is what an isolated run finds, None for one that is not isolated; ``folder`` is that of the supervisor.
    """

    most = 0  # bytes that a control group has held at most, also of a run that could not be started
    groups: tuple[str, ...] = ()  # the run's own, below which are all that BenchExec or the run itself makes

    def __init__(self, room: namespaces.Sandbox | None, folder: Path) -> None:
        super().__init__(use_namespaces=room is not None, dir_modes={"/": DIR_READ_ONLY}, container_system_config=False)
        self.room = room
        self.folder = folder

    def _setup_cgroups(self, *args: Any) -> Cgroups:
        prefix = f"{self.folder.name}-"
        control_groups.record((f"{parent}/{prefix}" for parent in self.cgroups.paths), self.folder)
        create = partial(type(self.cgroups).create_fresh_child_cgroup, self.cgroups, prefix=prefix)
        self.cgroups.create_fresh_child_cgroup = create
        made = super()._setup_cgroups(*args)
        self.groups = tuple(map(str, made.paths))
        return made

    def _start_execution(self, *args: Any, cgroups: Cgroups, child_setup_fn: Callable[[], None], **call: Any) -> Any:
        def enclose() -> None:
            child_setup_fn()
            if self.room is not None:
                confine()

        try:
            return super()._start_execution(*args, cgroups=cgroups, child_setup_fn=enclose, **call)
        except BaseException:
            self.most = cgroups.read_max_mem_usage() or 0
            raise

    def _setup_container_filesystem(self, *_: Any) -> None:
        """What the first process of a run's namespaces mounts, in the place of what BenchExec would."""
        assert self.room is not None
        namespaces.mount_sandbox(self.room)

    def _get_cgroup_measurements(self, cgroups: Cgroups, ru_child: Any, result: dict[str, Any]) -> None:
        resident = largest_bytes(ru_child) if ru_child else 0
        fork = largest_bytes(resource.getrusage(resource.RUSAGE_SELF)) + FORKED
        result["resident"] = resident if resident > fork else 0
        result["cputime"] = cgroups.read_cputime()
        result["memory"] = self.most = cgroups.read_max_mem_usage() or 0
        result["oom_kill_count"] = cgroups.read_oom_kill_count()


def confine() -> None:
    """Let the process that is to become the run's program give up all rights for ever."""
    namespaces.mount_proc()
    prctl.drop_keyring()
    prctl.drop_capabilities()
    seccomp.hide_clone3()
    seccomp.hide_kernel_memory(memfds=True)  # which count as the control group's memory, whoever has them


class BenchexecBackend:
    """The backend; one an own process, the supervisor. ``isolation`` is "auto" or "none"."""

    name = "benchexec"

    def __init__(self, isolation: str = "auto") -> None:
        self.isolated = isolation != "none"
        # Where a run is started BenchExec closes all files but the standard ones, and tells only its log why it fails.
        sys.stdout = self.log = os.fdopen(os.memfd_create("benchexec"), "w+")
        logging.basicConfig(stream=self.log, level=logging.ERROR, format="%(message)s", force=True)
        os.register_at_fork(after_in_child=self._begin)
        self.first = control_groups.of_this_process()
        self.base: Path | None = None

    def close(self) -> None:
        """Leave the group that BenchExec has made for this process, and remove it: in version 2 it stays otherwise."""
        if self.base is not None and self.base.name.startswith("benchexec_"):
            with contextlib.suppress(OSError):  # where others manage groups, these go with their last process
                control_groups.enter(self.first)
                control_groups.remove([str(self.base)])

    def _begin(self) -> None:
        """What a fork of the supervisor does first: should that be killed, its run goes with it.

        BenchExec's part of a run keeps the standard files open, in Python's sense; where the supervisor itself says
        something, somebody waits for its end.
        """
        prctl.die_with_parent()
        sys.stderr = self.log

    def start(self, order: Order, job: Mapping[str, Any], command: list[str], folder: Path, pipes: Pipes) -> Run:
        """Start a run: ``command`` if there is one, else the Python solver of ``job``.

        `env` starts it, so that a program that does not exist ends as it does in a shell.
        """
        executor = self._executor(order, job, command, folder)
        self.log.seek(0)
        self.log.truncate()
        channel = None if command else os.dup(pipes.channel)
        stdout, stderr = os.dup(pipes.stdout), os.dup(pipes.stderr)
        call = {
            "args": ["/usr/bin/env", *surroundings(order, folder), *(command or worker_command(job))],
            "stdin": channel,
            "output_filename": f"/proc/self/fd/{stdout}",
            "error_filename": f"/proc/self/fd/{stderr}",
            "write_header": False,
            "memlimit": -int(-order.limits.memory_mib * 2**20 // PAGE) * PAGE,
            "cores": list(order.cpus) or None,
            "workingDir": str(folder),
        }
        ends = [end for end in (channel, stdout, stderr) if end is not None]
        return Run(executor, call, ends, self._enforced(order), self._complaint)

    def _executor(self, order: Order, job: Mapping[str, Any], command: list[str], folder: Path) -> Executor:
        """An executor for one run in a folder."""
        room = None
        if self.isolated:
            size = int(order.limits.memory_mib * 2**20)
            view = view_of_run(order, job["instance"], command)
            room = namespaces.Sandbox(folder, size, size, view, namespaces.named_sockets())
        try:
            executor = Executor(room, Path(os.environ[SUPERVISOR_VARIABLE]))
        except SystemExit as end:
            raise BackendError(f"BenchExec: {one_line(end)}") from None
        self.base = executor.cgroups.path if executor.cgroups.version == 2 else None
        return executor

    def _enforced(self, order: Order) -> dict[str, str]:
        contained = "hard" if self.isolated else "none"
        return HELD | {"cores": "hard" if order.cpus else "none", "network": contained, "files": contained}

    def _complaint(self) -> str:
        """The first of what BenchExec complained about in a run."""
        self.log.seek(0)
        return self.log.readline().strip(" .\n")


def surroundings(order: Order, folder: Path) -> list[str]:
    """What a run finds in its environment that is not the supervisor's: its own folder and number of threads."""
    return [f"HOME={folder}", f"TMPDIR={folder}", *(f"{name}={order.limits.cores}" for name in THREAD_VARIABLES)]


def worker_command(job: Mapping[str, Any]) -> list[str]:
    """The child side of a run as a command; its channel is the standard input, other files are closed on the way."""
    text = json.dumps({**job, "channel": 0})
    pieces = (text[at : at + PIECE] for at in range(0, len(text), PIECE))
    return [sys.executable, "-P", "-m", "harness.sandbox.worker", "run", *pieces]


def one_line(error: BaseException) -> str:
    """What BenchExec says when it gives up, often a page, as one line."""
    return " ".join(str(error).split())[:300].rstrip(".")


class Run:
    """A run that is under way: a thread waits in BenchExec for its end, and for all that is to be cleared up."""

    def __init__(
        self,
        executor: Executor,
        call: Mapping[str, Any],
        ends: list[int],
        enforced: dict[str, str],
        complaint: Callable[[], str],
    ) -> None:
        self.executor = executor
        self.enforced = enforced
        self.complaint = complaint
        self.folder = call["workingDir"]
        self.memory = call["memlimit"]
        self.result: dict[str, Any] = {}
        self.failure = ""
        self.process: int | None = None  # file descriptor of the run's first process
        self.cgroups: Cgroups | None = None
        self.exited_at: float | None = None
        self.exit_fd: int | None = None  # also for `process`, once there is one
        self.scratch: int | None = None  # the run's own folder, as it sees it, open
        self.diagnostics: socket.socket | None = None  # of its sockets, where no control group counts them
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
        """Exit status of the first process; None while it is not known. BackendError if BenchExec could not start it.

        Where BenchExec does not come to an end with what the run has left, SIGKILL stands for it; `kill` follows.

        One that there was no memory to start counts as killed for that.
        """
        if self.thread.is_alive():
            self._find()
            if self.exited_at is None and self.process is not None and select.select([self.process], [], [], 0)[0]:
                self.exited_at = time.monotonic()
            if self.exited_at is None:
                return None
            if time.monotonic() > self.exited_at + HELP_S:
                self.kill_all()
            self.thread.join(CLEAR_S)
            return None if time.monotonic() < self.exited_at + END_S else -signal.SIGKILL
        if self.failure and not self._full:
            raise BackendError(f"BenchExec: {self.failure}")
        return self._status()

    def usage(self) -> Usage:
        """What all processes use."""
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
        """Bytes that its control group and its sockets hold now; 0 where the former counts the latter.

        Without the files on disks that the group holds, since it lets go of them where others need memory.
        """
        in_sockets = 0 if self.diagnostics is None else socket_memory.held_by_uncounted(self.diagnostics)
        if not in_sockets or self.cgroups is None:
            return 0
        in_group = int(self.cgroups.get_value(self.cgroups.MEMORY, "usage_in_bytes"))
        parts = dict(self.cgroups.get_key_value_pairs(self.cgroups.MEMORY, "stat"))
        return in_group - int(parts["total_cache"]) + int(parts["total_shmem"]) + in_sockets

    def kill_all(self) -> None:
        """See `RunHandle`. Process 1, which is BenchExec's, goes on: it has to tell how the first of the run ended."""
        control_groups.kill([self.cgroups[self.cgroups.MEMORY]] if self.cgroups is not None else [])
        for group in self.executor.groups:
            control_groups.thaw(group)
        if self.process is not None:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self.process, signal.SIGKILL)

    def kill(self) -> Usage:
        """End all processes, wait until all is cleared up, and say what was used."""
        end = (self.exited_at or time.monotonic()) + END_S
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
        """Take hold of the first process and of its control groups, once there are any."""
        with self.executor.SUB_PROCESS_PIDS_LOCK:
            first = next(iter(self.executor.SUB_PROCESS_PIDS), None)
        if first is None or self.process is not None:
            return
        try:
            self.process = self.exit_fd = os.pidfd_open(first)
        except ProcessLookupError:  # it has ended before it was ever seen
            self.exited_at = self.exited_at or time.monotonic()
            return
        with contextlib.suppress(OSError):
            with open(f"/proc/{first}/cgroup") as lines:
                found = Cgroups.from_system(lines)
            # A process that has ended may be shown in a group of others, which are not ours to measure or to kill.
            if all(self._is_below(found, controller) for controller in (found.MEMORY, found.CPU)):
                self.cgroups = found
                self.scratch = os.open(f"/proc/{first}/root{self.folder}", os.O_RDONLY | os.O_DIRECTORY)
                if found.version == 1 and self.executor.room is not None:
                    self.diagnostics = socket_memory.open_diagnostics_of(first)

    def _is_below(self, found: Cgroups, controller: str) -> bool:
        """Whether the group that was found for a controller is one that BenchExec made for a run, below its own."""
        return controller in found and Path(self.executor.cgroups[controller]) in Path(found[controller]).parents

    @property
    def _full(self) -> bool:
        """Whether the control group was as full as it may be."""
        return 0 < self.memory < self.executor.most + CHARGE

    def _status(self) -> int:
        if self.failure:
            return -signal.SIGKILL
        code = self.result["exitcode"]
        return -code.signal if code.signal else code.value

    def _used(self) -> Usage:
        """What BenchExec measured; one that was refused memory has used all that it may.

        What is resident beyond the limit is not the run's alone: its control group has not held so much.
        """
        if self.thread.is_alive():
            return Usage()
        if self.failure:
            return Usage(peak=max(self.executor.most, self.memory * self._full), out_of_memory=self._full)
        status, resident = self._status(), self.result["resident"]
        told = self.result.get("terminationreason") == "memory" and status != 0
        refused = told or (self._full and status == -signal.SIGKILL)
        peak = max(self.result["memory"], resident * (resident <= self.memory), self.memory * refused)
        return Usage(peak=peak, cpu_s=self.result["cputime"], out_of_memory=refused)
