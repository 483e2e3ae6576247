"""Reading a file of the contest against orjson and arrays made of its lists: time and memory of both.

``python tests/performance/reading.py [FILE [ROUNDS]]`` prints a table; FILE is by default instance A, decompressed,
from the cache or SHARDMARK_MIRROR. Every reading is a process of its own, the ways take turns, and the least time
counts: that of the reading alone, without the start of Python and its imports. Memory is the whole process's peak.
"""

from __future__ import annotations

import gzip
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from shardmark import instances
from shardmark.instances.catalog import find, locate
from shardmark.instances.files.columns import Ints
from shardmark.instances.files.jsonfile import GZIP_MAGIC

MIB = 1 << 20


def yardstick(path: str) -> dict[str, Ints]:
    """Read the columns of an instance by way of lists, not validated: the time that `instances.load` has to beat."""
    import orjson

    problem = orjson.loads(Path(path).read_bytes())["problem"]
    columns = {}
    for group, name in (
        *(("nodes", n) for n in ("intervals", "costs", "usages")),
        ("edges", "nodes"),
        ("edges", "costs"),
    ):
        rows = problem[group][name]
        start = np.zeros(len(rows) + 1, dtype=np.int64)
        np.cumsum(np.fromiter(map(len, rows), dtype=np.int64, count=len(rows)), out=start[1:])
        columns[f"{group}.{name}.start"] = start
        columns[f"{group}.{name}"] = np.fromiter(chain.from_iterable(rows), dtype=np.int64, count=int(start[-1]))
    return columns


#: Ways to read, and what SHARDMARK_ARRAYS is for each.
WAYS = {
    "orjson and arrays of its lists": "off",
    "JSON, arrays not kept": "off",
    "JSON, arrays kept": "on",
    "from the arrays": "read",
}


def once(way: str, path: str) -> dict[str, float]:
    """Read in this process: seconds by the clock and of CPU, MiB at most."""
    import orjson  # noqa: F401 - imports are not what is timed

    for track in instances.tracks():
        instances.track_module(track)
    read: Any = yardstick if way == "orjson and arrays of its lists" else instances.load
    began, used = time.perf_counter(), time.process_time()
    read(path)
    seconds, cpu = time.perf_counter() - began, time.process_time() - used
    return {"seconds": seconds, "cpu": cpu, "mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}


def measured(way: str, path: Path) -> dict[str, float]:
    """Read in a fresh process."""
    if way == "JSON, arrays kept":
        shutil.rmtree(path.parent / "cache", ignore_errors=True)
    environment = {**os.environ, "SHARDMARK_ARRAYS": WAYS[way], "SHARDMARK_CACHE": str(path.parent / "cache")}
    command = [sys.executable, __file__, "--once", way, str(path)]
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def compare(path: Path, rounds: int) -> dict[str, dict[str, float]]:
    """The least of every figure of every way, the ways taking turns."""
    best: dict[str, dict[str, float]] = {}
    for _ in range(rounds):
        for way in WAYS:
            found = measured(way, path)
            best[way] = {key: min(value, best.get(way, found)[key]) for key, value in found.items()}
    return best


def unpack(original: Path, path: Path) -> None:
    """Copy a file, decompressed, a piece at a time: the peak of a process begins with that of the one it came from."""
    with original.open("rb") as stream, path.open("wb") as target:
        packed = stream.read(2) == GZIP_MAGIC
        stream.seek(0)
        shutil.copyfileobj(gzip.GzipFile(fileobj=stream) if packed else stream, target)


def main(file: str = "", rounds: str = "5") -> None:
    """Print the comparison."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "instance.json"
        original = Path(file) if file else locate(find("contest-A"))
        unpack(original, path)
        print(f"{original.name}: {path.stat().st_size / MIB:.1f} MiB of JSON, decompressed")
        best = compare(path, int(rounds))
    first, *_ = best.values()
    for way, found in best.items():
        ratios = [first[key] / found[key] for key in ("seconds", "cpu", "mib")]
        print(
            f"{way:31s} {found['seconds'] * 1000:7.1f} ms ({ratios[0]:5.1f}x)  CPU {found['cpu'] * 1000:7.1f} ms "
            f"({ratios[1]:5.1f}x)  peak {found['mib']:6.1f} MiB (1/{ratios[2]:.1f})"
        )


if __name__ == "__main__":
    if sys.argv[1:2] == ["--once"]:
        print(json.dumps(once(*sys.argv[2:4])))
    else:
        main(*sys.argv[1:3])
