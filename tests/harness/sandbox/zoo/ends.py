"""Solvers that end in unusual ways, or not at all."""

import ctypes
import os
import signal
import sys
import threading
import time

from _reporting import reporting

from shardmark.solvers.registry import Declined, solver


class Unprintable(Exception):
    """An exception that has no text."""

    def __str__(self):
        raise ValueError("no text")


def fail(error):
    """Raise an exception."""
    raise error


#: Ends without a report, by the name of the solver.
ENDS = {
    "segfaults": lambda: ctypes.string_at(0),
    "aborts": os.abort,
    "exits-with-zero": lambda: fail(SystemExit(0)),
    "exits-with-a-text": lambda: fail(SystemExit("that is all")),
    "raises-generator-exit": lambda: fail(GeneratorExit),
    "raises-the-unprintable": lambda: fail(Unprintable),
    "declines-at-length": lambda: fail(Declined("no,\nthank you\n\n" * 10_000)),
    "hangs-in-c": lambda: ctypes.PyDLL(None).sleep(3600),
}
#: Ends after a report.
LATER_ENDS = {
    "interrupts": lambda: fail(KeyboardInterrupt),
    "stops-itself": lambda: os.kill(os.getpid(), signal.SIGSTOP),
}


@solver(track="pipeline", variants={name: {"how": name} for name in ENDS})
def ends(instance, run, how):
    """End at once."""
    ENDS[how]()


@solver(track="pipeline", variants={name: {"how": name} for name in LATER_ENDS})
def reports_and_ends(instance, run, how):
    """Report, then end."""
    run.report([0] * instance.nodes)
    LATER_ENDS[how]()


@reporting
def segfaults_in_a_thread(instance, run):
    """Report, then read address zero in a thread."""
    threading.Thread(target=ctypes.string_at, args=(0,)).start()
    time.sleep(60)


@solver(track="pipeline")
def recurses(instance, run):
    """Call itself forever."""
    return recurses(instance, run)


@solver(track="pipeline")
def overflows_the_stack(instance, run):
    """Recurse through C in a thread with a small stack, past Python's recursion guard."""

    @ctypes.CFUNCTYPE(None)
    def deeper():
        deeper()

    sys.setrecursionlimit(10**6)
    threading.stack_size(1 << 16)
    threading.Thread(target=deeper).start()
    time.sleep(60)


@solver(track="pipeline")
def sleeps_through_sigterm(instance, run):
    """Ignore every signal that can be ignored, block those that can be blocked, and sleep."""
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        if number < signal.SIGRTMIN:
            signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    run.report([0] * instance.nodes)
    time.sleep(3600)


@solver(track="pipeline")
def spins(instance, run):
    """Compute forever, at the highest priority that the system grants."""
    for urgent in (lambda: os.nice(-20), lambda: os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))):
        try:
            urgent()
        except OSError as error:
            print(error)
    while True:
        pass


@solver(track="pipeline")
def turns_the_clock_back(instance, run):
    """Stop the clocks that it can reach, and work by them."""
    time.monotonic = time.time = time.perf_counter = lambda: 0.0
    run.deadline = float("inf")
    run.report([0] * instance.nodes)
    while run.remaining() > 0:
        time.sleep(0.01)


@reporting
def is_done_and_hangs(instance, run):
    """Say that it is done, and stay."""
    run.send("done", 0)
    time.sleep(3600)


@solver(track="pipeline")
def declines_and_hangs(instance, run):
    """Say that it declines, and stay."""
    run.send("declined", "no time")
    time.sleep(3600)


@reporting
def is_done_and_dies(instance, run):
    """Say that it is done, and die."""
    run.send("done", 0)
    os.kill(os.getpid(), signal.SIGKILL)


@solver(track="pipeline")
def reports_at_exit(instance, run):
    """Return while a thread keeps reporting."""
    reporter = threading.Thread(target=lambda: [run.report([0, 0, 1, 1]) for _ in range(10_000)], daemon=True)
    run.report([0, 0, 1, 1])
    reporter.start()
    return [0] * instance.nodes
