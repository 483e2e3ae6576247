"""Solvers that start processes and threads, leave them behind, or attack processes that are not theirs."""

import contextlib
import ctypes
import hashlib
import os
import resource
import signal
import subprocess
import sys
import threading
import time

from _reporting import reporting

from shardmark.solvers.registry import solver

PTRACE_ATTACH = 16
MANY = 2000  # a storm stops itself here, should the referee not


def in_a_daemon(work):
    """Call a function in a process without parent or session that ignores every signal that can be ignored."""
    reader, writer = os.pipe()
    if os.fork():
        os.wait()
        os.close(writer)
        os.read(reader, 1)
        return
    os.setsid()
    if os.fork():
        os._exit(0)
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    os.write(writer, b"x")
    work()
    os._exit(0)


def burn(seconds=60.0):
    """Use one core."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        hashlib.sha256(bytes(1 << 20)).digest()


def only_with_processes_of_its_own():
    """Refuse to continue if processes of others could be hit."""
    if os.readlink("/proc/self/ns/pid") == os.environ["ZOO_PIDS"]:
        raise RuntimeError("this run can see the processes of others")


@solver(track="pipeline")
def daemonises(instance, run):
    """Leave a daemon behind that sleeps."""
    in_a_daemon(lambda: time.sleep(600))
    return [0] * instance.nodes


@solver(track="pipeline")
def leaves_a_program(instance, run):
    """Leave a program behind, in its own session, that forks again and again."""
    code = "import os, time\nfor _ in range(200):\n    time.sleep(0.02)\n    if os.fork(): os._exit(0)"
    subprocess.Popen([sys.executable, "-c", code], start_new_session=True)
    time.sleep(0.3)
    return [0] * instance.nodes


@reporting
def daemon_burns(instance, run):
    """Compute in daemons that the solver does not wait for."""
    for _ in range(2):
        in_a_daemon(burn)
    time.sleep(60)


@reporting
def unwaited_children_burn(instance, run):
    """Compute in children, one after another, without waiting for them: the system adds their time to no record."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        child = os.fork()
        if child == 0:
            burn(0.012)
            os._exit(0)
        with contextlib.suppress(ProcessLookupError):
            while True:
                os.kill(child, 0)
                time.sleep(0.0005)


@reporting
def children_burn(instance, run):
    """Compute in children, one after another, each too short to be measured."""
    while True:
        if os.fork() == 0:
            burn(0.05)
            os._exit(0)
        os.wait()


@reporting
def process_storm(instance, run):
    """Start processes until there are 2,000."""
    for _ in range(MANY):
        if os.fork() == 0:
            time.sleep(60)
            os._exit(0)
    time.sleep(60)


@reporting
def doubling_storm(instance, run):
    """Double the number of processes until there are 512."""
    for _ in range(9):
        os.fork()
    time.sleep(60)


def in_threads(number, work, *values):
    """Call a function in threads; wait until all have ended."""
    threads = [threading.Thread(target=work, args=values) for _ in range(number)]
    try:
        for thread in threads:
            thread.start()
    finally:
        for thread in threads:
            thread.join()


@solver(track="pipeline")
def thread_storm(instance, run):
    """Start a thousand threads."""
    in_threads(1000, time.sleep, 0.2)
    return [0] * instance.nodes


@solver(track="pipeline")
def fork_and_both_report(instance, run):
    """Fork; both report and both return."""
    child = os.fork()
    run.report([0] * instance.nodes)
    if child:
        os.waitpid(child, 0)


@solver(track="pipeline")
def leaves_its_child_reporting(instance, run):
    """Leave at once while a child keeps reporting."""
    reader, writer = os.pipe()
    if os.fork():
        os.close(writer)
        os.read(reader, 1)
        os._exit(0)
    run.report([0] * instance.nodes)
    os.write(writer, b"x")
    time.sleep(1)
    run.report([0, 0, 1, 1])


@solver(track="pipeline")
def child_holds_the_pipes(instance, run):
    """Return, while a child keeps every pipe open."""
    os.set_inheritable(run._channel, True)
    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], close_fds=False)
    return [0] * instance.nodes


@solver(track="pipeline")
def reads_stdin(instance, run):
    """Start a program that reads all there is to read."""
    subprocess.run(["cat"], check=True)
    return [0] * instance.nodes


@solver(track="pipeline")
def runs_threads(instance, run):
    """Compute in eight threads, having been given one core."""
    in_threads(8, burn, 0.4)
    return [0] * instance.nodes


@solver(track="pipeline")
def takes_all_cores(instance, run):
    """Take every core there is, in every thread, again and again."""

    def greedy():
        end = time.monotonic() + 0.4
        while time.monotonic() < end:
            os.sched_setaffinity(0, range(os.cpu_count() or 1))
            burn(0.01)

    in_threads(4, greedy)
    return [0] * instance.nodes


def attempt(*actions):
    """Do what can be done, say what cannot, and wait for what comes of it."""
    for action in actions:
        try:
            print(action())
        except Exception as error:
            print(type(error).__name__, error)
    time.sleep(0.3)


def parent():
    """Return the process that started this one; if that is invisible, the first visible one."""
    return os.getppid() or 1


#: Attacks on the process that started the solver, by the name of the solver.
DEEDS = {
    "kills-its-parent": lambda: os.kill(parent(), signal.SIGKILL),
    "stops-its-parent": lambda: os.kill(parent(), signal.SIGSTOP),
    "traces-its-parent": lambda: ctypes.CDLL(None).ptrace(PTRACE_ATTACH, parent(), 0, 0),
    "limits-its-parent": lambda: resource.prlimit(parent(), resource.RLIMIT_NOFILE, (3, 3)),
}


@solver(track="pipeline", variants={name: {"deed": name} for name in DEEDS})
def turns_on_its_parent(instance, run, deed):
    """Report, then do something to the process that started it."""
    run.report([0] * instance.nodes)
    attempt(DEEDS[deed])


@solver(track="pipeline")
def kills_everything(instance, run):
    """Kill every process that it may."""
    only_with_processes_of_its_own()
    run.report([0] * instance.nodes)
    attempt(lambda: os.kill(-1, signal.SIGKILL))


@solver(track="pipeline")
def kills_what_it_sees(instance, run):
    """Kill every process in the list of processes."""
    only_with_processes_of_its_own()
    run.report([0] * instance.nodes)
    seen = {int(name) for name in os.listdir("/proc") if name.isdigit()} - {os.getpid()}
    attempt(*(lambda pid=pid: os.kill(pid, signal.SIGKILL) for pid in seen))


@reporting
def writes_into_its_parent(instance, run):
    """Overwrite the memory of the process that started it."""

    def overwrite():
        with open(f"/proc/{parent()}/maps") as maps, open(f"/proc/{parent()}/mem", "r+b", buffering=0) as memory:
            for line in maps:
                where, rights, *_ = line.split()
                if "w" in rights:
                    begin, end = (int(part, 16) for part in where.split("-"))
                    memory.seek(begin)
                    memory.write(b"A" * min(end - begin, 1 << 20))

    attempt(overwrite)


@reporting
def limits_itself(instance, run):
    """Give up every right that can be given up, and return."""
    for name in ("NOFILE", "NPROC", "FSIZE", "CORE", "MEMLOCK", "STACK"):
        resource.setrlimit(getattr(resource, f"RLIMIT_{name}"), (0, 0))


@reporting
def uses_up_its_time(instance, run):
    """Give itself a second of CPU time, and use it up."""
    resource.setrlimit(resource.RLIMIT_CPU, (1, 1))
    burn()


@reporting
def becomes_another_program(instance, run):
    """Replace itself by another program."""
    os.execv("/bin/sh", ["sh", "-c", "echo replaced; exec sleep 0"])


@solver(track="pipeline")
def lists_what_is_open(instance, run):
    """Print its open files: these should be an empty input and pipes to write to."""
    names = [f"/proc/self/fd/{number}" for number in range(4096)]
    print("open:", *(os.readlink(name).split(":")[0] for name in names if os.path.exists(name)))
    run.report([0] * instance.nodes)
