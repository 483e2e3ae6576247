"""Tests in forks: each runs once, with its file's fixtures; a process that ends fails the test that it ran, alone."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.gate

ROOT = Path(__file__).parents[1]
NAMES = ("first", "ended", "wrong", "last")
FILE = """
import os, pathlib, pytest

@pytest.fixture(scope="session")
def noted(tmp_path_factory):
    yield tmp_path_factory.mktemp("noted")
    note("session")

@pytest.fixture(scope="module")
def module(noted):
    yield
    note("module")

def note(word):
    with open({notes!r}, "a") as notes:
        notes.write(f"{{os.getpid()}} {name} {{word}}\\n")

@pytest.mark.parametrize("number", range(4))
def test_it(number, module, capfd):
    note(number)
    os.write(1, b"output")
    assert capfd.readouterr().out == "output"
    if {name!r} == "ended" and number == 1:
        os._exit(3)
    assert {name!r} != "wrong" or number != 2
"""


def run(folder: Path, *options: str) -> tuple[int, str, list[list[str]]]:
    """Run the files of a folder in two forks; return status, output, and what tests and fixtures have noted."""
    notes = folder / "notes"
    for name in NAMES:
        (folder / f"test_{name}.py").write_text(FILE.format(name=name, notes=str(notes)))
    command = [sys.executable, "-m", "pytest", "-c", os.devnull, "-p", "tests.side_by_side", "-p", "no:cacheprovider"]
    command += ["--import-mode=importlib", "--forks=2", f"--basetemp={folder / 'temporary'}", *options, str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    return done.returncode, done.stdout, [line.split() for line in notes.read_text().splitlines()]


def test_every_test_runs_once_and_a_process_that_ends_fails_one_of_them(tmp_path: Path) -> None:
    status, output, notes = run(tmp_path)
    assert status == 1
    assert "2 failed, 14 passed" in output
    assert "the process of this test has ended with status 3" in output
    assert set(re.findall(r"^FAILED .*test_(\w+)\.py::test_it\[(\d)\]", output, re.MULTILINE)) == {
        ("ended", "1"),
        ("wrong", "2"),
    }
    tests = [(name, word) for _, name, word in notes if word.isdecimal()]
    assert sorted(tests) == sorted((name, str(n)) for name in NAMES for n in range(4))
    processes = {name: {pid for pid, other, _ in notes if other == name} for name in NAMES}
    assert {name: len(pids) for name, pids in processes.items()} == {"first": 1, "ended": 2, "wrong": 1, "last": 1}
    for fixture in ("module", "session"):
        assert sorted(name for _, name, word in notes if word == fixture) == sorted(NAMES)


def test_the_first_failure_ends_the_session_if_that_is_asked_for(tmp_path: Path) -> None:
    status, output, notes = run(tmp_path, "-x", "-k", "wrong")
    assert status == 1
    assert "stopping after 1 failures" in output
    assert [word for *_, word in notes] == ["0", "1", "2", "module", "session"]


def test_a_module_that_starts_threads_of_polars_is_refused_as_forks_would_lack_them(tmp_path: Path) -> None:
    (tmp_path / "test_early.py").write_text("import polars\npolars.concat([polars.DataFrame({'a': [1]})] * 2)\n")
    (tmp_path / "notes").write_text("")
    status, _, notes = run(tmp_path)
    assert (status, notes) == (pytest.ExitCode.USAGE_ERROR, [])
