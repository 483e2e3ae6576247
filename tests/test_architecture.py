"""The data flows one way, every module says what it does, and nothing names the machine it was written on."""

from __future__ import annotations

import ast
import re
import subprocess
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from shardmark.instances import tracks
from shardmark.solvers.reach import reached
from shardmark.solvers.registry import solver_files

ROOT = Path(__file__).parents[1]
ROOMS = ("instances", "solvers", "harness", "records", "editions", "leaderboard", "shardmark")
TRACKS = tracks()
FILES = sorted(path for room in ROOMS for path in (ROOT / room).rglob("*.py"))
MODULES = {".".join(path.relative_to(ROOT).with_suffix("").parts) for path in FILES}
KERNELS = sorted((ROOT / "c_src").rglob("*.[ch]"))
COMMON = {f"solvers.{name}" for name in ("native", "registry", "_cpsat", "_ideals", "_scip", "_redirect_stdout")}
CONTRACT = ("Declined", "LocalRun", "Run", "bound", "solver")  # what `shardmark` hands on to solver files
MOST_FILES = 15  # of code, side by side in one folder

#: Modules of ours that each room may import. The most specific prefix counts.
ALLOWED = {
    "instances": {"instances"},
    "solvers": {"instances", *COMMON},
    "solvers.native": {"instances", "solvers._core"},
    "solvers.reach": set(),
    "solvers.registry": {"instances", "solvers.reach"},
    **{f"solvers.{track}": {"instances", f"solvers.{track}", *COMMON} for track in TRACKS},
    "harness.verify": {"instances", "harness.verify"},
    "harness.sandbox": {"instances", "harness.sandbox"},
    "harness.sandbox.worker": {
        "instances",
        "harness.sandbox.contract",
        "harness.sandbox.memory",
        "harness.sandbox.protocol",
        "harness.verify",
        "solvers.registry",
    },
    "harness.sandbox.contract": set(),
    "harness.sandbox.supervisor": {"harness.sandbox", "instances.catalog", "instances.errors"},
    "harness.results": {"instances", "harness.results", "harness.sandbox", "harness.verify"},
    "harness.results.ranking": {
        *("instances", "harness.results", "harness.records.best", "harness.records.history"),
        "harness.records.certificates",
        "harness.sandbox.contract",
    },
    "harness.campaign": {
        *("instances", "harness.campaign", "harness.sandbox", "harness.verify", "harness.results"),
        *("solvers.external", "solvers.native", "solvers.registry"),
    },
    "harness.records": {
        *("instances", "harness.records", "harness.results", "harness.verify"),
        "harness.campaign.problems",
    },
    "harness.editions": {
        *("instances", "harness.editions", "harness.results", "harness.records.files"),
        *("harness.campaign", "harness.sandbox.contract", "solvers.registry"),
    },
    "records": set(),
    "editions": set(),
    "leaderboard": {"instances", "harness", "leaderboard"},
    "leaderboard.report": set(),
    "shardmark": {"instances", "harness", "leaderboard", "solvers.registry", "shardmark"},
    "shardmark.cli.templates": {"instances", "shardmark", "solvers"},
    "harness": set(),
}


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def read(path: Path) -> tuple[str, set[str]]:
    """A file's docstring, and modules of ours that it imports, as dotted names down to what may be a module.

    The tree is not kept: Python's collector would walk those of all files again and again.
    """
    tree = ast.parse(path.read_text())
    return ast.get_docstring(tree) or "", imported(statements(tree))


def imports(path: Path) -> set[str]:
    """Modules of ours that a file imports."""
    return read(path)[1]


def statements(tree: ast.Module) -> Iterator[ast.AST]:
    """Yield what `ast.walk` yields, without expressions."""
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        yield node
        for field in ("body", "orelse", "finalbody", "handlers", "cases"):
            waiting += getattr(node, field, ())


def imported(nodes: Iterable[ast.AST]) -> set[str]:
    found = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            children = {f"{node.module}.{alias.name}" for alias in node.names}
            if node.module == "shardmark":
                found |= children
                continue
            found |= {child for child in children if room_name(child) in MODULES} or {node.module}
    return {room_name(name) for name in found if name.split(".")[0] == "shardmark"}


def room_name(name: str) -> str:
    """The name of a module by its folder: ``instances.graph`` for ``shardmark.instances.graph``."""
    inner = name.removeprefix("shardmark.")
    return inner if inner.split(".")[0] in ROOMS else name


def within(name: str, prefixes: set[str]) -> bool:
    return any(name == prefix or name.startswith(f"{prefix}.") for prefix in prefixes)


def test_imports_follow_the_flow():
    assert {module_name(path): against for path in FILES if (against := against_the_flow(path))} == {}


def against_the_flow(path: Path) -> set[str]:
    """What a file must not import. A user's solver imports the contract from `shardmark`, even in our folder."""
    name = module_name(path)
    rule = max((prefix for prefix in ALLOWED if within(name, {prefix})), key=len)
    allowed = {f"shardmark.{word}" for word in CONTRACT} if name.startswith("solvers.") else set()
    return {other for other in imports(path) if not within(other, ALLOWED[rule] | allowed)}


def test_no_track_imports_an_importer():
    tracks = [path for path in FILES if path.parent.name == "instances"]
    assert {
        module_name(path) for path in tracks if any(within(name, {"instances.importers"}) for name in imports(path))
    } == set()


def test_every_module_says_in_one_line_what_it_does():
    first_lines = {module_name(path): read(path)[0].partition("\n")[0] for path in FILES}
    assert {name: line for name, line in first_lines.items() if not line.rstrip().endswith((".", ":", ";"))} == {}


@pytest.mark.parametrize(("compiled", "user"), [("_core", "solvers.native"), ("_reader", "instances.files.scan")])
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


def test_what_a_solver_imports_is_part_of_its_version():
    for file in solver_files():
        files = {path for path in reached(file, ROOT / "solvers", ROOT / "c_src") if path.suffix == ".py"}
        used = {name for path in files for name in imports(path) if name.startswith("solvers.")}
        assert used - {"solvers.registry", "solvers._core"} == {module_name(path) for path in files - {file}}, file


def test_no_folder_of_code_is_long():
    tests = (path for path in (ROOT / "tests").rglob("*.*") if path.suffix in (".py", ".c", ".h"))
    folders = Counter(path.parent for path in [*FILES, *KERNELS, *tests])
    assert {str(folder.relative_to(ROOT)): count for folder, count in folders.items() if count > MOST_FILES} == {}


def test_imports_have_no_circle():
    """Those of functions and for types count as well."""
    modules = {module_name(path) for path in FILES}
    users = {module_name(path): imports(path) & modules for path in FILES}
    tuple(TopologicalSorter(users).static_order())  # CycleError names the modules of a circle


def test_kernels_include_their_own_track_and_the_common_ground():
    included = {
        path.relative_to(ROOT / "c_src"): re.findall(r'^#include "([^"]+)"', path.read_text(), re.M) for path in KERNELS
    }
    assert any(included.values())
    foreign = {
        str(path): [name for name in names if name.split("/")[0] not in (path.parts[0], "common")]
        for path, names in included.items()
    }
    assert {path: names for path, names in foreign.items() if names} == {}
