"""Discovery of solvers: files and installed packages, imported by child processes, and external programs.

A file that fails to import is listed with the error.
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
import threading
import time
from collections.abc import Container, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import chain, count
from pathlib import Path
from typing import Any
from uuid import uuid4

from shardmark.harness.campaign import import_check, survey_cache
from shardmark.harness.campaign.import_check import IMPORT_TIMEOUT_S
from shardmark.harness.sandbox.contract import SUPERVISOR_VARIABLE, Cancelled
from shardmark.harness.sandbox.memory import OUT_OF_MEMORY
from shardmark.harness.sandbox.supervisor import environment, remove
from shardmark.instances import InputError, tracks
from shardmark.solvers import external
from shardmark.solvers.registry import NAME, PACKAGE, legal_name, solver_files, source_hash

CHECK_S = 0.2  # seconds between two checks whether an import was cancelled
PARALLEL = 2  # third-party files that are imported at the same time
MAX_ANSWER = 1 << 20  # bytes that one child process may answer
#: Errors by the exit status of an import; a negative status is that of a child that is not isolated.
STATUS_ERRORS = {
    import_check.OUT_OF_CPU_STATUS: f"used more than {import_check.CPU_S} s of CPU time while it was imported",
    import_check.OUT_OF_MEMORY_STATUS: OUT_OF_MEMORY,
}
STATUS_ERRORS[-signal.SIGXCPU] = STATUS_ERRORS[import_check.OUT_OF_CPU_STATUS]
KINDS = ("solver", "bound")
TRACK = re.compile(r"""(?:track\s*=\s*|@(?:solver|bound)\(\s*)["'](\w+)["']""")  # a track in the text of a solver file


@dataclass(frozen=True)
class SolverInfo:
    """A solver as the referee knows it.

    ``file`` declares it: a path, or ``package:MODULE``. ``error`` is the reason why it cannot be imported or started,
    "" if it can. ``command`` is that of an external program, with placeholders; () for a Python function.
    ``proves_bounds`` is False for a solver that declares that it never reports a lower bound.
    ``settings`` are those of ``params`` that the user has set, which makes it a variant of the solver ``variant_of``.
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
    proves_bounds: bool = True
    error: str = ""
    command: tuple[str, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    variant_of: str = ""

    @property
    def declared(self) -> str:
        """Name under which its file declares it."""
        return self.variant_of or self.name


def discover(paths: Iterable[str | Path] = ()) -> list[SolverInfo]:
    """Return all solvers and bounds of the project, of installed packages and of ``paths``, by track and name.

    A path is a Python file, a TOML file of external programs, or a folder of both. A solver that cannot be imported or
    started is listed under its own name with the error. InputError for a path that is none of these, and for a
    file that declares nothing.
    """
    given = _checked(paths)
    own = solver_files() if given else []
    foreign = [file for file in solver_files(given) if file not in own] if given else []
    found, installed = _survey()
    places = _versions(foreign) | installed
    for place, infos in zip(places, _import_separately(places), strict=True):
        if not infos and Path(place) in given:
            raise InputError(place, "", "expected a file that declares a method, with @solver or @bound")
        found += _without_clash(infos, found)
    return _unique([*found, *(info for file in external.toml_files(given) for info in _programs(file))])


def _survey() -> tuple[list[SolverInfo], dict[str, str]]:
    """Return the project's own solvers, and the hashes of installed packages that declare solvers, by place.

    A process that runs no third-party code imports them; its answer is kept until a file changes. An answer with an
    error or with packages is not kept: it depends on other files as well.
    """
    stamp = survey_cache.stamp()
    with contextlib.suppress(TypeError):
        if (known := survey_cache.load(stamp)) is not None:
            return [SolverInfo(**declaration) for declaration in known], {}
    found, installed = _imported(_versions(solver_files()), threading.Event(), survey=True)
    if not installed and not any(info.error for info in found):
        survey_cache.save(stamp, [{k: v for k, v in vars(info).items() if k != "command"} for info in found])
    return found, installed


def declared_in(path: str | Path) -> list[SolverInfo]:
    """Return what one Python or TOML file declares; its names may be those of other solvers."""
    (file,) = _checked([path])
    if file.suffix == ".toml":
        return _programs(file)
    (infos,) = _import_separately(_versions([file]))
    return infos


def _programs(file: Path) -> list[SolverInfo]:
    return [SolverInfo(kind="solver", **vars(program)) for program in external.read_toml(file)]


def from_command(command: str, track: str) -> SolverInfo:
    """Return a command line as a solver of a track, named after its file; InputError if it cannot be started."""
    return SolverInfo(kind="solver", **vars(external.from_command(command, track)))


def _checked(paths: Iterable[str | Path]) -> list[Path]:
    given = [Path(path).resolve() for path in paths]
    for path in given:
        if not path.exists():
            raise InputError(path, "", "expected a solver file or a folder of them, found nothing of that name")
        if not path.is_dir() and path.suffix not in (".py", ".toml"):
            raise InputError(path, "", "expected a Python file, a TOML file or a folder of them")
    return given


def _versions(files: Iterable[Path]) -> dict[str, str]:
    return {str(file): source_hash(file) for file in files}


def _import_separately(versions: Mapping[str, str]) -> list[list[SolverInfo]]:
    """Import each third-party file or package in its own process; return what each declares."""
    cancel = threading.Event()
    with ThreadPoolExecutor(PARALLEL) as pool:
        try:
            return list(pool.map(lambda place: _imported({place: versions[place]}, cancel)[0], versions))
        except BaseException:  # such as Ctrl-C, which only this thread receives
            cancel.set()
            raise


def _imported(
    versions: Mapping[str, str], cancel: threading.Event, *, survey: bool = False
) -> tuple[list[SolverInfo], dict[str, str]]:
    """Return what places (files and packages) declare, and with ``survey`` the hashes of all installed packages.

    ``versions`` has the hash of each place. If one of them ends the child process, another one imports the rest.
    Cancelled once ``cancel`` is set.
    """
    found: list[SolverInfo] = []
    installed: dict[str, str] = {}
    left = dict(versions)
    while left:
        content, error = _import(list(left), cancel, survey)
        try:
            answers = _answers(content)
            installed = answers.pop(0)["installed"] if survey and answers else installed
            if [answer["end"] for answer in answers] != list(left)[: len(answers)]:
                raise ValueError("an answer for an unexpected place")
            declared = [_read(answer, place, left[place]) for answer, place in zip(answers, left, strict=False)]
        except (ValueError, TypeError, KeyError, RecursionError):
            declared, error = [], "was imported, but its answer is not a list of declarations"
        found += [info for infos in declared for info in infos]
        left = dict(list(left.items())[len(declared) :])
        if left:  # the place that was being imported ended the process
            place = next(iter(left))
            found += _broken(place, error, left.pop(place))
    return found, installed


def _import(places: Sequence[str], cancel: threading.Event, survey: bool) -> tuple[bytes, str]:
    """Return the output of one child process, and why it ended if it has not imported all places.

    Without ``survey`` there is one place, a third-party one, imported in isolation.
    """
    scratch = os.path.join(tempfile.gettempdir(), f"shardmark-{uuid4().hex}")
    # A file, because a process left by an import could hold a pipe open.
    with tempfile.TemporaryFile() as answers:
        isolated = ["shardmark.harness.campaign.import_check", *places, scratch, str(os.getpid())]
        module = ["shardmark.harness.sandbox.worker", "survey", json.dumps(places)] if survey else isolated
        child = subprocess.Popen(
            [sys.executable, "-P", "-m", *module],
            stdin=subprocess.DEVNULL,
            stdout=answers,
            stderr=subprocess.DEVNULL,
            env=environment(1) | {SUPERVISOR_VARIABLE: scratch},  # tells an imported file that it is being imported
            start_new_session=True,
        )
        try:
            status = _wait(child, cancel)
            error = STATUS_ERRORS.get(status, f"ended the process while it was imported (exit status {status})")
        except subprocess.TimeoutExpired:
            error = f"was not imported within {IMPORT_TIMEOUT_S:g} s"
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            child.wait()
            remove(scratch)
        answers.seek(0)
        return answers.read(MAX_ANSWER + 1), error


def _wait(child: subprocess.Popen[bytes], cancel: threading.Event) -> int:
    """Return the exit status of a child; TimeoutExpired after `IMPORT_TIMEOUT_S`, Cancelled once ``cancel`` is set."""
    until = time.monotonic() + IMPORT_TIMEOUT_S
    while not cancel.is_set():
        try:
            return child.wait(CHECK_S)
        except subprocess.TimeoutExpired:
            if time.monotonic() > until:
                raise
    raise Cancelled


def _answers(content: bytes) -> list[dict[str, Any]]:
    """Return the complete lines of a child's output; ValueError or RecursionError if they are not JSON, or too long."""
    if len(content) > MAX_ANSWER:
        raise ValueError(f"more than {MAX_ANSWER} bytes")
    return [json.loads(line) for line in content.split(b"\n")[:-1]]


def _read(answer: Mapping[str, Any], place: str, version: str) -> list[SolverInfo]:
    """Return what a place declares, after checking all of it; TypeError or KeyError if the answer is malformed."""
    if "error" in answer:
        return _broken(place, _printable(answer["error"]), version)
    found: dict[tuple[str, str], SolverInfo] = {}
    try:
        for info in (_declared(declared, place, version) for declared in answer["solvers"]):
            if found.setdefault((info.track, info.name), info) is not info:
                raise ValueError(f"declares {info.name!r} twice")
    except ValueError as error:
        return _broken(place, str(error), version)
    return list(found.values())


def _declared(solver: Mapping[str, Any], place: str, version: str) -> SolverInfo:
    """Return one declared solver; ValueError with the reason if the declaration is invalid."""
    words: dict[str, Any] = {}
    for key in ("name", "track", "kind", "source", "description"):
        if not isinstance(solver[key], str):
            raise ValueError(f"declares a {key} that is not text")
        words[key] = _printable(solver[key])
    if words["track"] not in tracks():
        raise ValueError(f"declares the track {words['track']!r}, expected one of {', '.join(tracks())}")
    if words["kind"] not in KINDS:
        raise ValueError(f"declares the kind {words['kind']!r}, expected one of {', '.join(KINDS)}")
    if not NAME.fullmatch(words["name"]):
        raise ValueError(f"declares the name {words['name']!r}: expected lower-case letters, digits, dots and dashes")
    params, flags = solver["params"], {key: solver[key] for key in ("deterministic", "proves_bounds")}
    if not isinstance(params, dict):
        raise ValueError("declares params that are not an object")
    for key, flag in flags.items():
        if not isinstance(flag, bool):
            raise ValueError(f"declares {key} that is neither true nor false")
    # JSON text may contain half a surrogate pair, or infinity, which no table can store.
    plain = json.dumps(params, ensure_ascii=False, allow_nan=False).encode(errors="replace")
    return SolverInfo(**words, file=place, hash=version, params=json.loads(plain), **flags)


def _printable(text: str) -> str:
    return "".join(character if character.isprintable() else "?" for character in " ".join(text.split()))


def _broken(place: str, error: str, version: str) -> list[SolverInfo]:
    """Return a broken place as one solver per track that its text or folder names, else in every track."""
    path = Path(place)
    text = path.read_text(errors="replace") if path.is_file() else ""
    named = {path.parent.name, *TRACK.findall(text)} & set(tracks())
    name = legal_name(place.removeprefix(PACKAGE) if place.startswith(PACKAGE) else path.stem)
    return [SolverInfo(name, track, "solver", place, version, error=error) for track in sorted(named or tracks())]


def _without_clash(infos: list[SolverInfo], found: Sequence[SolverInfo]) -> list[SolverInfo]:
    """Return what one place declares, or its error if one of its names is taken.

    A broken file is named after its path: if that name is taken, a number is added.
    """
    taken = {(other.track, other.name): other.file for other in found}
    for info in infos:
        if not info.error and (other := taken.get((info.track, info.name))):
            error = f"solver name {info.name!r}: expected a name that {info.track} does not have yet ({other})"
            return _without_clash(_broken(info.file, error, info.hash), found)
    return [replace(info, name=_free_name(info, taken)) if info.error else info for info in infos]


def _free_name(info: SolverInfo, taken: Container[tuple[str, str]]) -> str:
    names = chain([info.name], (f"{info.name}-{number}" for number in count(2)))
    return next(name for name in names if (info.track, name) not in taken)


def _unique(found: list[SolverInfo]) -> list[SolverInfo]:
    by_name: dict[tuple[str, str], SolverInfo] = {}
    for info in found:
        if (other := by_name.setdefault((info.track, info.name), info)) is not info:
            expected = f"expected a name that {info.track} does not have yet ({other.file})"
            raise InputError(info.file, info.name, expected)
    return sorted(by_name.values(), key=lambda info: (info.track, info.kind != "solver", info.name))
