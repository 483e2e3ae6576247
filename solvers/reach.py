"""The code that a solver file of this project can reach: the modules it imports, and the C sources of their kernels.

Everything is read from the text of the files, nothing is imported: imports inside functions count as well.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path

#: Modules that every solver imports, and that change no method.
CONTRACT = ("registry.py", "__init__.py")
#: ``from MODULE import NAMES`` and ``import MODULES``, with names in brackets or up to the end of the statement.
_IMPORT = re.compile(
    r"\bfrom\s+(shardmark[\w.]*)\s+import\s*(\([^)]*\)|(?:\\\n|[^\n;])*)|\bimport\s+((?:\\\n|[^\n;])*)"
)
_NAMED = re.compile(r"\bshard_\w+")
_DECLARED = re.compile(r"\b(shard_\w+)\(")
_OFFERED = re.compile(r"/\* cffi: begin \*/\n(.*?)(?:/\* cffi: end \*/|\Z)", re.DOTALL)
_INCLUDE = re.compile(r'^#include "(.*)"$', re.MULTILINE)


def reached(file: Path, solvers: Path, c_src: Path) -> set[Path]:
    """Return a solver file, every module below the folder ``solvers`` that it imports, and every kernel they name.

    A kernel is named by a function of the C core. Its header, the file of the same name, and the headers that these
    include are reached, each with the file of its name.
    """
    modules = closure([file], lambda path: imported(path, _stamp(path), solvers))
    functions = {name for path in modules for name in functions_in(path, _stamp(path))}
    headers = [path for path in sorted(c_src.rglob("*.h")) if not functions.isdisjoint(offered(path, _stamp(path)))]
    return modules | closure(headers, lambda path: included(path, _stamp(path), c_src))


def closure(files: Iterable[Path], neighbours: Callable[[Path], Iterable[Path]]) -> set[Path]:
    """Return files and all that can be reached from them."""
    found: set[Path] = set()
    waiting = list(files)
    while waiting:
        if (file := waiting.pop()) not in found:
            found.add(file)
            waiting += neighbours(file)
    return found


def _stamp(file: Path) -> tuple[int, int]:
    """Return time and size of a file, with which what was read of it is kept."""
    status = file.stat()
    return status.st_mtime_ns, status.st_size


@cache
def imported(file: Path, stamp: tuple[int, int], solvers: Path) -> frozenset[Path]:
    """Return the modules below ``solvers`` that a Python file imports, less the contract."""
    names = set(_names(file.read_text(encoding="utf-8")))
    places = (solvers.joinpath(*name.split(".")[2:]) for name in names if name.startswith("shardmark.solvers."))
    modules = {place.with_name(f"{place.name}.py") for place in places}
    return frozenset(path for path in modules if path.name not in CONTRACT and path.is_file())


def _names(text: str) -> Iterator[str]:
    """Yield what may be the dotted names of modules that a text imports, also those that it only speaks of importing.

    To parse all solvers takes half a second of CPU time.
    """
    for module, chosen, listed in _IMPORT.findall(text):
        if module:
            yield module
            yield from (f"{module}.{name}" for name in re.findall(r"\w+", chosen))
        else:
            yield from re.findall(r"[\w.]+", listed)


@cache
def functions_in(file: Path, stamp: tuple[int, int]) -> frozenset[str]:
    """Return the functions of the C core that a Python file names."""
    return frozenset(_NAMED.findall(file.read_text(encoding="utf-8")))


@cache
def offered(header: Path, stamp: tuple[int, int]) -> frozenset[str]:
    """Return the functions that a header offers to Python."""
    return frozenset(_DECLARED.findall("".join(_OFFERED.findall(header.read_text(encoding="utf-8")))))


@cache
def included(file: Path, stamp: tuple[int, int], c_src: Path) -> frozenset[Path]:
    """Return the headers that a C file includes, and for a header also the file that defines what it declares."""
    headers = [c_src / name for name in _INCLUDE.findall(file.read_text(encoding="utf-8"))]
    twin = file.with_suffix(".c")
    return frozenset([*headers, *([twin] if twin.is_file() else [])])
