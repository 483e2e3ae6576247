"""Isolation of a run by Linux namespaces: no network, no files to write but in its scratch folder, no other processes.

The supervisor forks into new namespaces. That child, process 1 among the run's processes, furnishes them: everything
read-only, a scratch folder and ``/tmp`` in memory, few devices. Its own child, process 2, gives up all rights and
becomes the solver. When process 1 ends or is killed, the kernel ends all others; it dies with the supervisor, so
nothing of a run outlives the supervisor.

Without rights a run can mount nothing, by no call of the system, and make no namespaces but those of a user, in which
it would have rights again; the number of these is limited to none. Backend ``benchexec`` has namespaces by BenchExec
and furnishes them in the same way.
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

from harness.sandbox.backends import prctl, seccomp
from harness.sandbox.backends.mounts import (
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
from harness.sandbox.backends.socket_memory import open_diagnostics
from harness.sandbox.backends.view import NO_VIEW, View, cover, hold
from harness.sandbox.contract import BackendError
from harness.sandbox.memory import largest_bytes
from harness.sandbox.signals import MOST_FILES, reset_signals

NEWNS, NEWIPC, NEWUSER, NEWPID, NEWNET = 0x20000, 0x8000000, 0x10000000, 0x20000000, 0x40000000
OF_PARENT = 0x8000
SIOCSIFFLAGS, IFF_UP = 0x8914, 1

DEVICES = ("null", "zero", "full", "random", "urandom")
NO_NAMESPACES = "user/max_user_namespaces"  # in these a run would have rights again
NO_MEMORY = ("kernel/shmall", "kernel/msgmni")  # that no process need hold: System V's
SMALL = 1 << 16  # bytes of file systems that are there to hide others
SETUP_S = 30.0
AGAIN_S = 0.05
TRIAL = Path("/dev/shm/trial")  # a folder in memory of the run's own: nothing to be deleted


@dataclass(frozen=True)
class Sandbox:
    """What a run finds: its scratch folder, bytes for files there and in ``/tmp``, bytes for ``/dev/shm``.

    ``view`` says which files it can read, ``sockets`` are those of services, which it cannot call. At ``until`` in
    `time.monotonic` process 1 ends it by itself, however long the supervisor looks at something.
    """

    scratch: Path
    scratch_bytes: int
    shared_bytes: int
    view: View = NO_VIEW
    sockets: tuple[str, ...] = ()
    until: float = math.inf


class IsolatedProcess:
    """An isolated run as the supervisor holds it; ``init`` is its process 1.

    ``proc`` is its own proc file system, ``scratch`` and ``shared`` are its file systems in memory, all three open
    folders; ``diagnostics`` tells of its sockets. ``setup_cpu_s`` and ``setup_peak`` (bytes) are what was used before
    the solver began.
    """

    def __init__(self, init: int, link: socket.socket) -> None:
        self.init = init
        self.link = link
        self.status: int | None = None
        self.setup_cpu_s = 0.0
        self.setup_peak = 0
        link.settimeout(SETUP_S)
        try:
            self.scratch, self.shared, self.proc, diagnostics = self._hear()
            self.diagnostics = socket.socket(fileno=diagnostics)
        except BaseException as error:
            self.kill()
            os.waitpid(init, 0)
            link.close()
            raise BackendError(f"isolation: {error}") from None
        link.setblocking(False)

    def ended(self) -> int | None:
        """Exit status of the solver as `os.waitstatus_to_exitcode` gives it; None while it is alive."""
        if self.status is None:
            with contextlib.suppress(BlockingIOError):
                self._hear()
        return self.status

    def kill(self) -> None:
        """End all its processes; what they used is that of process 1 once it has been waited for."""
        os.kill(self.init, signal.SIGKILL)

    def close(self) -> None:
        """Let go of its file systems."""
        self.link.close()
        self.diagnostics.close()
        for folder in (self.scratch, self.shared, self.proc):
            os.close(folder)

    def _hear(self) -> list[int]:
        """Take one message of process 1, and the folders that come with it."""
        text, folders, _, _ = socket.recv_fds(self.link, 1 << 16, 4)
        if not text:  # it was killed, and all others with it
            self.status = -signal.SIGKILL
            return folders
        message = json.loads(text)
        if "error" in message:
            raise BackendError(message["error"])
        self.status = message.get("status")
        self.setup_cpu_s = message["cpu_s"]
        self.setup_peak = message["peak"]
        return folders


def start(room: Sandbox, become: Callable[[], None]) -> IsolatedProcess:
    """Fork an isolated process that calls ``become``, which must not return; BackendError if the system refuses.

    The calling process must have one thread.
    """
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        try:
            init = spawn(room, theirs, become)
        except BackendError:
            ours.close()
            raise
    return IsolatedProcess(init, ours)


def spawn(room: Sandbox, link: socket.socket, become: Callable[[], None], *, of_parent: bool = False) -> int:
    """Fork process 1, which speaks to an `IsolatedProcess` over a link; a child of this process, or of its parent.

    BackendError if the system does not let us. The calling process must have one thread.
    """
    if sys.platform != "linux" or platform.machine() not in prctl.CLONE:
        raise BackendError(f"isolation: no namespaces are known of {sys.platform} on {platform.machine()}")
    owner = os.geteuid(), os.getegid()
    room = replace(room, sockets=named_sockets())
    try:
        init = prctl.clone_into(NEWUSER | NEWPID | NEWNS | NEWNET | NEWIPC | (OF_PARENT if of_parent else 0))
    except OSError as error:
        raise BackendError(f"isolation: {error.strerror}") from None
    if init == 0:
        _begin(room, owner, link, become)
    return init


def isolation_error() -> str:
    """Why this process, which must have one thread, cannot isolate runs; "" if it can."""
    try:
        run = start(Sandbox(TRIAL, SMALL, SMALL), lambda: os._exit(0))
    except BackendError as error:
        return str(error)
    run.kill()
    os.waitpid(run.init, 0)
    run.close()
    return ""


def isolation_error_in_subprocess() -> str:
    """`isolation_error`, found out in a process of its own: for a program that has threads."""
    command = [sys.executable, "-P", "-m", "harness.sandbox.backends.namespaces"]
    return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True).stdout.strip()


# ---------------------------------------------------------------- process 1 and process 2


def _begin(room: Sandbox, owner: tuple[int, int], link: socket.socket, become: Callable[[], None]) -> None:
    """What process 1 does, for a user and a group; never returns."""
    try:
        reset_signals()  # it is safe from those that it does not handle
        prctl.die_with_parent()
        _map(*owner)
        _raise_loopback()
        Path("/proc/self/oom_score_adj").write_text("1000")  # if the system must end something, the run
        mount_sandbox(room)
        mount_proc()
        open_folders = [os.open(path, os.O_RDONLY | os.O_DIRECTORY) for path in (".", "/dev/shm", "/proc")]
        with open_diagnostics() as diagnostics:
            seccomp.hide_kernel_memory(memfds=False)
            socket.send_fds(link, [_used()], [*open_folders, diagnostics.fileno()])
        solver = os.fork()
        if solver == 0:
            link.close()
            prctl.drop_capabilities()
            become()
        if room.until < math.inf:
            _end_at(room.until)
        _wait_for(solver, link)
    except BaseException as error:
        with contextlib.suppress(OSError):
            link.send(json.dumps({"error": getattr(error, "strerror", None) or repr(error)}).encode())
    finally:
        os._exit(1)


def _end_at(until: float) -> None:
    """End this process, and the run with it, at that time of `time.monotonic`; by no signal of the run's before it."""
    signal.signal(signal.SIGALRM, lambda *_: time.monotonic() < until or os._exit(1))
    signal.setitimer(signal.ITIMER_REAL, max(0.001, until - time.monotonic()), AGAIN_S)


def _map(user: int, group: int) -> None:
    """Be in the new namespace the user and the group that this was outside, and no other."""
    prctl.set_dumpable(True)  # else the maps belong to root
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
    Path("/proc/self/gid_map").write_text(f"{group} {group} 1")


def _raise_loopback() -> None:
    """Let the processes of the run, and nobody else, speak to each other over the network."""
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sh22x", b"lo", IFF_UP))


def _wait_for(solver: int, link: socket.socket) -> None:
    """Wait for all who end, and tell how the solver ended."""
    os.closerange(0, link.fileno())
    os.closerange(link.fileno() + 1, MOST_FILES)
    while (ended := os.wait())[0] != solver:
        pass
    link.send(_used(status=os.waitstatus_to_exitcode(ended[1])))


def _used(**more: int) -> bytes:
    """A message about what process 1 itself has used."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return json.dumps({"cpu_s": used.ru_utime + used.ru_stime, "peak": largest_bytes(used), **more}).encode()


def mount_sandbox(room: Sandbox) -> None:
    """Mount what the run finds, in namespaces of its own, but for ``/proc``; ends in the scratch folder."""
    mount(None, "/", None, RECURSIVE | PRIVATE)
    make_read_only()
    held = hold(room.view.shown)
    _mount_dev(room.shared_bytes)
    cover([*held, (room.scratch, _mount_tmp(room.scratch_bytes))], room.view.hidden)
    for socket_ in filter(_is_socket, room.sockets):
        bind("/dev/null", socket_)
    os.chdir(room.scratch)


def mount_proc() -> None:
    """Mount a ``/proc`` of the run's own processes, read-only, and let there be nothing that nobody would hold.

    That is a user's namespaces, and memory of no process.
    """
    mount("proc", "/proc", "proc", NOSUID | NODEV | NOEXEC)
    Path("/proc/sys", NO_NAMESPACES).write_text("0")
    for name in NO_MEMORY:
        with contextlib.suppress(OSError):  # where the system does not let us
            Path("/proc/sys", name).write_text("0")
    mount(None, "/proc", None, REMOUNT | BIND | READ_ONLY | NOSUID | NODEV | NOEXEC)


def named_sockets() -> tuple[str, ...]:
    """Paths of the sockets that processes in this network have bound to one; another network does not keep them off.

    Absolute paths only: the system does not say which folder another is relative to.
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
    """A ``/dev`` with what every program may need, and nothing that reaches a disk, even for root."""
    os.chdir("/dev")  # the devices that there are, by names of one word, also when the new folder hides them
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
    """An empty ``/tmp``; the scratch folder, open, which lies in the same file system in memory."""
    mount_tmpfs("/tmp", size, "0700")
    os.chdir("/tmp")
    for name in ("tmp", "scratch"):
        os.mkdir(name)
    os.chmod("tmp", 0o1777)
    bind("tmp", "/tmp")
    return os.open("scratch", os.O_PATH)


if __name__ == "__main__":
    print(isolation_error())
