"""Build the C core as the extension modules `solvers._core` and `instances.files._reader` (cffi, API mode)."""

from __future__ import annotations

import re
from graphlib import TopologicalSorter
from pathlib import Path

from cffi import FFI

FOLDER = Path(__file__).resolve().parent
#: Folders of the core: all but the reader of files, which is a module of its own.
CORE = tuple(sorted({path.relative_to(FOLDER).parts[0] for path in FOLDER.glob("*/**/*.c")} - {"reader"}))
DECLARATIONS = re.compile(r"/\* cffi: begin \*/\n(.*?)(?:/\* cffi: end \*/|\Z)", re.DOTALL)
INCLUDES = re.compile(r'^#include "(.*)"$', re.MULTILINE)

# No contraction: the cost of a segment must have the same bits wherever it is computed. No -march: wheels run anywhere.
# Hidden functions can be inlined within their file and are called directly from other files.
FLAGS = [
    *("-std=c11", "-O3", "-ffp-contract=off", "-fvisibility=hidden"),
    *("-Wall", "-Wextra", "-Wshadow", "-Wvla", "-Wstrict-prototypes", "-Werror"),
]
# Turn off the warnings that status.h adds, which the wrapper that cffi generates after our headers does not pass.
LENIENT = "".join(f'#pragma GCC diagnostic ignored "-W{name}"\n' for name in ("pedantic", "conversion"))


def declarations(folders: tuple[str, ...] = CORE) -> dict[str, str]:
    """Return the declarations that each header offers to Python, in the order of inclusion."""
    paths = [path for folder in folders for path in sorted((FOLDER / folder).rglob("*.h"))]
    includes = {path.relative_to(FOLDER).as_posix(): INCLUDES.findall(path.read_text()) for path in paths}
    order = TopologicalSorter(includes).static_order()
    return {name: "".join(DECLARATIONS.findall((FOLDER / name).read_text())) for name in order}


def builder(module: str, folders: tuple[str, ...]) -> FFI:
    """Return the builder of one extension module."""
    ffi, offered = FFI(), declarations(folders)
    sources = [path for folder in folders for path in sorted((FOLDER / folder).rglob("*.c"))]
    ffi.cdef("".join(offered.values()))
    ffi.set_source(
        module,
        "".join(f'#include "{name}"\n' for name, text in offered.items() if text) + LENIENT,
        sources=[f"c_src/{path.relative_to(FOLDER)}" for path in sources],
        include_dirs=["c_src"],
        depends=[f"c_src/{name}" for name in offered],
        extra_compile_args=FLAGS,
    )
    return ffi


ffibuilder = builder("shardmark.solvers._core", CORE)
reader = builder("shardmark.instances.files._reader", ("reader",))
