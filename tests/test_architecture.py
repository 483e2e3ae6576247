"""The data flows one way, every module says what it does, and nothing names the machine it was written on."""

from __future__ import annotations

import ast
import re
import subprocess
from pathlib import Path

import pytest

from solvers.registry import READER_KERNELS

ROOT = Path(__file__).parents[1]
ROOMS = ("instances", "solvers", "harness", "leaderboard")
FILES = sorted(path for room in ROOMS for path in (ROOT / room).rglob("*.py"))

#: What each room may import of ours. The most specific prefix counts.
ALLOWED = {
    "instances": {"instances"},
    "solvers": {"instances", "solvers"},
    "harness": {"instances", "harness"},
    "harness.worker": {"instances", "harness.memory", "harness.protocol", "solvers.registry"},
    "harness.limits": set(),
    "harness.warden": {
        "harness.memory",
        "instances.catalog",
        "instances.errors",
        *(f"harness.{name}" for name in ("cgroup", "groups", "handover", "limits", "posix", "watch")),
    },
    "harness.discover": {"instances", "harness", "solvers.external", "solvers.registry"},
    "harness.dask_executor": {"instances", "harness", "solvers.registry"},
    "harness.dask_worker": {"instances", "harness", "solvers.registry"},
    "harness.new_solver": {"solvers.registry"},
    "harness.verify": {"instances", "harness.verify"},
    "harness.cli": {"instances", "harness", "solvers.registry"},
    "harness.commands": {"instances", "harness", "leaderboard", "solvers.registry"},
    "harness.report": set(),
    "leaderboard": {"harness.report", "harness.score", "instances.errors", "leaderboard"},
}


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports(path: Path) -> set[str]:
    """Modules of ours that a file imports, as dotted names down to what may be a module."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            children = {f"{node.module}.{alias.name}" for alias in node.names}
            modules = {c for c in children if (ROOT / c.replace(".", "/")).with_suffix(".py").is_file()}
            found |= modules or {node.module}
    return {name for name in found if name.split(".")[0] in ROOMS}


def within(name: str, prefixes: set[str]) -> bool:
    return any(name == prefix or name.startswith(f"{prefix}.") for prefix in prefixes)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_follow_the_flow(path):
    name = module_name(path)
    rule = max((prefix for prefix in ALLOWED if within(name, {prefix})), key=len)
    assert {other for other in imports(path) if not within(other, ALLOWED[rule])} == set()


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_module_says_in_one_line_what_it_does(path):
    docstring = ast.get_docstring(ast.parse(path.read_text()))
    assert docstring
    assert docstring.split("\n")[0].rstrip().endswith((".", ":", ";"))


@pytest.mark.parametrize(("compiled", "user"), [("_core", "solvers.native"), ("_reader", "instances.scan")])
def test_only_one_module_imports_what_is_compiled(compiled, user):
    pattern = re.compile(rf"^\s*(from|import) .*{compiled}\b", re.M)
    assert [module_name(path) for path in FILES if pattern.search(path.read_text())] == [user]


def tracked() -> list[Path]:
    listing = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout
    return [ROOT / name for name in listing.decode().split("\0") if name]


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="needs the git checkout to list the files of the project")
def test_the_embedded_instances_are_small():
    sizes = [path.stat().st_size for path in tracked() if path.is_relative_to(ROOT / "instances" / "data")]
    assert 0 < sum(sizes) < 2 * 2**20


@pytest.mark.parametrize("path", sorted((ROOT / "solvers").glob("*/*.py")), ids=lambda path: path.stem)
def test_what_a_solver_imports_is_part_of_its_version(path):
    helpers = {module_name(file) for folder in path.parents[:2] for file in folder.glob("_*.py")}
    used = {name for name in imports(path) if name.startswith("solvers")}
    assert used <= helpers | {"solvers.native", "solvers.registry"}


def test_kernels_of_the_reader_are_no_part_of_a_solvers_version():
    build = (ROOT / "c_src" / "build.py").read_text()
    (sources,) = re.findall(r"^READER_SOURCES = (\(.*\))$", build, re.MULTILINE)
    assert {Path(name).stem for name in ast.literal_eval(sources)} == set(READER_KERNELS)
