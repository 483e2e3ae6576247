"""Isolation of a run by Linux namespaces: no network, no other processes, no files to write but in its scratch folder.

The supervisor forks into new namespaces. The child is process 1 of the run's process namespace and mounts what the run
finds: everything read-only, a scratch folder and ``/tmp`` in memory, a few devices. Its own child, process 2, drops all
capabilities and becomes the solver. When process 1 ends, the kernel kills all others; it dies with the supervisor, so
no process of a run outlives the supervisor.

Without capabilities a run can mount nothing, and it can make no namespaces except user namespaces, in which it would
have capabilities again; their number is limited to 0. In backend ``benchexec``, BenchExec makes the
namespaces, and the same is mounted.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import math
import os
import platform
import resource
import signal
import socket
import stat
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from shardmark.harness.sandbox.backends import prctl, seccomp
from shardmark.harness.sandbox.backends.mounts import (
    BIND,
    NODEV,
    NOEXEC,
    NOSUID,
    PRIVATE,
    READ_ONLY,
    RECURSIVE,
    REMOUNT,
    bind,
    lines,
    make_read_only,
    mount,
    mount_tmpfs,
)
from shardmark.harness.sandbox.backends.visible_files import NO_VIEW, View, mount_view, open_paths
from shardmark.harness.sandbox.contract import BackendError
from shardmark.harness.sandbox.memory import largest_bytes
from shardmark.harness.sandbox.meters.socket_memory import open_diagnostics
from shardmark.harness.sandbox.signals import MAX_FILES, reset_signals

# Flags of clone(2).
NEWNS = 0x20000
NEWIPC = 0x8000000
NEWUSER = 0x10000000
NEWPID = 0x20000000
NEWNET = 0x40000000
CLONE_PARENT = 0x8000
# Arguments of ioctl(2) that bring a network interface up.
SIOCSIFFLAGS = 0x8914
IFF_UP = 1

DEVICES = ("null", "zero", "full", "random", "urandom")  # devices in ``/dev`` of a run
#: File below ``/proc/sys``: the number of user namespaces, in which a run would have capabilities again.
USER_NAMESPACES = "user/max_user_namespaces"
#: Files below ``/proc/sys``: limits on System V memory, which can outlive the processes that use it.
UNHELD_MEMORY = ("kernel/shmall", "kernel/msgmni")
SMALL = 1 << 16  # bytes of the file systems of a trial, and of those that only hide others
SETUP_S = 30.0  # seconds within which process 1 must have mounted everything
RETRY_S = 0.05  # seconds between two attempts of process 1 to end itself
#: Scratch folder of a trial: it lies in the run's own memory, so no file is left to delete.
TRIAL_FOLDER = Path("/dev/shm/trial")


@dataclass(frozen=True)
class Sandbox:
    """The file systems of an isolated run: its scratch folder, bytes for files there and in ``/tmp``, in ``/dev/shm``.

    ``view`` says which files the run can read; ``sockets`` are those of services, which it cannot connect to. At
    ``until``, a value of `time.monotonic`, process 1 ends the run by itself, even if the supervisor is busy.
    """

    scratch: Path
    scratch_bytes: int
    shared_bytes: int
    view: View = NO_VIEW
    sockets: tuple[str, ...] = ()
    until: float = math.inf


class IsolatedProcess:
    """The supervisor's handle on an isolated run, whose process 1 is ``init``.

    ``proc`` is the run's own proc file system, ``scratch`` and ``shared`` its file systems in memory, all three open
    folders; ``diagnostics`` is a diagnostic socket of its network. ``setup_cpu_s`` and ``setup_peak`` (bytes) were used
    before the solver began.
    """

    def __init__(self, init: int, link: socket.socket) -> None:
        self.init, self.link = init, link
        self.status: int | None = None
        self.setup_cpu_s, self.setup_peak = 0.0, 0
        link.settimeout(SETUP_S)
        try:
            self.scratch, self.shared, self.proc, diagnostics = self._receive()
            self.diagnostics = socket.socket(fileno=diagnostics)
        except BaseException as error:
            self.kill()
            os.waitpid(init, 0)
            link.close()
            raise BackendError(f"isolation: {error}") from None
        link.setblocking(False)

    def ended(self) -> int | None:
        """Return the exit status of the solver as `os.waitstatus_to_exitcode` does; None while it is alive."""
        if self.status is None:
            with contextlib.suppress(BlockingIOError):
                self._receive()
        return self.status

    def kill(self) -> None:
        """Kill all its processes; waiting for process 1 returns the usage of all."""
        os.kill(self.init, signal.SIGKILL)

    def close(self) -> None:
        self.link.close()
        self.diagnostics.close()
        for folder in (self.scratch, self.shared, self.proc):
            os.close(folder)

    def _receive(self) -> list[int]:
        """Receive a message of process 1; return the open files that come with it."""
        text, folders, _, _ = socket.recv_fds(self.link, 1 << 16, 4)
        if not text:  # process 1 was killed, and all others with it
            self.status = -signal.SIGKILL
            return folders
        message = json.loads(text)
        if "error" in message:
            raise BackendError(message["error"])
        self.status = message.get("status")
        self.setup_cpu_s = message["cpu_s"]
        self.setup_peak = message["peak"]
        return folders


def start(sandbox: Sandbox, body: Callable[[], None]) -> IsolatedProcess:
    """Fork an isolated process that calls ``body``, which must not return; BackendError if the system refuses.

    The calling process must have one thread.
    """
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        try:
            init = fork_init(sandbox, theirs, body)
        except BackendError:
            ours.close()
            raise
    return IsolatedProcess(init, ours)


def fork_init(sandbox: Sandbox, link: socket.socket, body: Callable[[], None], *, sibling: bool = False) -> int:
    """Fork process 1, which reports to an `IsolatedProcess` over ``link``; return its process id.

    It is a child of this process, or with ``sibling`` of its parent. BackendError if the system refuses. The calling
    process must have one thread.
    """
    if platform.machine() != prctl.PROCESSOR:
        raise BackendError(f"isolation: expected a processor {prctl.PROCESSOR}, found {platform.machine()}")
    owner = os.geteuid(), os.getegid()
    sandbox = replace(sandbox, sockets=named_sockets())
    try:
        init = prctl.clone_into(NEWUSER | NEWPID | NEWNS | NEWNET | NEWIPC | (CLONE_PARENT if sibling else 0))
    except OSError as error:
        raise BackendError(f"isolation: {error.strerror}") from None
    if init == 0:
        _run_init(sandbox, owner, link, body)
    return init


def isolation_error() -> str:
    """Return why this process, which must have one thread, cannot isolate runs; "" if it can."""
    try:
        run = start(Sandbox(TRIAL_FOLDER, SMALL, SMALL), lambda: os._exit(0))
    except BackendError as error:
        return str(error)
    run.kill()
    os.waitpid(run.init, 0)
    run.close()
    return ""


def isolation_error_in_subprocess() -> str:
    """Return `isolation_error` of a new process, for a program that has threads."""
    command = [sys.executable, "-P", "-m", "shardmark.harness.sandbox.backends.namespaces"]
    return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True).stdout.strip()


# ---------------------------------------------------------------- process 1 and process 2


def _run_init(sandbox: Sandbox, owner: tuple[int, int], link: socket.socket, body: Callable[[], None]) -> None:
    """Run process 1 for an owner (user id, group id); never returns."""
    try:
        reset_signals()  # process 1 receives no signal of the run that it does not handle
        prctl.die_with_parent()
        _map_owner(*owner)
        _raise_loopback()
        Path("/proc/self/oom_score_adj").write_text("1000")  # if the system runs out of memory, it kills the run
        mount_sandbox(sandbox)
        mount_proc()
        open_folders = [os.open(path, os.O_RDONLY | os.O_DIRECTORY) for path in (".", "/dev/shm", "/proc")]
        with open_diagnostics() as diagnostics:
            seccomp.hide_kernel_memory(memfds=False)
            socket.send_fds(link, [_used()], [*open_folders, diagnostics.fileno()])
        solver = os.fork()
        if solver == 0:
            link.close()
            prctl.drop_capabilities()
            body()
        if sandbox.until < math.inf:
            _end_at(sandbox.until)
        _wait_for(solver, link)
    except BaseException as error:
        with contextlib.suppress(OSError):
            link.send(json.dumps({"error": getattr(error, "strerror", None) or repr(error)}).encode())
    finally:
        os._exit(1)


def _end_at(until: float) -> None:
    """End this process, and so the run, at a time of `time.monotonic`; a signal of the run cannot end it before."""
    signal.signal(signal.SIGALRM, lambda *_: time.monotonic() < until or os._exit(1))
    signal.setitimer(signal.ITIMER_REAL, max(0.001, until - time.monotonic()), RETRY_S)


def _map_owner(user: int, group: int) -> None:
    """Have the same user and group in the new namespace as outside, and no other."""
    prctl.set_dumpable(True)  # else the files below belong to root
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
    Path("/proc/self/gid_map").write_text(f"{group} {group} 1")


def _raise_loopback() -> None:
    """Let the processes of the run reach each other, and no others, over the network."""
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sh22x", b"lo", IFF_UP))


def _wait_for(solver: int, link: socket.socket) -> None:
    """Wait for every process that ends until the solver does; report its exit status."""
    os.closerange(0, link.fileno())
    os.closerange(link.fileno() + 1, MAX_FILES)
    while (ended := os.wait())[0] != solver:
        pass
    link.send(_used(status=os.waitstatus_to_exitcode(ended[1])))


def _used(**more: int) -> bytes:
    """Return a message with the usage of process 1 itself."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return json.dumps({"cpu_s": used.ru_utime + used.ru_stime, "peak": largest_bytes(used), **more}).encode()


def mount_sandbox(sandbox: Sandbox) -> None:
    """Mount all that the run finds except ``/proc``, in its own namespaces; enter the scratch folder."""
    mount(None, "/", None, RECURSIVE | PRIVATE)
    make_read_only()
    shown = open_paths(sandbox.view.shown)
    _mount_dev(sandbox.shared_bytes)
    mount_view([*shown, (sandbox.scratch, _mount_tmp(sandbox.scratch_bytes))], sandbox.view.hidden)
    for socket_ in filter(_is_socket, sandbox.sockets):
        bind("/dev/null", socket_)
    os.chdir(sandbox.scratch)


def mount_proc() -> None:
    """Mount a read-only ``/proc`` of the run's processes; forbid user namespaces and memory that no process holds."""
    mount("proc", "/proc", "proc", NOSUID | NODEV | NOEXEC)
    Path("/proc/sys", USER_NAMESPACES).write_text("0")
    for name in UNHELD_MEMORY:
        with contextlib.suppress(OSError):  # the system does not allow it
            Path("/proc/sys", name).write_text("0")
    mount(None, "/proc", None, REMOUNT | BIND | READ_ONLY | NOSUID | NODEV | NOEXEC)


def named_sockets() -> tuple[str, ...]:
    """Return the absolute paths of the bound sockets of this network; a new network namespace does not hide them.

    Relative paths are left out: the system does not say which folder they are relative to.
    """
    try:
        found = lines("/proc/self/net/unix")
    except OSError:
        return ()
    return tuple({words[7] for line in found if len(words := line.split(maxsplit=7)) == 8 and words[7][0] == "/"})


def _is_socket(path: str) -> bool:
    try:
        return stat.S_ISSOCK(os.stat(path).st_mode)
    except (OSError, ValueError):
        return False


def _mount_dev(shared_bytes: int) -> None:
    """Mount a ``/dev`` with the devices that programs need and none that reaches a disk, even for root."""
    os.chdir("/dev")  # the old devices are still reached by relative names once the new folder hides them
    mount_tmpfs("/dev", SMALL, "0755")
    for name in DEVICES:
        if os.path.exists(name):
            Path("/dev", name).touch()
            bind(name, f"/dev/{name}")
    for name, target in {"fd": "", "stdin": "/0", "stdout": "/1", "stderr": "/2"}.items():
        os.symlink(f"/proc/self/fd{target}", f"/dev/{name}")
    os.mkdir("/dev/shm")
    mount_tmpfs("/dev/shm", shared_bytes, "1777")


def _mount_tmp(size: int) -> int:
    """Mount an empty ``/tmp`` in memory; return the open scratch folder, which lies in the same file system."""
    mount_tmpfs("/tmp", size, "0700")
    os.chdir("/tmp")
    for name in ("tmp", "scratch"):
        os.mkdir(name)
    os.chmod("tmp", 0o1777)
    bind("tmp", "/tmp")
    return os.open("scratch", os.O_PATH)


if __name__ == "__main__":
    print(isolation_error())
