"""How many bounds of methods are proven by certificates, how large these are, and what writing and checking them takes.

``python tests/performance/certified.py FOLDER [WITHOUT] [-- OPTION ...]`` runs ``shardmark run --certificates OPTION
... --results FOLDER``, and the same without ``--certificates`` to the folder WITHOUT, if there is one. Then it prints
per track and method: bounds; those with a certificate; those that it proves, as the grade *checked* asks; over
certificates, the geometric mean of what they prove / the bound, the median and the greatest size in KiB, the median
seconds of runs and of checks, and the greatest check / run; and with WITHOUT, over runs that both folders have, the CPU
time with certificates / without, and the geometric mean of the bound with / without. Without options, folders are read.
"""

from __future__ import annotations

import math
import sqlite3
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from statistics import median
from typing import Any

HEAD = ("track", "method", "bounds", "written", "proven")
FIGURES = ("share", "kib", "kib_max", "run_s", "check_s", "ratio_max", "cpu", "bound")
RUNS = """
SELECT track, solver, instance, lower_bound_float AS bound, wall_s, cpu_s, bytes, check_s,
  CAST(proven AS REAL) AS proven
FROM runs LEFT JOIN certificates ON run = runs.id WHERE lower_bound_float IS NOT NULL ORDER BY track, kind, solver
"""

Key = tuple[str, str, str]


def found(folder: Path, options: list[str]) -> dict[Key, sqlite3.Row]:
    """Run a campaign, if it has options; return its runs with a bound by track, method and instance."""
    if options:
        subprocess.run([sys.executable, "-m", "shardmark", "run", "--results", str(folder), *options], check=False)
    with closing(sqlite3.connect(folder / "results.sqlite")) as connection:
        connection.row_factory = sqlite3.Row
        return {(run["track"], run["solver"], run["instance"]): run for run in connection.execute(RUNS)}


def mean(ratios: Iterable[float]) -> float:
    """The geometric mean, 1 of none and 0 if a ratio is 0."""
    logs = [math.log(ratio) if ratio > 0 else -math.inf for ratio in ratios]
    return math.exp(sum(logs) / max(1, len(logs)))


def row(runs: dict[Key, sqlite3.Row], without: dict[Key, sqlite3.Row]) -> list[Any]:
    """The figures of one method."""
    written = [run for run in runs.values() if run["bytes"] is not None]
    proven = [run for run in written if (run["proven"] or 0.0) >= run["bound"]]
    figures: list[Any] = [len(runs), len(written), len(proven)]
    if not written:
        return figures
    figures.append(mean(min(1.0, (run["proven"] or 0.0) / run["bound"]) for run in written if run["bound"] > 0))
    kib = [run["bytes"] / 1024 for run in written]
    seconds = median(run["wall_s"] for run in written), median(run["check_s"] for run in written)
    figures += [median(kib), max(kib), *seconds, max(run["check_s"] / run["wall_s"] for run in written)]
    both = [(runs[key], without[key]) for key in runs.keys() & without.keys()]
    if both:
        figures.append(sum(run["cpu_s"] for run, _ in both) / sum(run["cpu_s"] for _, run in both))
        figures.append(mean(run["bound"] / other["bound"] for run, other in both if other["bound"] > 0))
    return figures


def main(words: list[str]) -> None:
    """Print the table."""
    at = words.index("--") if "--" in words else len(words)
    folders, options = [Path(word) for word in words[:at]], words[at + 1 :]
    runs = found(folders[0], [*options, "--certificates"] if options else [])
    without = found(folders[1], options) if len(folders) > 1 else {}
    methods = defaultdict[tuple[str, str], dict[Key, sqlite3.Row]](dict)
    for key, run in runs.items():
        methods[key[:2]][key] = run
    print("\t".join(HEAD + FIGURES))
    for (track, method), own in methods.items():
        shown = (f"{value:.3g}" if isinstance(value, float) else str(value) for value in row(own, without))
        print("\t".join([track, method, *shown]))


if __name__ == "__main__":
    main(sys.argv[1:])
