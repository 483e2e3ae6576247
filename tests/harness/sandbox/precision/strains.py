"""Solvers that run on beyond a limit and print their progress, by their own clock and count.

``late S``: alive S seconds after the deadline. ``has M``: M MiB of memory are in use for certain.
"""

import mmap
import os
import re
import signal
import time
from pathlib import Path

from shardmark.solvers.registry import solver

MIB = 1 << 20
MOST = 3000
FILLED = b"x" * MIB


def say(text):
    """Write a complete line at once."""
    os.write(1, f"{text}\n".encode())


def live_on(run):
    """Sleep again and again, deaf to all signals that can be ignored."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    while True:
        say(f"late {time.monotonic() - run.deadline:.4f}")
        time.sleep(0.001)


@solver(track="pipeline")
def sleeps_on(instance, run):
    """Sleep."""
    live_on(run)


@solver(track="pipeline")
def computes_on(instance, run):
    """Compute."""
    while True:
        say(f"late {time.monotonic() - run.deadline:.4f}")
        sum(range(20_000))


@solver(track="pipeline")
def children_live_on(instance, run):
    """Sleep in processes with their own sessions."""
    for _ in range(4):
        if os.fork() == 0:
            os.setsid()
            live_on(run)
    time.sleep(600)


def used_mib():
    """Return the proportional memory of this process now."""
    found = re.search(r"^Pss:\s+(\d+) kB$", Path("/proc/self/smaps_rollup").read_text(), re.MULTILINE)
    return int(found[1]) // 1024


@solver(track="pipeline")
def allocates_in_steps(instance, run):
    """Take memory one MiB at a time."""
    has, hoard = used_mib(), []
    while len(hoard) < MOST:
        hoard.append(bytearray(FILLED))
        say(f"has {has + len(hoard)}")
        time.sleep(0.001)


@solver(track="pipeline")
def allocates_at_once(instance, run):
    """Take all memory in one step, and fill it as fast as can be."""
    has, hoard = used_mib(), mmap.mmap(-1, MOST * MIB)
    for _ in range(MOST):
        hoard.write(FILLED)
        has += 1
        say(f"has {has}")


@solver(track="pipeline")
def children_allocate(instance, run):
    """Take memory in four processes at once."""
    has, counts = used_mib(), mmap.mmap(-1, 4)
    for child in range(4):
        if os.fork() == 0:
            hoard = []
            while len(hoard) < 255:
                hoard.append(bytearray(FILLED))
                counts[child] = len(hoard)
                say(f"has {has + sum(counts[:])}")
                time.sleep(0.002)
            time.sleep(600)
    time.sleep(600)
