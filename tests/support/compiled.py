"""C programs of tests, compiled with the kernels that they test, plain or under sanitizers."""

from __future__ import annotations

import shlex
import subprocess
import sysconfig
from pathlib import Path

import pytest
from effort import THOROUGH

CORE = Path(__file__).parents[2] / "c_src"
COMPILER = shlex.split(sysconfig.get_config_var("CC") or "cc")[0]
#: To check that pointers do not overflow takes a fifth of the time to compile; where memory is read or written by such
#: a pointer, AddressSanitizer notices.
SANITIZE = (
    *("-g1", "-Og", "-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer"),
    *(() if THOROUGH else ("-fno-sanitize=pointer-overflow",)),
)
#: The kernels that each test program is linked with.
PROGRAMS = {
    "flow": ("common/flow",),
    "pipeline": ("common/*", "pipeline/*", "pipeline/sets/*"),
    "windows": ("pipeline/windows/*", "common/flow", "common/stop"),
    "networks": ("intraop/*",),
    "large_neighbourhood": ("intraop/blocks/block_elimination",),  # it includes the rest
    "splits": ("placement/ideals/*", "common/ideals"),
    "schedule_dp": ("placement/ideals/*", "common/ideals"),
    "load_searches": ("placement/load/*",),
    "cheapest_with": ("placement/cheapest_*", "placement/hypergraph_flow", "common/flow"),
    "hybrid/chains": ("common/*", "hybrid/*", "hybrid/*/*"),
    "scheduling": ("common/*", "scheduling/*", "scheduling/paths/*", "scheduling/simulation/*"),
    "bounds/heads_tails": ("common/*", "scheduling/bounds/*"),
    "bounds/refute": ("common/*", "scheduling/bounds/*"),
}


def kernels(program: str) -> list[Path]:
    """The sources of the kernels that a test program is linked with."""
    return [path for pattern in PROGRAMS[program] for path in sorted(CORE.glob(f"{pattern}.c"))]


def compiled(target: Path, sources: list[Path], *flags: str) -> Path:
    """Return the program compiled from these sources; fail if the compiler complains."""
    command = [COMPILER, *flags, f"-I{CORE}", *map(str, sources), "-lm", "-o", str(target)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return target


def objects(folder: Path, sources: list[Path], *flags: str) -> list[Path]:
    """Compile each source on its own, unless the folder has its object already; return the objects."""
    found = []
    for source in sources:
        found.append(folder / f"{source.relative_to(CORE).as_posix().replace('/', '-')}.o")
        if not found[-1].exists():
            compiled(found[-1], [source], *flags, "-c")
    return found


def require(folder: Path, *flags: str) -> None:
    """Skip if programs under these sanitizers do not run here.

    Their libraries are separate packages, and they refuse to start if the system places memory at unexpected
    addresses.
    """
    trivial = folder / "trivial.c"
    trivial.write_text("int main(void) { return 0; }\n")
    try:
        subprocess.run([compiled(folder / "trivial", [trivial], *flags)], check=True, capture_output=True)
    except (AssertionError, subprocess.CalledProcessError):
        pytest.skip(f"programs compiled with {' '.join(flags)} do not run here")
