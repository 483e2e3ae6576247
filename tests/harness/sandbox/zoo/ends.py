"""Solvers that end in unusual ways, or not at all."""

import ctypes
import os
import signal
import sys
import threading
import time

from solvers.registry import Declined, solver


@solver(track="pipeline")
def segfaults(instance, run):
    """Read address zero."""
    ctypes.string_at(0)


@solver(track="pipeline")
def segfaults_in_a_thread(instance, run):
    """Report, then read address zero in a thread."""
    run.report([0] * instance.nodes)
    threading.Thread(target=ctypes.string_at, args=(0,)).start()
    time.sleep(60)


@solver(track="pipeline")
def aborts(instance, run):
    """Call abort."""
    os.abort()


@solver(track="pipeline")
def recurses(instance, run):
    """Call itself for ever."""
    return recurses(instance, run)


@solver(track="pipeline")
def overflows_the_stack(instance, run):
    """Recurse through C in a thread with a small stack, with no guard of Python's in the way."""

    @ctypes.CFUNCTYPE(None)
    def deeper():
        deeper()

    sys.setrecursionlimit(10**6)
    threading.stack_size(1 << 16)
    threading.Thread(target=deeper).start()
    time.sleep(60)


@solver(track="pipeline")
def interrupts(instance, run):
    """Raise what Ctrl-C raises."""
    run.report([0] * instance.nodes)
    raise KeyboardInterrupt


@solver(track="pipeline")
def exits_with_zero(instance, run):
    """Leave with the status of success."""
    raise SystemExit(0)


@solver(track="pipeline")
def exits_with_a_text(instance, run):
    """Leave with a text for a status."""
    raise SystemExit("that is all")


@solver(track="pipeline")
def raises_generator_exit(instance, run):
    """Raise an exception that is no Exception."""
    raise GeneratorExit


class Unprintable(Exception):
    """An exception that has no text."""

    def __str__(self):
        raise ValueError("no text")


@solver(track="pipeline")
def raises_the_unprintable(instance, run):
    """Fail with an exception that cannot be printed."""
    raise Unprintable


@solver(track="pipeline")
def declines_at_length(instance, run):
    """Decline with ten thousand lines."""
    raise Declined("no,\nthank you\n\n" * 10_000)


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
def hangs_in_c(instance, run):
    """Sleep in C without letting go of the interpreter."""
    ctypes.PyDLL(None).sleep(3600)


@solver(track="pipeline")
def spins(instance, run):
    """Compute for ever, as urgently as the system lets it."""
    for urgent in (lambda: os.nice(-20), lambda: os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))):
        try:
            urgent()
        except OSError as error:
            print(error)
    while True:
        pass


@solver(track="pipeline")
def stops_itself(instance, run):
    """Go to sleep as Ctrl-Z does."""
    run.report([0] * instance.nodes)
    os.kill(os.getpid(), signal.SIGSTOP)


@solver(track="pipeline")
def turns_the_clock_back(instance, run):
    """Stop the clocks that it can reach, and work by them."""
    time.monotonic = time.time = time.perf_counter = lambda: 0.0
    run.deadline = float("inf")
    run.report([0] * instance.nodes)
    while run.remaining() > 0:
        time.sleep(0.01)


@solver(track="pipeline")
def is_done_and_hangs(instance, run):
    """Say that it is done, and stay."""
    run.report([0] * instance.nodes)
    run.send("done", 0)
    time.sleep(3600)


@solver(track="pipeline")
def declines_and_hangs(instance, run):
    """Say that it declines, and stay."""
    run.send("declined", "no time")
    time.sleep(3600)


@solver(track="pipeline")
def is_done_and_dies(instance, run):
    """Say that it is done, and die."""
    run.report([0] * instance.nodes)
    run.send("done", 0)
    os.kill(os.getpid(), signal.SIGKILL)


@solver(track="pipeline")
def reports_at_exit(instance, run):
    """Return, while a thread goes on reporting."""
    reporter = threading.Thread(target=lambda: [run.report([0, 0, 1, 1]) for _ in range(10_000)], daemon=True)
    run.report([0, 0, 1, 1])
    reporter.start()
    return [0] * instance.nodes
