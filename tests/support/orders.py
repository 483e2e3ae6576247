"""Orders for a supervisor: a solver given by its body, or a command, on an instance of two nodes."""

from __future__ import annotations

import textwrap
from pathlib import Path

from shardmark.harness.sandbox.contract import Limits, Order
from shardmark.instances.files.jsonfile import sha256

AMPLE = Limits(timeout_s=20.0, memory_mib=512.0, processes=100, output_mib=16.0)
CHAIN = (
    '{"format": "shardmark/pipeline/1", "name": "two", "stages": 2, "bandwidth": 1.0, "memory": null, '
    '"edges": [[0, 1]], "nodes": {"work": [3, 2], "output_size": [1, 1], "param_size": [0, 0]}}'
)
HEAD = """
import ctypes, mmap, multiprocessing, os, resource, signal, subprocess, sys, threading, time
from shardmark.solvers.registry import solver

def file_in_memory(name):
    try:
        return os.memfd_create(name)
    except OSError:  # an isolated run may make none
        file = os.open(f"/dev/shm/{name}", os.O_RDWR | os.O_CREAT)
        os.unlink(f"/dev/shm/{name}")
        return file

@solver(track="pipeline", name="s")
def s(instance, run):
"""


def order_of(folder: Path, body: str = "", command: tuple[str, ...] = (), limits: Limits = AMPLE, **more) -> Order:
    """A run of a solver with this body, or of a command, on an instance of two nodes."""
    instance, solver = folder / "two.json", folder / "body.py"
    instance.write_text(CHAIN)
    solver.write_text(HEAD + textwrap.indent(textwrap.dedent(body) or "pass", "    "))
    file = "" if command else str(solver)
    return Order("pipeline", str(instance), sha256(CHAIN.encode()), {}, "s", file, 5, limits, command=command, **more)
