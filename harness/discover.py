"""Which solvers there are: files and installed packages, asked of a child process, and external programs.

What fails to import is a finding, not a failure: it stands in the list with the error.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from instances import InputError, tracks
from solvers import external
from solvers.registry import PACKAGE, legal_name, solver_files, source_hash

IMPORT_TIMEOUT_S = 60.0
TRACK = re.compile(r"""(?:track\s*=\s*|@(?:solver|bound)\(\s*)["'](\w+)["']""")


@dataclass(frozen=True)
class SolverInfo:
    """What the referee knows of a solver.

    ``file`` is where it is declared: a path, or ``package:MODULE``. ``error`` says why it cannot be imported or
    started, "" if it can. ``command`` is that of an external program, with placeholders; () for a Python function.
    """

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
    command: tuple[str, ...] = ()


def discover(paths: Iterable[str | Path] = ()) -> list[SolverInfo]:
    """All solvers and bounds of the project, of installed packages and of ``paths``, by track and name.

    A path is a Python file, a TOML file of external programs, or a folder of both. What cannot be imported or started
    stands in the list under its own name, with the error.
    """
    given = _checked(paths)
    own = solver_files()
    found, installed = _imported(map(str, own))  # in a process that no stranger's code has touched
    strangers = [str(file) for file in solver_files(given) if file not in own]
    found += _imported([*strangers, *installed])[0]
    found += [from_program(program) for file in external.toml_files(given) for program in external.read_toml(file)]
    return _unique(found)


def declared_in(path: str | Path) -> list[SolverInfo]:
    """What one Python or TOML file declares, whatever else there is; names are not held against those of others."""
    (file,) = _checked([path])
    if file.suffix == ".toml":
        return [from_program(program) for program in external.read_toml(file)]
    return _imported([str(file)])[0]


def from_program(program: external.Program) -> SolverInfo:
    """An external program as a solver."""
    return SolverInfo(kind="solver", **vars(program))


def from_command(command: str, track: str) -> SolverInfo:
    """A command line as a solver of a track, named after its file; InputError if it cannot be started."""
    return from_program(external.from_command(command, track))


def _checked(paths: Iterable[str | Path]) -> list[Path]:
    given = [Path(path).resolve() for path in paths]
    for path in given:
        if not path.exists():
            raise InputError(path, "", "expected a solver file or a folder of them, there is none of that name")
        if not path.is_dir() and path.suffix not in (".py", ".toml"):
            raise InputError(path, "", "expected a Python file, a TOML file or a folder of them")
    return given


def _imported(places: Iterable[str]) -> tuple[list[SolverInfo], list[str]]:
    """What solver files and packages declare, and the places of all installed packages.

    A child that one of them takes down is followed by another for the rest.
    """
    found: list[SolverInfo] = []
    installed: list[str] = []
    left = list(places)
    while left:
        lines, error = _ask(left)
        done = [line for line in lines if "end" in line]
        for line in done:
            found += _read(line)
        installed = next((line["installed"] for line in lines if "installed" in line), installed)
        left = left[len(done) :]
        if left:  # the one that was being imported took the process down
            found += _broken(left.pop(0), error)
    return found, installed


def _ask(places: Sequence[str]) -> tuple[list[dict[str, Any]], str]:
    """Answers of one child process, and how it ended if it did not get through all places."""
    command = [sys.executable, "-P", "-m", "harness.worker", "list", json.dumps(list(places))]
    null = subprocess.DEVNULL
    with tempfile.TemporaryFile() as answers:  # no pipe: what an import leaves behind could hold it open
        child = subprocess.Popen(command, stdin=null, stdout=answers, stderr=null, start_new_session=True)
        try:
            status = child.wait(IMPORT_TIMEOUT_S)
            error = f"ended the process while it was imported (exit status {status})"
        except subprocess.TimeoutExpired:
            error = f"was not imported within {IMPORT_TIMEOUT_S:g} s"
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            child.wait()
        answers.seek(0)
        return [json.loads(line) for line in answers if line.endswith(b"}\n")], error


def _read(line: Mapping[str, Any]) -> list[SolverInfo]:
    if "error" in line:
        return _broken(line["end"], line["error"])
    wrong = [s["track"] for s in line["solvers"] if s["track"] not in tracks()]
    if wrong:
        return _broken(line["end"], f"declares the track {wrong[0]!r}, expected one of {', '.join(tracks())}")
    return [SolverInfo(**solver) for solver in line["solvers"]]


def _broken(place: str, error: str) -> list[SolverInfo]:
    """What fails declares nothing: a row in every track that the file's text or folder names, else in all."""
    path = Path(place)
    text = path.read_text(errors="replace") if path.is_file() else ""
    named = {path.parent.name, *TRACK.findall(text)} & set(tracks())
    name = legal_name(place.removeprefix(PACKAGE) if place.startswith(PACKAGE) else path.stem)
    digest = source_hash(place)
    return [SolverInfo(name, track, "solver", place, digest, error=error) for track in sorted(named or tracks())]


def _unique(found: list[SolverInfo]) -> list[SolverInfo]:
    by_name: dict[tuple[str, str], SolverInfo] = {}
    for info in found:
        other = by_name.setdefault((info.track, info.name), info)
        if other is not info:
            raise InputError(
                info.file, info.name, f"expected a name that {info.track} does not have yet ({other.file})"
            )
    return sorted(by_name.values(), key=lambda info: (info.track, info.kind != "solver", info.name))
