"""Cost of the harness itself in a long campaign: 10,000 runs of a solver that does nothing.

`make measure` runs it, with the precision; some minutes.
"""

from __future__ import annotations

import json
import sqlite3
import subprocess
import time
from contextlib import closing, suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import psutil
from marked import Marked, ended
from tracked import benchmarks

from shardmark.harness.campaign.cpus import usable_cpus
from shardmark.instances.files.jsonfile import write_json

RUNS, INSTANCES, EVERY = 10_000, 10, 1_000
MOST_MIB = 300.0
FLAT = 1.25  # largest ratio of a thousand runs at the end to a thousand at the beginning
IDLE = Path(benchmarks.__file__).with_name("idle.py")


@dataclass(frozen=True)
class Sample:
    """The harness process after ``runs`` runs: seconds since its start, CPU seconds, MiB of it and its supervisors."""

    runs: int
    elapsed_s: float
    cpu_s: float
    mib: float
    supervisors_mib: float


def sample(process: psutil.Process, runs: int, began: float) -> Sample:
    times = process.cpu_times()
    supervisors = 0
    for child in process.children():
        with suppress(psutil.NoSuchProcess):
            supervisors += child.memory_info().rss
    mib = (memory / 2**20 for memory in (process.memory_info().rss, supervisors))
    return Sample(runs, time.monotonic() - began, times.user + times.system, *mib)


def test_ten_thousand_runs(tmp_path):
    document = json.loads(benchmarks.data_file("chain").read_text())
    command = ["-m", "shardmark", "run", "--results", str(tmp_path / "results"), "--limits", "posix", "--stages", "2"]
    command += ["--jobs", str(len(usable_cpus())), "--seeds", str(RUNS // INSTANCES), "--timeout", "60"]
    command += ["--solver", "idle", "--solver-path", str(IDLE)]
    for i in range(INSTANCES):
        write_json(tmp_path / f"{i}.json", {**document, "name": f"chain-{i}"})
        command += ["--instance", str(tmp_path / f"{i}.json")]
    marked = Marked(tmp_path)
    process = marked.start(*command, longest_s=3600.0, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL)
    harness, samples, began, done = psutil.Process(process.pid), [], time.monotonic(), 0
    for line in process.stderr:
        if line.startswith("["):
            done += 1
            if done % EVERY == 0 or done == EVERY // 10:
                samples.append(sample(harness, done, began))
    assert ended(process)[0] == 0
    marked.end()
    tell(samples)
    with closing(sqlite3.connect(tmp_path / "results" / "results.sqlite")) as database:
        walls = [wall for (wall,) in database.execute("SELECT wall_s FROM runs ORDER BY rowid")]
        strange = database.execute("SELECT status, stop, reason, wall_s, log FROM runs WHERE status != 'ok'").fetchall()
    assert (len(walls), strange) == (RUNS, [])
    slots = len(usable_cpus())
    thousands = [1000 * sum(walls[i : i + EVERY]) / EVERY for i in (0, RUNS - EVERY)]
    print("a run itself, mean of the first and of the last thousand: {:.1f} ms, {:.1f} ms".format(*thousands))
    first, last = (steps(samples)[i] for i in (0, -1))
    print(f"a slot's time a run: {slots * first[0]:.1f} ms, {slots * last[0]:.1f} ms")
    assert max(found.mib for found in samples) < MOST_MIB
    assert last[1] < FLAT * first[1]


def steps(samples):
    """Return milliseconds per run of wall time and of the harness's CPU time, between consecutive samples."""
    return [
        (1000 * (b.elapsed_s - a.elapsed_s) / (b.runs - a.runs), 1000 * (b.cpu_s - a.cpu_s) / (b.runs - a.runs))
        for a, b in pairwise(samples)
    ]


def tell(samples):
    """Print the table: totals, and per run since the line before."""
    columns = ("runs", "elapsed s", "harness MiB", "supervisors MiB", "ms a run", "CPU ms a run")
    print("\n{:>6} {:>10} {:>12} {:>12} {:>9} {:>13}".format(*columns))
    for found, (wall, cpu) in zip(samples, [(float("nan"),) * 2, *steps(samples)], strict=True):
        memory = f"{found.mib:12.1f} {found.supervisors_mib:12.1f}"
        print(f"{found.runs:6} {found.elapsed_s:10.1f} {memory} {wall:9.2f} {cpu:13.2f}")
