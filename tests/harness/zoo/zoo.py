"""Solvers that behave well, badly and worse; the tests run each under the referee."""

import ctypes
import os
import subprocess
import sys
import time

import numpy as np

from solvers.registry import Declined, bound, solver


@solver(track="pipeline", source="a test")
def good(instance, run):
    """Put everything into one block, then cut a chain in two."""
    run.report([0] * instance.nodes)
    run.report(np.minimum(np.arange(instance.nodes) * instance.stages // instance.nodes, instance.stages - 1))
    run.bound(instance.work_bound())


@solver(track="pipeline")
def returns_it(instance, run):
    """Return a solution without reporting it."""
    return [0] * instance.nodes


@solver(track="pipeline")
def hangs(instance, run):
    """Report, then sleep past every limit."""
    run.report([0] * instance.nodes)
    time.sleep(3600)


@solver(track="pipeline")
def obeys(instance, run):
    """Work until the deadline, then report."""
    while run.remaining() > 0:
        time.sleep(0.01)
    run.report([0] * instance.nodes)


@solver(track="pipeline")
def late(instance, run):
    """Report only after the limit."""
    time.sleep(run.remaining() + 5)
    run.report([0] * instance.nodes)


@solver(track="pipeline")
def raises(instance, run):
    """Report, then fail."""
    run.report([0] * instance.nodes)
    raise RuntimeError("the oracle is\nsilent")


@solver(track="pipeline")
def leaves(instance, run):
    """End the process without a word."""
    os._exit(0)


@solver(track="pipeline")
def exits(instance, run):
    """Call sys.exit."""
    sys.exit(3)


@solver(track="pipeline")
def segfaults(instance, run):
    """Read address zero."""
    ctypes.string_at(0)


@solver(track="pipeline")
def declines(instance, run):
    """Decline."""
    raise Declined("more than zero nodes")


@solver(track="pipeline")
def allocates(instance, run):
    """Fill memory."""
    run.report([0] * instance.nodes)
    hoard = []
    while True:
        hoard.append(np.ones(2_000_000))
        time.sleep(0.002)


@solver(track="pipeline")
def child_allocates(instance, run):
    """Fill memory in a child process."""
    code = "import time\nx = bytearray(600 << 20)\ntime.sleep(60)"
    subprocess.run([sys.executable, "-c", code], check=False)


@solver(track="pipeline")
def leaves_children(instance, run):
    """Return while a child in a session of its own lives on."""
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
    time.sleep(0.3)
    print(f"child {child.pid}", file=sys.stderr)
    return [0] * instance.nodes


@solver(track="pipeline")
def prints(instance, run):
    """Write a lot to stdout."""
    for _ in range(200):
        print("x" * 10_000)
    print("the end")
    return [0] * instance.nodes


@solver(track="pipeline")
def silent(instance, run):
    """Report nothing."""


@solver(track="pipeline")
def nonsense(instance, run):
    """Report what no solution is."""
    run.report({"block": "everything"})
    run.report([10**30] * instance.nodes)
    run.report(True)


@solver(track="pipeline")
def not_json(instance, run):
    """Report an object that is no JSON."""
    run.report(object())


@solver(track="pipeline")
def nan(instance, run):
    """Report NaN."""
    run.report([float("nan")] * instance.nodes)


@solver(track="pipeline")
def breaks_pipe(instance, run):
    """Write rubbish into every pipe that is open."""
    run.report([0] * instance.nodes)
    for channel in range(3, 64):
        try:
            os.write(channel, b"rubbish" * 100)
        except OSError:
            continue


@solver(track="pipeline")
def liar(instance, run):
    """Claim a lower bound above its own solution."""
    run.report([0] * instance.nodes)
    run.bound(1e9)


@solver(track="pipeline")
def cyclic(instance, run):
    """Report a partition whose quotient graph has a cycle."""
    return [v % 2 for v in range(instance.nodes)]


@bound(track="pipeline")
def bounds(instance, run):
    """Report two bounds, the better one first."""
    run.bound(2)
    run.bound(1.5)


@solver(track="pipeline")
def huge_bound(instance, run):
    """Report a bound beyond every float."""
    run.bound(10**400)


@solver(track="pipeline")
def stray_bytes(instance, run):
    """Fail with a text that UTF-8 cannot hold."""
    raise ValueError("caf\udce9")


@solver(track="pipeline")
def spike(instance, run):
    """Use much memory for a moment too short to be polled."""
    bytearray(400 << 20)
    return [0] * instance.nodes


@solver(track="pipeline")
def floods(instance, run):
    """Report the same, two thousand times, and something better in the end."""
    for _ in range(2000):
        run.report([0] * instance.nodes)
    run.report([0, 0, 1, 1])


@bound(track="pipeline")
def odd_bound(instance, run):
    """Report a bound that is no number."""
    run.bound("high")
