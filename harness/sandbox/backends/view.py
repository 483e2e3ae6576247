"""The files that an isolated run can read: the system's, Python and its packages, its solver, and its instance.

All other folders are empty to it: homes, checkouts, results and sites of other campaigns, mounted disks. Otherwise it
could look up a published cost or another's solution. `hold` and `cover` are called in a mount namespace of one's own.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import sys
import tempfile
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from harness.sandbox.backends.mounts import NODEV, NOSUID, READ_ONLY, REMOUNT, bind, mount, mount_tmpfs
from harness.sandbox.contract import Order
from instances.catalog import place_of_arrays

ROOT = Path(__file__).resolve().parents[3]
#: The folder of a clone of this project; None if the project is installed among other packages.
CHECKOUT = ROOT if (ROOT / "pyproject.toml").is_file() else None
PACKAGES = tuple(ROOT / name for name in ("harness", "instances", "shardmark", "solvers"))
#: Published costs and bounds: in the catalog, beside the results, and in the reproductions.
PUBLISHED = (ROOT / "instances" / "catalog.toml", ROOT / "harness" / "results", ROOT / "leaderboard")
#: Folders of the root that hold programs and their settings, which every run can read.
SYSTEM = frozenset(("bin", "etc", "gnu", "lib", "lib32", "lib64", "libx32", "nix", "opt", "proc", "sbin", "sys", "usr"))
OWN_MOUNTS = frozenset(("dev", "tmp"))  # folders of the root that an isolated run gets of its own
PROGRAMS = frozenset(("bin", "sbin", "shims"))  # names of folders whose programs need what lies beside the folder
ANSWERS = ("results.sqlite", "index.html")  # what makes a folder one of results, a site
MOST_FOLDERS = 1000  # that are looked through for answers, in some 20 ms of the run's time
BLANK_BYTES = 1 << 20


@dataclass(frozen=True)
class View:
    """What a run can read beside the system's own folders, and what it cannot although it lies in either.

    Each path that is ``shown`` is there under its own name and under the one behind all links.
    """

    shown: tuple[Path, ...] = ()
    hidden: tuple[Path, ...] = ()


NO_VIEW = View()


def view_of(solver: str, command: Iterable[str] = (), files: Iterable[Path] = (), hidden: Iterable[Path] = ()) -> View:
    """The view of a solver: its file or ``package:MODULE``, and the words of its command, each of which may be a path.

    A folder is shown whole, without results and sites in it, also one that every run can read. One that also holds a
    home or a checkout, lies at the root or is itself one of results is not: there the file alone is shown, with the
    Python files beside it.
    """
    named = [*_solver(solver), *(path for word in command for path in _word(word))]
    folders = (*_surroundings(), *_covered_names(named))
    answers = (path for folder in folders for path in _answers(folder))
    return View((*folders, *_covered_names(files)), (*PUBLISHED, *answers, *hidden))


def view_of_run(order: Order, instance: str, command: Iterable[str]) -> View:
    """The view of a run; ``command`` has no placeholders left, and is empty for a Python solver."""
    arrays = place_of_arrays(instance)
    hidden = (Path(order.hidden),) if order.hidden else ()
    return view_of(order.file, command, (Path(instance), *([arrays] if arrays else [])), hidden)


@cache
def _surroundings() -> tuple[Path, ...]:
    """What every run can read: Python, its packages, ours, programs, libraries, and what the environment names."""
    given = [os.environ.get(name, "") for name in os.environ.get("SHARDMARK_ENVIRONMENT", "").split()]
    libraries = os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep)
    python = [sys.prefix, sys.base_prefix, *(path for path in sys.path if not _wide(Path(path)))]
    paths = map(Path, (*python, *libraries, *given))
    programs = (_installation(Path(path)) for path in os.environ.get("PATH", "").split(os.pathsep))
    return _covered_names((*PACKAGES, *paths, *programs))


def _covered_names(paths: Iterable[Path]) -> tuple[Path, ...]:
    """The names of paths without and with all links followed, as far as `cover` covers them."""
    absolute = filter(Path.is_absolute, paths)
    names = {Path(name) for path in absolute for name in (os.path.normpath(path), os.path.realpath(path))}
    return tuple(name for name in names if _is_covered(name))


def _installation(folder: Path) -> Path:
    """The folder of programs on the PATH, or the one that it and their libraries lie in."""
    return folder.parent if folder.name in PROGRAMS and not _wide(folder.parent) else folder


def _wide(folder: Path) -> bool:
    """Whether a folder holds more than belongs together: it lies at the root, or holds a home or a checkout."""
    places = (Path(os.path.expanduser("~")), Path(tempfile.gettempdir()), *([CHECKOUT] if CHECKOUT else []))
    return len(folder.parts) <= 2 or any(place.is_relative_to(folder) for place in places)


def _solver(place: str) -> Iterator[Path]:
    if os.path.isabs(place):
        if not Path(place).is_relative_to(ROOT / "solvers"):
            yield from _with_its_folder(Path(place))
    elif place:
        spec = importlib.util.find_spec(place.rpartition(":")[2].split(".")[0])
        yield from map(Path, (spec and spec.submodule_search_locations) or ())
        if spec and spec.origin:
            yield Path(spec.origin)


def _word(word: str) -> Iterator[Path]:
    """What a word of a command names: a folder, or a file and the folder that it lies in, also behind links."""
    path = Path(word)
    if not os.path.isabs(word) or not path.exists():
        return
    if path.is_dir():
        yield path
        return
    while True:
        yield from _with_its_folder(path)
        if not path.is_symlink():
            return
        path = path.parent / os.readlink(path)


def _with_its_folder(file: Path) -> Iterator[Path]:
    if _wide(file.parent) or _has_answers(file.parent):
        yield file
        yield from file.parent.glob("*.py")
    else:
        yield file.parent


def _answers(folder: Path) -> Iterator[Path]:
    """Folders of results and sites below a folder, of its first `MOST_FOLDERS`, the highest first; none in a file."""
    folders = deque([folder])
    for _ in range(MOST_FOLDERS):
        if not folders:
            return
        with contextlib.suppress(OSError), os.scandir(folders.popleft()) as entries:
            for path in (Path(entry.path) for entry in entries if entry.is_dir(follow_symlinks=False)):
                if _has_answers(path):
                    yield path
                else:
                    folders.append(path)


def _has_answers(folder: Path) -> bool:
    return any(os.path.lexists(folder / name) for name in ANSWERS)


def _is_covered(path: Path) -> bool:
    """Whether a path lies in a folder that becomes empty."""
    of_the_system = len(path.parts) < 2 or path.parts[1] in SYSTEM
    return not of_the_system or (CHECKOUT is not None and path.is_relative_to(CHECKOUT))


# ---------------------------------------------------------------- in a mount namespace


def hold(paths: Iterable[Path]) -> list[tuple[Path, int]]:
    """Open each path that exists, but for those that lie in another; parents come before what lies in them."""
    held: list[tuple[Path, int]] = []
    for path in sorted(paths):
        if not any(path.is_relative_to(other) for other, _ in held):
            with contextlib.suppress(OSError):
                held.append((path, os.open(path, os.O_PATH)))
    return held


def _covered() -> list[str]:
    """Folders that become empty."""
    with os.scandir("/") as entries:
        places = [e.path for e in entries if e.name not in SYSTEM | OWN_MOUNTS and e.is_dir(follow_symlinks=False)]
    return places + ([str(CHECKOUT)] if CHECKOUT is not None and CHECKOUT.parts[1] in SYSTEM else [])


def cover(held: Iterable[tuple[Path, int]], hidden: Iterable[Path]) -> None:
    """Empty all folders but the system's, put back what is held, hide some of that, and let no run change any of it.

    Ends in another current folder.
    """
    places = _covered()
    mount_tmpfs(places[0], BLANK_BYTES, "0755")
    os.chdir(places[0])
    os.mkdir("empty")
    for number, place in enumerate(places):
        os.mkdir(str(number))
        bind(str(number), place)
    for path, file in held:
        _make(path, folder=os.path.isdir(f"/proc/self/fd/{file}"))
        bind(f"/proc/self/fd/{file}", str(path))
        os.close(file)
    for path in filter(os.path.exists, hidden):
        bind("empty" if path.is_dir() else "/dev/null", str(path))
    mount(None, places[0], None, REMOUNT | READ_ONLY | NOSUID | NODEV)


def _make(path: Path, *, folder: bool) -> None:
    """Make a folder or a file that something can be bound to."""
    if folder:
        path.mkdir(parents=True, exist_ok=True)
    else:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
