"""The results that asv keeps, one series of measurements per benchmark, case and machine."""

from __future__ import annotations

import math
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import product
from pathlib import Path
from typing import Any

from shardmark.instances.errors import InputError
from shardmark.instances.files.jsonfile import parse_json

SECONDS = "seconds"
QUARTILES = 1.349  # standard deviations between the quartiles of a normal distribution


@dataclass(frozen=True)
class Commit:
    """A commit; ``place`` counts the commits of its branch from the first one."""

    hash: str
    place: int
    date: datetime
    subject: str

    @property
    def short(self) -> str:
        """The first digits of its hash."""
        return self.hash[:8]


@dataclass(frozen=True)
class Point:
    """A measurement: the median of its samples, and their standard deviation over it, estimated from quartiles."""

    commit: Commit
    value: float
    spread: float


@dataclass(frozen=True)
class Series:
    """The measurements of one case of a benchmark on one machine, by commit; lower values are better.

    ``group`` and ``name`` are those of the benchmark's class and method, the name without its prefix. The ``unit`` is
    `SECONDS`, or else describes a figure that is the same in every run of a commit.
    """

    group: str
    name: str
    case: str
    machine: str
    unit: str
    points: Sequence[Point]

    @property
    def timed(self) -> bool:
        """True if the values are times."""
        return self.unit == SECONDS


def commits(repository: Path) -> dict[str, Commit]:
    """Return the commits of the current branch by hash, oldest first."""
    command = ["git", "-C", str(repository), "log", "--reverse", "--topo-order", "--format=%H%x00%ct%x00%s", "HEAD"]
    try:
        done = subprocess.run(command, capture_output=True)
    except OSError as error:
        raise InputError(repository, "", f"expected git, to read the commits ({error.strerror})") from None
    if done.returncode:
        message = done.stderr.decode(errors="replace").strip()
        raise InputError(repository, "", f"expected a git repository ({message})")
    lines = done.stdout.decode(errors="replace").removesuffix("\n").split("\n")  # a subject may hold other line ends
    rows = (line.split("\0", 2) for line in lines)
    return {
        name: Commit(name, place, datetime.fromtimestamp(int(date), UTC), subject)
        for place, (name, date, subject) in enumerate(rows)
    }


def series(results: Path, known: Mapping[str, Commit]) -> list[Series]:
    """Read asv's folder of results; measurements of other commits, and of older versions of a benchmark, are left out.

    Raises InputError for a folder without results, and for a file that asv would not have written.
    """
    about = results / "benchmarks.json"
    if not about.is_file():
        raise InputError(results, "", "expected the results of `asv run`")
    benchmarks = {name: found for name, found in _json(about).items() if isinstance(found, dict)}
    points: dict[tuple[str, str, str], list[Point]] = {}
    for path in sorted(results.glob("*/*.json")):
        if path.name == "machine.json":
            continue
        measured = _json(path)
        try:
            if commit := known.get(measured["commit_hash"]):
                machine = f"{path.parent.name}, Python {measured['python']}"
                for name, case, value, spread in _figures(measured, benchmarks):
                    points.setdefault((name, case, machine), []).append(Point(commit, value, spread))
        except (AttributeError, IndexError, KeyError, TypeError, ValueError):
            raise InputError(path, "", "expected a file of results as asv writes them") from None
    return [
        Series(
            *_names(name), case, machine, benchmarks[name]["unit"], sorted(found, key=lambda point: point.commit.place)
        )
        for (name, case, machine), found in sorted(points.items())
    ]


def _json(path: Path) -> Any:
    try:
        return parse_json(path.read_text(encoding="utf-8"), path, constant=float)  # NaN: asv skipped the case
    except (OSError, UnicodeError) as error:
        raise InputError(path, "", f"expected a file that can be read ({error})") from None


def _figures(
    measured: Mapping[str, Any], benchmarks: Mapping[str, Mapping[str, Any]]
) -> Iterator[tuple[str, str, float, float]]:
    """Yield name, case, value and relative spread of all that was measured at a commit."""
    for name, columns in measured["results"].items():
        row = dict(zip(measured["result_columns"], columns, strict=False))
        if name not in benchmarks or row["version"] != benchmarks[name]["version"] or row["result"] is None:
            continue
        cases = [", ".join(word.strip("'") for word in words) for words in product(*row["params"])]
        low, high = (row.get(f"stats_q_{quartile}") or [None] * len(cases) for quartile in (25, 75))
        for case, value, first, third in zip(cases, row["result"], low, high, strict=True):
            if value is not None and math.isfinite(value):
                spread = 0.0 if first is None or third is None or value <= 0 else (third - first) / value / QUARTILES
                yield name, case, float(value), spread


def _names(benchmark: str) -> tuple[str, str]:
    """Return group and name of a benchmark such as ``benchmarks.Slicing.time_kahn``."""
    *_, group, name = f".{benchmark}".split(".")
    return group, name.split("_", 1)[-1].replace("_", " ")
