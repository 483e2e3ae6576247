"""A solver that behaves well and prints its environment, so that any change of it shows."""

import hashlib
import os
import resource
import signal
import sys
import tempfile
import time
from pathlib import Path

from _reporting import reporting

from shardmark.solvers.registry import solver

PLACES = (".", tempfile.gettempdir(), "/tmp", "/var/tmp", "/dev/shm", "/run", Path.home(), "/", Path(__file__).parent)


@solver(track="pipeline")
def witness(instance, run):
    """Print all that earlier runs could have changed, do a fixed amount of work, and solve the instance."""
    token = os.environ["ZOO_TOKEN"]
    limits = [name for name in dir(resource) if name.startswith("RLIMIT_")]
    print("own folder:", os.listdir())
    places = filter(os.path.isdir, PLACES)
    print("left behind:", [name for place in places for name in os.listdir(place) if token in name])
    print("priority:", os.nice(0), os.sched_getscheduler(0), len(os.sched_getaffinity(0)))
    print("limits:", [(name, resource.getrlimit(getattr(resource, name))) for name in limits])
    print("signals blocked:", signal.pthread_sigmask(signal.SIG_BLOCK, ()))
    print("signals ignored:", [n.name for n in signal.Signals if signal.getsignal(n) == signal.SIG_IGN])
    print("variables:", sorted(os.environ), "flags:", sys.flags)
    print("work:", hashlib.sha256(bytes(20_000_000)).hexdigest())
    run.report([0] * instance.nodes)
    run.report([0, 0, 1, 1])


@reporting
def steady(instance, run):
    """Report, use a second of CPU time, and report something better."""
    while time.process_time() < 1.0:
        hashlib.sha256(bytes(1_000_000)).digest()
    run.report([0, 0, 1, 1])
