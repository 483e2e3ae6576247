"""The files that an isolated run can read: the system's, Python and its packages, its solver, and its instance.

All other folders are empty to it: homes, checkouts, results and sites of other campaigns, mounted disks. Otherwise it
could look up a published cost or another's solution. `open_paths` and `mount_view` need a separate mount namespace.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import re
import sys
import sysconfig
import tempfile
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from shardmark.harness.sandbox.backends.mounts import NODEV, NOSUID, READ_ONLY, REMOUNT, bind, mount, mount_tmpfs
from shardmark.harness.sandbox.contract import Order
from shardmark.instances.catalog import place_of_arrays

ROOT = Path(__file__).resolve().parents[3]
#: Folder of a clone of this project; None if the project is installed as a package.
CHECKOUT = ROOT if (ROOT / "pyproject.toml").is_file() else None
#: The code that a run may read. In a clone the folders of `shardmark` are links to folders of the root.
PACKAGES = tuple(ROOT / name for name in ("harness", "instances", "shardmark", "solvers")) if CHECKOUT else (ROOT,)
#: Known costs, bounds and solutions: in the catalog, next to the results, in the reproductions, and in the records.
KNOWN = (ROOT / "instances" / "catalog.toml", ROOT / "harness" / "results", ROOT / "leaderboard", ROOT / "records")
#: Folders of the root with programs and their settings, which every run can read.
SYSTEM = frozenset(("bin", "etc", "gnu", "lib", "lib32", "lib64", "libx32", "nix", "opt", "proc", "sbin", "sys", "usr"))
OWN_MOUNTS = frozenset(("dev", "tmp"))  # folders of the root of which an isolated run has its own
PROGRAMS = frozenset(("bin", "sbin", "shims"))  # folders of programs that need files of the parent folder
#: Folders of packages of other versions of Python, as a folder with several of them has.
OTHER_PYTHON = re.compile(r"/lib/python\d+\.\d+")
ANSWERS = ("results.sqlite", "index.html")  # files by which a folder of results or a site is recognised
MAX_FOLDERS = 1000  # folders that are searched for results and sites: some 10 ms
BLANK_BYTES = 1 << 20  # bytes of the file system that holds the empty folders and the mount points


@dataclass(frozen=True)
class View:
    """Paths that a run can read in addition to the system's folders, and ``hidden`` paths among both that it cannot.

    A ``shown`` path that is a link is readable under its own name and under that of its target.
    """

    shown: tuple[Path, ...] = ()
    hidden: tuple[Path, ...] = ()


NO_VIEW = View()


def view_of(solver: str, command: Iterable[str] = (), files: Iterable[Path] = (), hidden: Iterable[Path] = ()) -> View:
    """Return the view of a solver, which is a file or ``package:MODULE``; each word of its command may be a path.

    A file is shown with its whole folder, but only with its Python files if the folder also holds a home or a
    checkout, lies at the root or is a folder of results. Results and sites are hidden in all folders that are shown.
    """
    named = _hideable([*_solver(solver), *(path for word in command for path in _word(word))])
    answers = (path for folder in named for path in _answers(folder))
    shown = (*_common_paths(), *named, *_hideable(files))
    return View(shown, (*KNOWN, *_common_answers(), *answers, *hidden))


def view_of_run(order: Order, command: Iterable[str]) -> View:
    """Return the view of a run; ``command`` has its placeholders filled in and is empty for a Python solver."""
    arrays = place_of_arrays(order.instance)
    hidden = (Path(order.hidden),) if order.hidden else ()
    return view_of(order.file, command, (Path(order.instance), *([arrays] if arrays else [])), hidden)


@cache
def _common_paths() -> tuple[Path, ...]:
    """Return the paths that every run can read: Python, packages, programs, libraries, and those of the environment."""
    given = [os.environ.get(name, "") for name in os.environ.get("SHARDMARK_ENVIRONMENT", "").split()]
    libraries = os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep)
    python = [sys.prefix, sys.base_prefix, *(path for path in sys.path if not _is_shared_folder(Path(path)))]
    paths = map(Path, (*python, *libraries, *given))
    programs = (_installation(Path(path)) for path in os.environ.get("PATH", "").split(os.pathsep))
    return _hideable((*PACKAGES, *paths, *programs))


def _hideable(paths: Iterable[Path]) -> tuple[Path, ...]:
    """Return the absolute paths, as they are and with links followed, that lie where `mount_view` hides files."""
    absolute = filter(Path.is_absolute, paths)
    names = {Path(name) for path in absolute for name in (os.path.normpath(path), os.path.realpath(path))}
    return tuple(name for name in names if _is_hideable(name))


def _installation(folder: Path) -> Path:
    """Return a folder of programs on the PATH, or its parent, in which their libraries lie."""
    return folder.parent if folder.name in PROGRAMS and not _is_shared_folder(folder.parent) else folder


def _is_shared_folder(folder: Path) -> bool:
    """Return True if a folder holds unrelated files: it lies at the root, or holds a home or a checkout."""
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
    """Yield the paths to show for a word of a command: a folder, or a file or link with its folder."""
    path = Path(word)
    if not os.path.isabs(word) or not path.exists():
        return
    if path.is_dir():
        yield path
        return
    yield from _with_its_folder(path)
    while path.is_symlink():
        path = path.parent / os.readlink(path)
        yield from _with_its_folder(path)


def _with_its_folder(file: Path) -> Iterator[Path]:
    if _is_shared_folder(file.parent) or any(os.path.lexists(file.with_name(name)) for name in ANSWERS):
        yield file
        yield from file.parent.glob("*.py")
    else:
        yield file.parent


@cache
def _common_answers() -> tuple[Path, ...]:
    """Return the folders of results and sites in what every run can read; searched for once, as that takes a while."""
    return tuple(path for folder in _common_paths() for path in _answers(folder))


def _answers(folder: Path) -> Iterator[Path]:
    """Yield the folders of results and sites among the first `MAX_FOLDERS` below a folder, breadth first.

    Python's own folders, in which packages may keep pages, are not searched.
    """
    python = _python_folders()
    folders = deque([str(folder)])
    for _ in range(MAX_FOLDERS):
        if not folders:
            return
        parent = folders.popleft()
        if parent in python or OTHER_PYTHON.search(parent):
            continue
        with contextlib.suppress(OSError), os.scandir(parent) as entries:
            inside = list(entries)
            if parent != str(folder) and any(entry.name in ANSWERS for entry in inside):
                yield Path(parent)
            else:
                folders.extend(entry.path for entry in inside if entry.is_dir(follow_symlinks=False))


@cache
def _python_folders() -> frozenset[str]:
    """Return Python's own folders, under the names by which it knows them and with links followed."""
    names = [sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib")]
    return frozenset((*names, *map(os.path.realpath, names)))


def _is_hideable(path: Path) -> bool:
    """Return True if a path lies in a folder that becomes empty."""
    of_the_system = len(path.parts) < 2 or path.parts[1] in SYSTEM
    return not of_the_system or (CHECKOUT is not None and path.is_relative_to(CHECKOUT))


# ---------------------------------------------------------------- in a mount namespace


def open_paths(paths: Iterable[Path]) -> list[tuple[Path, int]]:
    """Open each path that exists and does not lie in another of them."""
    opened: list[tuple[Path, int]] = []
    for path in sorted(paths):
        if not any(path.is_relative_to(other) for other, _ in opened):
            with contextlib.suppress(OSError):
                opened.append((path, os.open(path, os.O_PATH)))
    return opened


def _hidden_folders() -> list[str]:
    """Return the folders that become empty."""
    with os.scandir("/") as entries:
        places = [e.path for e in entries if e.name not in SYSTEM | OWN_MOUNTS and e.is_dir(follow_symlinks=False)]
    return places + ([str(CHECKOUT)] if CHECKOUT is not None and CHECKOUT.parts[1] in SYSTEM else [])


def mount_view(shown: Iterable[tuple[Path, int]], hidden: Iterable[Path]) -> None:
    """Empty all folders but the system's, mount the opened paths there, hide some of these, and make all read-only.

    Changes the current folder.
    """
    places = _hidden_folders()
    mount_tmpfs(places[0], BLANK_BYTES, "0755")
    os.chdir(places[0])
    os.mkdir("empty")
    for number, place in enumerate(places):
        os.mkdir(str(number))
        bind(str(number), place)
    for path, file in shown:
        folder = os.path.isdir(f"/proc/self/fd/{file}")
        (path if folder else path.parent).mkdir(parents=True, exist_ok=True)
        if not folder:
            path.touch()
        bind(f"/proc/self/fd/{file}", str(path))
        os.close(file)
    for path in filter(os.path.exists, hidden):
        bind("empty" if path.is_dir() else "/dev/null", str(path))
    mount(None, places[0], None, REMOUNT | READ_ONLY | NOSUID | NODEV)
