"""Solvers for campaigns that are disturbed: their results depend on the seed only."""

import os
import signal
import time

import psutil

from shardmark.solvers.registry import bound, solver


@solver(track="pipeline")
def quick(instance, run):
    """Report all in one block, then a random cut."""
    run.report([0] * instance.nodes)
    cut = int(run.rng.integers(1, instance.nodes))
    run.report([int(v >= cut) for v in range(instance.nodes)])
    run.bound(instance.work_bound())


@solver(track="pipeline")
def naps(instance, run):
    """Report, sleep a second, and report something better."""
    run.report([0] * instance.nodes)
    time.sleep(1.0)
    run.report([0] * (1 + run.seed % 2) + [1] * (instance.nodes - 1 - run.seed % 2))


@solver(track="pipeline")
def fails(instance, run):
    """Report, then raise."""
    run.report([0] * instance.nodes)
    raise RuntimeError(f"seed {run.seed}")


@solver(track="pipeline", variants={"cuts": {"at": 1}})
def cuts(instance, run, *, at):
    """Report a cut before one node."""
    run.report([int(v >= at) for v in range(instance.nodes)])


@bound(track="pipeline")
def limit(instance, run):
    """Report a bound."""
    run.bound(instance.work_bound())


@solver(track="pipeline")
def sleeps(instance, run):
    """Report, then sleep past every limit."""
    run.report([0] * instance.nodes)
    time.sleep(3600)


@solver(track="pipeline")
def fells(instance, run):
    """Kill the worker above its supervisor, which it can reach only without isolation."""
    worker = next(process for process in psutil.Process().parents() if "worker" in process.cmdline())
    os.kill(worker.pid, signal.SIGKILL)
    time.sleep(60)
