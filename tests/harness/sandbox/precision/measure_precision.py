"""Precision of limits and of measured usage, on both backends.

`make measure` runs it, some five minutes, on a machine that should do nothing else. What a run did beyond its limit is
told by the run itself, not by the referee that is measured.
"""

from __future__ import annotations

import re
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from tracked import benchmarks

from shardmark.harness.sandbox.contract import Limits, Outcome

STRAINS = Path(__file__).with_name("strains.py")
RUNS = 51  # runs of each kind
WALL_S = 0.2
MEMORY_MIB = 50.0  # tolerance, or a tenth of the limit if that is more
OWN_USE = 0.05
OVERHEAD_S = {"posix": 0.060, "benchexec": 0.300}


def greatest(word: str, outcome: Outcome) -> float:
    """Return the greatest number that a run printed after a word."""
    return max(float(number) for number in re.findall(rf"^{word} (-?[\d.]+)$", outcome.log, re.MULTILINE))


def tell(what: str, backend: str, unit: str, values: Sequence[float]) -> None:
    """Print a line of the table."""
    low, middle, high = min(values), statistics.median(values), max(values)
    figures = f"min {low:8.3f}  median {middle:8.3f}  max {high:8.3f} {unit}"
    print(f"\n{what:34} {backend:10} {len(values):3} runs  {figures}", end="")


@pytest.mark.parametrize("solver", ["sleeps-on", "computes-on", "children-live-on"])
def test_wall(supervisor, order, solver):
    limits = Limits(2.0, 1024.0)
    lives, stamps = [], []
    for _ in range(RUNS // 3):
        outcome = supervisor.run(order(solver=solver, file=STRAINS, **vars(limits)))
        assert outcome.stop == "timeout", outcome
        lives.append(greatest("late", outcome) - limits.margin_s())
        stamps.append(outcome.wall_s - limits.timeout_s)
    tell(f"alive beyond limit, {solver}", supervisor.backend, "s", lives)
    tell(f"stamped beyond limit, {solver}", supervisor.backend, "s", stamps)
    assert max(lives) <= WALL_S
    assert max(map(abs, stamps)) <= WALL_S


@pytest.mark.parametrize("solver", ["allocates-in-steps", "allocates-at-once", "children-allocate"])
def test_memory(supervisor, order, solver):
    limits = Limits(60.0, 256.0)
    beyond, reported = [], []
    for _ in range(RUNS // 3):
        outcome = supervisor.run(order(solver=solver, file=STRAINS, **vars(limits)))
        assert outcome.stop == "memory", outcome
        beyond.append(greatest("has", outcome) - limits.memory_mib)
        reported.append(outcome.peak_mib - limits.memory_mib)
    tell(f"used beyond limit, {solver}", supervisor.backend, "MiB", beyond)
    tell(f"reported beyond, {solver}", supervisor.backend, "MiB", reported)
    allowed = max(MEMORY_MIB, limits.memory_mib / 10)
    assert -allowed <= min(beyond)
    assert max(beyond) <= allowed
    assert max(reported) <= allowed


@pytest.mark.skipif(shutil.which("time") is None, reason="needs GNU time as a program")
@pytest.mark.parametrize("mib", [100, 500])
@pytest.mark.parametrize("children", [0, 1])
def test_own_use(supervisor, order, mib, children):
    """Compare with GNU time on the same program; with children it reports the largest process only."""
    work = f"import time; x = bytearray(b'x') * ({mib} << 20); time.sleep(0.1)\nwhile time.process_time() < 2: pass"
    if children:
        work = f"import subprocess, sys; subprocess.run([sys.executable, '-I', '-S', '-c', {work!r}])"
    command = (sys.executable, "-I", "-S", "-c", work)
    memory, seconds = [], []
    for _ in range(RUNS // 5):
        outcome = supervisor.run(order(*command, memory_mib=4096.0))
        assert outcome.stop == "exit", outcome
        true_mib, true_s = gnu_time(command)
        memory.append(outcome.peak_mib / true_mib - 1)
        seconds.append(outcome.cpu_s / true_s - 1)
    what = f"{mib} MiB, {'in a child' if children else 'alone'}"
    tell(f"memory less GNU time's, {what}", supervisor.backend, "   ", memory)
    tell(f"CPU time less GNU time's, {what}", supervisor.backend, "   ", seconds)
    assert max(map(abs, seconds)) <= OWN_USE
    if not children:
        assert max(map(abs, memory)) <= OWN_USE


def gnu_time(command: Sequence[str]) -> tuple[float, float]:
    """Return peak resident memory in MiB and CPU seconds of a program, by GNU time."""
    measured = subprocess.run(["time", "-f", "%M %U %S", *command], capture_output=True, text=True, check=True).stderr
    kib, user, system = measured.split()
    return int(kib) / 1024, float(user) + float(system)


def test_overhead(supervisor, order):
    """Measure a solver that does nothing, from the order to the outcome."""
    idle = order(solver="idle", file=Path(benchmarks.__file__).with_name("idle.py"))
    took = []
    for _ in range(RUNS + 1):
        began = time.perf_counter()
        outcome = supervisor.run(idle)
        took.append(time.perf_counter() - began)
        assert outcome.stop == "exit", outcome
    tell("first run, the supervisor's start with it", supervisor.backend, "s", took[:1])
    tell("run that does nothing", supervisor.backend, "s", took[1:])
    assert statistics.median(took[1:]) <= OVERHEAD_S[supervisor.backend]
