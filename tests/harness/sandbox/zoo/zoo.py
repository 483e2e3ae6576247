"""Solvers that behave well, and solvers that fail in the simplest ways."""

import os
import sys
import time

import numpy as np
from _reporting import reporting

from shardmark.solvers.registry import Declined, bound, solver


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
def obeys(instance, run):
    """Work until the deadline, then report."""
    while run.remaining() > 0:
        time.sleep(0.01)
    run.report([0] * instance.nodes)


@bound(track="pipeline")
def bounds(instance, run):
    """Report two bounds, the better one first."""
    run.bound(2)
    run.bound(1.5)


@solver(track="pipeline")
def declines(instance, run):
    """Decline."""
    raise Declined("more than zero nodes")


@solver(track="pipeline")
def silent(instance, run):
    """Report nothing."""


@reporting
def hangs(instance, run):
    """Report, then sleep past every limit."""
    time.sleep(3600)


@solver(track="pipeline")
def late(instance, run):
    """Report only after the limit."""
    time.sleep(run.remaining() + 5)
    run.report([0] * instance.nodes)


@reporting
def raises(instance, run):
    """Report, then fail."""
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
def nonsense(instance, run):
    """Report a value that is no solution."""
    run.report({"block": "everything"})
    run.report([10**30] * instance.nodes)
    run.report(True)


@solver(track="pipeline")
def huge_bound(instance, run):
    """Report a bound beyond every float."""
    run.bound(10**400)


@solver(track="pipeline")
def stray_bytes(instance, run):
    """Fail with a text that UTF-8 cannot hold."""
    raise ValueError("caf\udce9")
