"""Slicing against the paper's own algorithms: time, memory and value of both.

``python tests/performance/yardstick.py`` prints a table. The yardstick, `algorithm1.c`, is compiled here with -O3.
"""

from __future__ import annotations

import math
import resource
import shlex
import subprocess
import sysconfig
import tempfile
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from cffi import FFI
from tracked.benchmarks import layered

from shardmark.instances.graph import Index
from shardmark.instances.pipeline import Instance
from shardmark.solvers.native import kahn
from shardmark.solvers.pipeline._kernels import PipelineCore

SOURCE = Path(__file__).with_name("algorithm1.c")
DECLARATION = """double algorithm1(int32_t nodes, int32_t stages, const int64_t *start, const int32_t *head,
    const double *work, const double *size, double bandwidth, const int32_t *order);"""

#: Nodes, blocks, and whether the table of the yardstick fits into memory.
CASES = ((1_000, 16, True), (1_000, 64, True), (5_000, 64, True), (100_000, 64, False))


@cache
def _compiled() -> tuple[FFI, Any]:
    ffi = FFI()
    ffi.cdef(DECLARATION)
    compiler = shlex.split(sysconfig.get_config_var("CC") or "cc")[0]
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "algorithm1.so"
        subprocess.run([compiler, "-std=c11", "-O3", "-shared", "-fPIC", SOURCE, "-o", target], check=True)
        return ffi, ffi.dlopen(str(target))


def algorithm1(instance: Instance, order: Index) -> float:
    """Least bottleneck of the order, shape (n,), by the paper's algorithms; without overflow."""
    ffi, lib = _compiled()
    kinds = ("int64_t[]", "int32_t[]", "double[]", "double[]")
    columns = zip(kinds, (*instance.graph.out_csr, instance.work, instance.output_size), strict=True)
    arrays = [ffi.from_buffer(kind, column) for kind, column in columns]
    sizes = (instance.nodes, min(instance.stages, max(1, instance.nodes)))
    cost = lib.algorithm1(*sizes, *arrays, instance.bandwidth, ffi.from_buffer("int32_t[]", order))
    if cost < 0:
        raise MemoryError(f"the table of {instance.nodes} nodes")
    return float(cost)


def seconds(function: Callable[[], Any], repeat: int) -> float:
    """Least time of a call among a few."""
    taken = []
    for _ in range(repeat):
        began = time.perf_counter()
        function()
        taken.append(time.perf_counter() - began)
    return min(taken)


def main() -> None:
    """Print a line a case, first those without a table, so that it does not count in the peak of the process."""
    for nodes, stages, fits in sorted(CASES, key=lambda case: case[2]):
        instance = layered(nodes, stages)
        core = PipelineCore(instance)
        order = kahn(instance.graph, np.random.Generator(np.random.PCG64(1)).random(nodes))
        slicing = core.slice(order)
        assert slicing is not None
        ours = seconds(lambda core=core, order=order: core.slice(order), 3 if nodes > 5000 else 20)  # type: ignore[misc]
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        line = f"n={nodes:6d} k={stages:2d}  cost {slicing.cost:10.1f}  ours {ours:8.4f} s"
        if fits:
            theirs = seconds(lambda i=instance, o=order: algorithm1(i, o), 20 if nodes < 2000 else 1)  # type: ignore[misc]
            assert math.isclose(algorithm1(instance, order), slicing.cost, rel_tol=1e-9)
            line += f"  yardstick {theirs:8.4f} s  ratio {theirs / ours:6.1f}"
        else:
            line += f"  whole process at most {peak:.0f} MiB"
        print(line)


if __name__ == "__main__":
    main()
