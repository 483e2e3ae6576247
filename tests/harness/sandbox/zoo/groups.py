"""Solvers that try to change their control groups: by the system's folder, or by their own mount.

Control groups of version 1 have a hierarchy per controller, those of version 2 one for all.
"""

import ctypes
import itertools
import os
import signal
import threading
import time
from pathlib import Path

from _reporting import reporting

NEWNS, NEWCGROUP, NEWUSER = 0x20000, 0x2000000, 0x10000000
CLONE3, INTO_CGROUP = 435, 1 << 33
MANY = 300  # number of processes at which a storm stops itself if the referee does not
THREADS = 3000


def own_group(controller):
    """Return the folder of this process's control group; PermissionError if it may not write there."""
    groups = [line.split(":", 2) for line in Path("/proc/self/cgroup").read_text().splitlines()]
    path = next(path for _, names, path in groups if controller in names.split(",") or not names)
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        words, (kind, _, options) = line.split(" - ")[0].split(), line.split(" - ")[1].split(" ")
        if kind == "cgroup2" or (kind == "cgroup" and controller in options.split(",")):
            folder = Path(words[4] + path)
            if (folder / "cgroup.procs").exists() and os.access(folder / "cgroup.procs", os.W_OK):
                return folder
    raise PermissionError("no control group here can be written to")


def mounted(controller):
    """Return the same in new namespaces, in which a process has rights that it may lack outside."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(NEWUSER | NEWNS | NEWCGROUP):
        raise PermissionError(f"no namespaces: {os.strerror(ctypes.get_errno())}")
    place = Path(f"hierarchy-{controller}").resolve()
    place.mkdir()
    for kind in (b"cgroup", b"cgroup2"):
        if libc.mount(kind, bytes(place), kind, 0, controller.encode() if kind == b"cgroup" else None) == 0:
            return place
    raise PermissionError(f"no mount: {os.strerror(ctypes.get_errno())}")


def try_for(controller):
    """Return the control group of a controller, or None with the reasons in the log."""
    for way in (own_group, mounted):
        try:
            return way(controller)
        except (OSError, StopIteration) as error:
            print(f"{way.__name__}: {error}", flush=True)
    return None


def move(group, *pids):
    """Move processes into a group, made if need be."""
    group.mkdir(exist_ok=True)
    for pid in pids:
        (group / "cgroup.procs").write_text(str(pid))


@reporting
def freezes_process_1(instance, run):
    """Freeze the first process of its namespace, so that no signal ends it."""
    freeze("1" if os.getpid() < 10 else None)


@reporting
def freezes_itself(instance, run):
    """Freeze every process of its own, so that no signal ends them."""
    if os.fork() == 0:
        time.sleep(600)
    freeze(str(os.getpid()))


def freeze(pid):
    group = try_for("freezer")
    if group and pid:
        child = group / "frozen"
        move(child, pid)
        for name, word in (("freezer.state", "FROZEN"), ("cgroup.freeze", "1")):
            if (child / name).exists():
                (child / name).write_text(word)
    time.sleep(600)


@reporting
def hides_its_cpu_time(instance, run):
    """Compute, and write again and again that it has not."""
    group = try_for("cpuacct")
    while True:
        end = time.process_time() + 0.02
        while time.process_time() < end:
            pass
        if group and (group / "cpuacct.usage").exists():
            (group / "cpuacct.usage").write_text("0")


@reporting
def hides_its_children(instance, run):
    """Start children, each at once moved into a control group of its own."""
    group = try_for("memory")
    for number in range(MANY):
        child = os.fork()
        if child == 0:
            time.sleep(600)
        if group:
            move(group / f"child-{number}", child)
    time.sleep(600)


@reporting
def leaves_its_group(instance, run):
    """Start children by a call that puts them into another control group, given any folder of one."""
    libc = ctypes.CDLL(None, use_errno=True)
    for folder in itertools.islice((path for path in Path("/sys/fs/cgroup").rglob("*/") if path.is_dir()), 20):
        group = os.open(folder, os.O_PATH | os.O_DIRECTORY)
        arguments = (ctypes.c_uint64 * 11)(INTO_CGROUP, 0, 0, 0, signal.SIGCHLD, 0, 0, 0, 0, 0, group)
        child = libc.syscall(CLONE3, arguments, ctypes.c_size_t(ctypes.sizeof(arguments)))
        if child == 0:
            time.sleep(600)
        print(folder if child > 0 else os.strerror(ctypes.get_errno()))
        os.close(group)


@reporting
def thread_horde(instance, run):
    """Start threads until there are 3,000."""
    threading.stack_size(1 << 16)
    for _ in range(THREADS):
        threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
    time.sleep(600)
