"""The solver contract: @solver and @bound, what a run offers a solver, and discovery of solver files."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import inspect
import math
import os
import re
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from importlib.machinery import EXTENSION_SUFFIXES, ModuleSpec, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from importlib.metadata import EntryPoints

    import numpy as np

FOLDER = Path(__file__).resolve().parent
#: Packages that were installed under these names before they became parts of `shardmark`.
ROOMS = ("harness", "instances", "leaderboard", "records", "solvers")
PUBLIC = ("*/*.py", "*/bounds/*.py")  # patterns of solver files; other folders of a track are machinery
NAME = re.compile(r"[a-z0-9][a-z0-9.-]*")
GROUP = "shardmark.solvers"  # of entry points, each names a module that declares solvers
PACKAGE = "package:"  # prefix of places in installed packages
CODE_SUFFIXES = (".py", *EXTENSION_SUFFIXES)

#: A function that returns the proof of a certificate: plain JSON of a kind that docs/certificates.md describes.
Proof = Callable[[], Mapping[str, Any]]
Function = TypeVar("Function", bound=Callable[..., Any])


class Declined(Exception):
    """Raised by a solver that refuses an instance; tables show its text as the reason."""


class Run(ABC):
    """What the referee hands a solver together with the instance.

    ``seed``      int; the only source of randomness that keeps a run repeatable
    ``cores``     int; how many threads or processes may compute at once
    ``memory``    float; MiB that the whole process tree may use
    ``deadline``  float; value of `time.monotonic` by which everything must have been reported
    ``certify``   bool; whether certificates of bounds are asked for
    """

    def __init__(
        self, *, seed: int = 0, cores: int = 1, memory: float = 4096.0, timeout: float = 10.0, certify: bool = False
    ) -> None:
        self.seed = seed
        self.cores = cores
        self.memory = memory
        self.certify = certify
        self.deadline = time.monotonic() + timeout

    @cached_property
    def rng(self) -> np.random.Generator:
        """One generator for the run, seeded from ``seed``."""
        import numpy as np

        return np.random.default_rng(self.seed)

    def remaining(self) -> float:
        """Seconds left until ``deadline``; 0.0 once it has passed."""
        return max(0.0, self.deadline - time.monotonic())

    @abstractmethod
    def report(self, solution: Any, cost: float | None = None) -> None:
        """Report a solution in the track's JSON; NumPy arrays and integers are accepted.

        The referee records the time and verifies the solution. Report every better solution as soon as it is found: it
        counts even if a time-out, a crash or a memory kill follows. The optional ``cost`` is a claim, which the referee
        compares with its own value; an int stays exact.
        """

    @abstractmethod
    def bound(self, value: float, certificate: Proof | None = None) -> None:
        """Report a proven lower bound on the optimum; an int stays exact.

        ``certificate`` returns its proof. It is called only if ``certify`` is set, at once or later, at the latest when
        the solver has returned, unless a later certificate has replaced it: it must depend on nothing that changes.
        """


class LocalRun(Run):
    """A run without a referee, for trying a solver out: keeps what is reported in ``solutions`` and ``bounds``.

    ``memory`` is in MiB, ``timeout`` in seconds from now. ``certificate`` is the last bound with a proof, and that.
    """

    def __init__(
        self, *, seed: int = 0, cores: int = 1, memory: float = 4096.0, timeout: float = 10.0, certify: bool = False
    ) -> None:
        super().__init__(seed=seed, cores=cores, memory=memory, timeout=timeout, certify=certify)
        self.solutions: list[Any] = []
        self.bounds: list[float] = []
        self.certificate: tuple[float, Mapping[str, Any]] | None = None

    def report(self, solution: Any, cost: float | None = None) -> None:
        """Keep a solution."""
        self.solutions.append(solution)

    def bound(self, value: float, certificate: Proof | None = None) -> None:
        """Keep a lower bound."""
        self.bounds.append(value)
        if self.certify and certificate is not None:
            self.certificate = value, certificate()


@dataclass(frozen=True)
class Solver:
    """One row of the leaderboard: a function, its parameters and where it comes from.

    ``kind`` is "solver" or "bound" (a method whose product is lower bounds). ``deterministic``: the same seed gives the
    same solution unless time runs out. ``proves_bounds``: it may report lower bounds.
    """

    name: str
    track: str
    kind: str
    source: str
    params: Mapping[str, Any]
    deterministic: bool
    proves_bounds: bool
    function: Callable[..., Any] = field(repr=False)

    @property
    def description(self) -> str:
        """First line of the function's docstring, without its quotes around code."""
        return (self.function.__doc__ or "").strip().split("\n")[0].replace("``", "")


_declared: list[Solver] = []


def solver(
    track: str,
    *,
    source: str = "",
    name: str | None = None,
    variants: Mapping[str, Mapping[str, Any]] | None = None,
    deterministic: bool = True,
    proves_bounds: bool = True,
) -> Callable[[Function], Function]:
    """Declare a function ``f(instance, run, **params)`` as a solver of ``track``.

    ``name`` defaults to the function's name with dashes. The solver's parameters are those whose default is a number, a
    text or a truth value. ``variants`` maps names to parameters and declares one solver per name instead; omitted
    parameters keep their defaults. ``source`` cites the origin of the method. Set ``deterministic`` to False if two
    runs with the same seed may differ, and ``proves_bounds`` to False if the solver never reports a lower bound:
    `bound` and `check` then refuse it as their method.
    """
    return _declare("solver", track, source, name, variants, deterministic, proves_bounds)


def bound(
    track: str,
    *,
    source: str = "",
    name: str | None = None,
    variants: Mapping[str, Mapping[str, Any]] | None = None,
    deterministic: bool = True,
) -> Callable[[Function], Function]:
    """Declare a function as a lower-bound method of ``track``; see `solver`."""
    return _declare("bound", track, source, name, variants, deterministic, True)


def _declare(
    kind: str,
    track: str,
    source: str,
    name: str | None,
    variants: Mapping[str, Mapping[str, Any]] | None,
    deterministic: bool,
    proves_bounds: bool,
) -> Callable[[Function], Function]:
    from shardmark.instances import TRACKS  # for whoever declares a solver only

    if track not in TRACKS:
        raise ValueError(f"track {track!r}: expected one of {', '.join(TRACKS)}")

    def register(function: Function) -> Function:
        named = variants or {name or function.__name__.replace("_", "-"): {}}
        _require_instance_and_run(function)
        defaults = _defaults(function)
        for key, params in named.items():
            if not NAME.fullmatch(key):
                raise ValueError(f"solver name {key!r}: expected lower-case letters, digits, dots and dashes")
            _declared[:] = [other for other in _declared if not _is_redeclaration(other, key, track, function)]
            if any(key == other.name and track == other.track for other in _declared):
                raise ValueError(f"solver name {key!r}: expected a name that {track} does not have yet")
            values = {**defaults, **params}
            _declared.append(Solver(key, track, kind, source, values, deterministic, proves_bounds, function))
        return function

    return register


def _require_instance_and_run(function: Callable[..., Any]) -> None:
    """TypeError unless a function takes an instance and a run."""
    signature = inspect.signature(function)
    try:
        signature.bind_partial(None, None)
    except TypeError:
        name = function.__name__
        raise TypeError(f"expected {name}(instance, run), found {name}{signature}") from None


def _is_redeclaration(other: Solver, name: str, track: str, function: Callable[..., Any]) -> bool:
    """True if a function repeats an earlier declaration: its module was reloaded, or a notebook's cell run again."""
    same = other.function.__module__ == function.__module__ and other.function.__qualname__ == function.__qualname__
    return same and (other.name, other.track) == (name, track)


def declared_by(function: object) -> list[Solver]:
    """The solvers that a function declares, in order."""
    return [solver for solver in _declared if solver.function is function]


def _defaults(function: Callable[..., Any]) -> dict[str, Any]:
    """Parameters of a function with defaults that tables can show and a user can set."""
    values = {name: x.default for name, x in inspect.signature(function).parameters.items()}
    kept = {name: value for name, value in values.items() if isinstance(value, bool | int | float | str)}
    return {name: value for name, value in kept.items() if not isinstance(value, float) or math.isfinite(value)}


def solver_files(paths: Iterable[str | Path] = ()) -> list[Path]:
    """Files that may declare solvers, in order.

    First ``solvers/TRACK/*.py`` and ``solvers/TRACK/bounds/*.py``, then ``paths``: files, or folders of files.

    A name that begins with an underscore is a helper, not a solver file.
    """
    found = sorted(file for pattern in PUBLIC for file in FOLDER.glob(pattern))
    for path in map(Path, paths):
        found += files_in(path, ".py")
    return [p for p in dict.fromkeys(f.resolve() for f in found) if not p.name.startswith("_")]


def legal_name(text: str) -> str:
    """The solver name nearest to any text, such as the name of a file."""
    return re.sub(r"[^a-z0-9.-]+", "-", text.lower()).strip(".-") or "solver"


def files_in(path: Path, suffix: str) -> list[Path]:
    """The file itself if it has the suffix; of a folder, all such files outside folders named with an underscore."""
    if not path.is_dir():
        return [path] if path.suffix == suffix else []
    found = sorted(path.rglob(f"*{suffix}"))
    return [file for file in found if not any(part.startswith("_") for part in file.relative_to(path).parts[:-1])]


def installed() -> list[str]:
    """Places of the modules that installed packages declare as solvers, without duplicates."""
    return sorted({PACKAGE + entry.value for entry in _entries()})


def _entries() -> EntryPoints:
    from importlib.metadata import entry_points  # slow to import, and few runs need it

    return entry_points(group=GROUP)


def load(place: str) -> list[Solver]:
    """Import a place and return the solvers that it declares, in order.

    A place is the path of a solver file, or ``package:MODULE`` for that module and its submodules.
    """
    return load_package(place.removeprefix(PACKAGE)) if place.startswith(PACKAGE) else load_file(Path(place))


def load_package(module: str) -> list[Solver]:
    """Import a module of an installed package; return the solvers that it and its submodules declare."""
    if not all(part.isidentifier() for part in module.split(".")):
        raise ImportError(f"expected the entry point to name a module, found {module!r}")
    importlib.import_module(module)
    return [s for s in _declared if f"{s.function.__module__}.".startswith(f"{module}.")]


def load_file(path: Path) -> list[Solver]:
    """Import one solver file and return its solvers, in the order of the file."""
    module = _import(path)
    return [solver for solver in _declared if solver.function.__module__ == module.__name__]


class _FromSource(SourceFileLoader):
    """Always compiles the source: cached bytecode may stem from other source of the same size and second."""

    def get_code(self, fullname: str) -> CodeType:
        return self.source_to_code(self.get_data(self.path), self.path)


def _import(path: Path) -> ModuleType:
    if path.is_relative_to(FOLDER):
        name = ".".join(("shardmark.solvers", *path.relative_to(FOLDER).with_suffix("").parts))
        return importlib.import_module(name)
    name = f"shardmark_external_{hashlib.sha256(os.fsencode(path)).hexdigest()[:12]}"
    loader = _FromSource(name, str(path))
    spec = ModuleSpec(name, loader, origin=str(path))
    spec.has_location = True
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    sys.path.insert(0, str(path.parent))  # helpers in the folder of an external solver
    try:
        loader.exec_module(module)
    except ModuleNotFoundError as error:
        if (room := (error.name or "").split(".")[0]) in ROOMS:
            error.msg = f"the package {room} is now shardmark.{room}; solver files import from shardmark"
        raise
    finally:
        sys.path.remove(str(path.parent))
    return module


def source_hash(place: str | Path) -> str:
    """SHA-256 of the code of a solver, which identifies its version.

    For a solver of this project: its file, the modules of ``solvers/`` that it imports, and the kernels of the C core
    that these name (`reach`). For an external file: the file and every Python file in its folder, which it can import.
    For an installed package: its version, its Python files and its compiled modules. Versions of other packages, and
    the code that reads instances, are not included: the campaign records those.
    """
    if str(place).startswith(PACKAGE):
        return _package_hash(str(place).removeprefix(PACKAGE))
    path = Path(place)
    if not path.is_relative_to(FOLDER):
        return hash_of((file.name, file) for file in sorted({path, *path.parent.glob("*.py")}) if file.is_file())
    from shardmark.solvers.reach import reached  # a run needs no versions

    files = reached(path, FOLDER, FOLDER.parent / "c_src")
    return hash_of((str(file.relative_to(FOLDER.parent)), file) for file in sorted(files))


def _package_hash(module: str) -> str:
    """SHA-256 of the version and the code of a module's package, without importing it."""
    versions = {entry.dist.version for entry in _entries() if entry.value == module and entry.dist}
    spec = importlib.util.find_spec(module.split(".")[0])
    files: dict[str, Path] = {}
    for folder in map(Path, (spec and spec.submodule_search_locations) or ()):
        code = (file for suffix in CODE_SUFFIXES for file in folder.rglob(f"*{suffix}"))
        files |= {str(file.relative_to(folder)): file for file in code}
    if spec is not None and spec.origin is not None:
        files.setdefault(Path(spec.origin).name, Path(spec.origin))
    return hash_of(sorted(files.items()), ",".join(sorted(versions)))


def hash_of(files: Iterable[tuple[str, Path]], text: str = "") -> str:
    """SHA-256 of a text and of files, each under the given name."""
    digest = hashlib.sha256(text.encode())
    for name, file in files:
        status = file.stat()
        digest.update(b"\0" + os.fsencode(name) + b"\0" + _digest(file, status.st_mtime_ns, status.st_size))
    return digest.hexdigest()


@cache
def _digest(file: Path, changed_ns: int, size: int) -> bytes:
    """SHA-256 of a file, cached while its stamp stays the same: solvers of a track share most of their files."""
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").digest()
