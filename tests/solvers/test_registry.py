"""Solvers and bounds as the decorators declare them: names, parameters and versions."""

from __future__ import annotations

import math
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from shardmark.instances import tracks
from shardmark.solvers import registry
from shardmark.solvers.reach import CONTRACT, reached
from shardmark.solvers.registry import Solver, solver, solver_files, source_hash

TRACKS = set(tracks())
ROOT = registry.FOLDER.parent


@pytest.fixture
def declared(monkeypatch: pytest.MonkeyPatch) -> list[Solver]:
    """Solvers declared from here on, forgotten at the end."""
    made: list[Solver] = []
    monkeypatch.setattr(registry, "_declared", made)
    return made


def method(
    instance: Any, run: Any, share: float = 0.5, *, tries: int = 3, mode: str = "all", most: float = math.inf
) -> None:
    """Do nothing."""


def test_parameters_are_the_defaults_that_can_be_shown_and_set(declared: list[Solver]) -> None:
    solver(track="pipeline")(method)
    assert [(x.name, x.params) for x in declared] == [("method", {"share": 0.5, "tries": 3, "mode": "all"})]


def test_a_file_is_compiled_anew_though_its_size_and_time_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.dont_write_bytecode", False)
    file = tmp_path / "mine.py"
    for name in ("first", "other"):
        file.write_text(f"from shardmark import solver\n\n@solver(track='pipeline')\ndef {name}(instance, run): ...\n")
        os.utime(file, (1e9, 1e9))
        assert registry.load_file(file)[-1].name == name
    assert list(tmp_path.iterdir()) == [file]


def test_a_solver_file_and_its_helpers_may_have_names_that_are_not_utf_8(tmp_path: Path) -> None:
    folder = tmp_path / os.fsdecode(b"caf\xe9")
    folder.mkdir()
    (folder / os.fsdecode(b"\xff.py")).write_text("")
    file = folder / "mine.py"
    file.write_text("from shardmark import solver\n@solver(track='pipeline')\ndef odd_place(instance, run): ...\n")
    version = source_hash(file)
    assert [solver.name for solver in registry.load_file(file)] == ["odd-place"]
    (folder / os.fsdecode(b"\xff.py")).rename(folder / os.fsdecode(b"\xfe.py"))
    assert source_hash(file) != version


@pytest.mark.parametrize("room", registry.ROOMS)
@pytest.mark.parametrize("is_clone", [False, True])
def test_a_file_that_imports_a_package_by_its_old_name_is_told_the_new_one(
    room: str, is_clone: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "old.py"
    file.write_text(f"import {room}.registry\n")
    if is_clone:
        monkeypatch.syspath_prepend(str(ROOT))  # as for programs that run in it
    with pytest.raises(ImportError, match=rf"the package {room} is now shardmark\.{room}; solver files import from"):
        registry.load_file(file)


def test_variants_have_the_defaults_of_what_they_leave_out(declared: list[Solver]) -> None:
    solver(track="pipeline", variants={"much": {"tries": 9}, "rest": {"most": 2.0}})(method)
    assert [(x.name, x.params) for x in declared] == [
        ("much", {"share": 0.5, "tries": 9, "mode": "all"}),
        ("rest", {"share": 0.5, "tries": 3, "mode": "all", "most": 2.0}),
    ]


@pytest.fixture
def copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The code of all solvers, to be edited."""
    for room in ("solvers", "c_src"):
        shutil.copytree(ROOT / room, tmp_path / room, ignore=shutil.ignore_patterns("__pycache__", "_core.*"))
    monkeypatch.setattr(registry, "FOLDER", tmp_path / "solvers")
    return tmp_path


def versions() -> dict[Path, str]:
    """The versions of two solver files of every folder, by their paths within ``solvers/``."""
    folders: dict[Path, list[Path]] = {}
    for file in solver_files():
        folders.setdefault(file.parent, []).append(file)
    two = [file for files in folders.values() for file in files[:2]]
    return {file.relative_to(registry.FOLDER): source_hash(file) for file in two}


def edited(copy: Path) -> Callable[[str], set[Path]]:
    """Return a function that tells which solvers change their version if a line is added to a file."""
    before = versions()

    def edit(name: str) -> set[Path]:
        file = copy / name
        text = file.read_text()
        file.write_text(f"{text}\n")
        changed = {path for path, version in versions().items() if version != before[path]}
        file.write_text(text)
        return changed

    return edit


@pytest.mark.gate(cases=1)
@pytest.mark.thorough(cases=1)
@pytest.mark.parametrize("track", sorted(track for track in TRACKS if (ROOT / "c_src" / track).is_dir()))
def test_an_edit_changes_the_versions_of_its_own_track_only(copy: Path, track: str) -> None:
    edit = edited(copy)
    of_track = {path for path in versions() if path.parts[0] == track}
    folders = [path for path in (copy / "solvers" / track).iterdir() if path.is_dir() and path.name != "bounds"]
    machinery = [str(next(folder.glob("[a-z]*.py")).relative_to(copy)) for folder in folders]
    kernels = {(path.parent, path.suffix): path for path in (copy / "c_src" / track).rglob("*.[ch]")}.values()
    assert folders
    assert kernels
    for name in [*machinery, *(str(kernel.relative_to(copy)) for kernel in kernels)]:
        assert edit(name) <= of_track, name
    one, *_ = sorted(of_track)
    assert edit(f"solvers/{one}") == {one}


@pytest.mark.gate
def test_an_edit_changes_the_versions_of_those_solvers_that_can_reach_it(copy: Path) -> None:
    edit = edited(copy)
    everything = set(versions())
    assert {path.parts[0] for path in everything} == TRACKS
    kernels = edit("solvers/native.py")
    assert kernels
    assert edit("c_src/common/status.h") == kernels
    assert Path("placement/bounds/critical_path.py") not in kernels  # pure Python
    cuts = edit("c_src/pipeline/sets/cheapest_set.c")
    assert Path("pipeline/bounds/anchored.py") in cuts
    assert Path("pipeline/annealing.py") not in cuts
    assert edit("solvers/_cpsat.py") < everything
    assert edit("c_src/reader/scan.c") == edit("solvers/registry.py") == edit("solvers/external.py") == set()


IMPORTED = """
import sys
from pathlib import Path
from shardmark.solvers.registry import load_file
load_file(Path(sys.argv[1]))
names = [name for name in sys.modules if name.startswith("shardmark.solvers.") and "_core" not in name]
print(*(sys.modules[name].__file__ for name in names), sep="\\n")
"""


@pytest.mark.thorough(cases=8)
@pytest.mark.gate(cases=2)
@pytest.mark.parametrize("file", solver_files()[::3], ids=lambda file: str(file.relative_to(registry.FOLDER)))
def test_all_that_a_solver_file_imports_is_part_of_its_version(file: Path) -> None:
    done = subprocess.run([sys.executable, "-c", IMPORTED, str(file)], capture_output=True, text=True, check=True)
    modules = {Path(line).resolve() for line in done.stdout.split()}
    contract = {path for path in modules if path.name in (*CONTRACT, "reach.py")}
    assert modules - contract <= reached(file, registry.FOLDER, ROOT / "c_src")
