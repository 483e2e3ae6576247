"""Which solvers there are, asked of a child process: a file that fails to import is a finding, not a failure."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from instances import InputError, tracks
from solvers.registry import solver_files, source_hash

IMPORT_TIMEOUT_S = 60.0
TRACK = re.compile(r"""(?:track\s*=\s*|@(?:solver|bound)\(\s*)["'](\w+)["']""")


@dataclass(frozen=True)
class SolverInfo:
    """What the referee knows of a solver; ``error`` says why its file cannot be imported, "" if it can."""

    name: str
    track: str
    kind: str
    file: str
    hash: str
    source: str = ""
    description: str = ""
    params: Mapping[str, Any] = field(default_factory=dict)
    deterministic: bool = True
    error: str = ""


def discover(paths: Iterable[str | Path] = ()) -> list[SolverInfo]:
    """All solvers and bounds of the project and of ``paths`` (files or folders), by track and name.

    A file that cannot be imported stands in the list under its own name, with the error.
    """
    given = [Path(path) for path in paths]
    for path in given:
        if not path.exists():
            raise InputError(path, "", "expected a solver file or a folder of them")
    found: list[SolverInfo] = []
    files = [str(file) for file in solver_files(given)]
    while files:
        lines, error = _ask(files)
        for line in lines:
            if "end" in line:
                found += _read(line)
        done = sum("end" in line for line in lines)
        if done < len(files) and error:  # the file that was being imported took the process down
            found += _broken(files[done], error)
            done += 1
        files = files[done:]
    return _unique(found)


def _ask(files: Sequence[str]) -> tuple[list[dict[str, Any]], str]:
    """Answers of one child process, and how it ended if it did not get through all files."""
    command = [sys.executable, "-P", "-m", "harness.worker", "list", json.dumps(list(files))]
    limit = IMPORT_TIMEOUT_S
    try:
        child = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, timeout=limit, start_new_session=True
        )
        output, error = child.stdout, f"ended the process while it was imported (exit status {child.returncode})"
    except subprocess.TimeoutExpired as expired:
        output, error = expired.stdout or b"", f"was not imported within {limit:g} s"
    return [json.loads(line) for line in output.splitlines() if line.endswith(b"}")], error


def _read(line: Mapping[str, Any]) -> list[SolverInfo]:
    if "error" in line:
        return _broken(line["end"], line["error"])
    wrong = [s["track"] for s in line["solvers"] if s["track"] not in tracks()]
    if wrong:
        return _broken(line["end"], f"declares the track {wrong[0]!r}, expected one of {', '.join(tracks())}")
    return [SolverInfo(**solver) for solver in line["solvers"]]


def _broken(file: str, error: str) -> list[SolverInfo]:
    """A file that declares nothing because it fails: a row in every track that its text names, or its folder."""
    path = Path(file)
    text = path.read_text(errors="replace") if path.is_file() else ""
    named = {path.parent.name, *TRACK.findall(text)} & set(tracks())
    name = path.stem.replace("_", "-").lower()
    digest = source_hash(path)
    return [SolverInfo(name, track, "solver", file, digest, error=error) for track in sorted(named or tracks())]


def _unique(found: list[SolverInfo]) -> list[SolverInfo]:
    by_name: dict[tuple[str, str], SolverInfo] = {}
    for info in found:
        other = by_name.setdefault((info.track, info.name), info)
        if other is not info:
            raise InputError(
                info.file, info.name, f"expected a name that {info.track} does not have yet ({other.file})"
            )
    return sorted(by_name.values(), key=lambda info: (info.track, info.kind != "solver", info.name))
