"""Compile and run the C core's own test programs, with sanitizers in the gate; check its declarations for cffi."""

from __future__ import annotations

import importlib.util
import re
import subprocess
from pathlib import Path
from types import ModuleType

import pytest
from compiled import CORE, PROGRAMS, SANITIZE, compiled, kernels, objects, require
from effort import GATE, THOROUGH

pytestmark = pytest.mark.gate(cases=2)

HERE = Path(__file__).resolve().parent


@pytest.fixture(scope="module")
def build() -> ModuleType:
    """A fresh copy of the build script."""
    spec = importlib.util.spec_from_file_location("core_build", CORE / "build.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def flags(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ...]:
    """Compiler flags of a test program: in the gate with sanitizers, which take four times as long."""
    few = () if THOROUGH else ("-DPART=6",)
    if GATE:
        require(tmp_path_factory.mktemp("trivial"), *SANITIZE)
        return (*few, *SANITIZE)
    return few


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of programs, and of objects that several of them share."""
    return tmp_path_factory.mktemp("programs")


@pytest.fixture(scope="module", params=PROGRAMS)
def program(request: pytest.FixtureRequest, build: ModuleType, flags: tuple[str, ...], folder: Path) -> Path:
    """A test program linked with the kernels that it tests."""
    strict = (*build.FLAGS, "-Wpedantic", "-Wconversion", *flags)
    parts = [HERE / f"{request.param}.c", *objects(folder, kernels(request.param), *strict)]
    return compiled(
        folder / request.param.replace("/", "-"), parts, *strict, "-Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc"
    )


def test_kernels_agree_with_their_definitions(program: Path) -> None:
    done = subprocess.run([program], capture_output=True, text=True)
    assert done.stderr == ""
    assert done.returncode == 0


def test_a_wrong_result_fails_the_program(program: Path) -> None:
    done = subprocess.run([program, "wrong"], capture_output=True, text=True)
    assert done.returncode == 1
    assert re.fullmatch(r".*\.c:\d+: .*\bwrong\b.*\n", done.stderr)


@pytest.mark.gate
def test_a_thread_may_stop_kernels_that_another_runs(tmp_path: Path) -> None:
    flags = ("-std=gnu11", "-g", "-O1", "-fsanitize=thread", "-pthread")
    require(tmp_path, *flags)
    called = [CORE / "common/kahn.c", CORE / "common/stop.c", *CORE.glob("pipeline/*.c")]
    stop = compiled(tmp_path / "stop", [HERE / "stop.c", *called], *flags)
    done = subprocess.run([stop], capture_output=True, text=True, timeout=60)
    assert done.stderr == ""
    assert done.returncode == 0


def test_every_declared_function_is_in_the_compiled_core(build: ModuleType) -> None:
    from shardmark.solvers._core import lib

    declared = {
        word.split("(")[0] for word in "".join(build.declarations().values()).replace("*", " ").split() if "(" in word
    }
    functions = {name for name in declared if name.startswith("shard_")}
    assert functions == {name for name in dir(lib) if name.startswith("shard_")}
    texts = (header.read_text() for folder in build.CORE for header in (CORE / folder).rglob("*.h"))
    assert functions == {name for text in texts for name in re.findall(r"^\w.* \*?(shard_\w+)\(", text, re.MULTILINE)}
