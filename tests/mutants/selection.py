"""Choose the tests that can notice a mutant: those that call its function, by a record of the gate's tests."""

from __future__ import annotations

import ast
import json
import re
from collections import defaultdict
from functools import cache
from pathlib import Path

from c_src.build import INCLUDES
from tests.mutants.kernels import users, wrappers
from tests.mutants.python_sites import Site
from tests.support.compiled import CORE, kernels

ROOMS = ("instances", "solvers", "harness", "leaderboard", "shardmark")
#: Further folders with tests of a room, other than that of its name.
ELSEWHERE = {"solvers": ("tests/fuzz",), "harness": ("tests/fuzz",), "c_src": ("tests/solvers", "tests/instances")}
#: Their functions run in other processes than the test, which leaves no trace in the record.
APART = ("harness/sandbox/", "harness/campaign/", "shardmark/plans/runs/stage_runs")


class Record:
    """Which functions each test of the gate calls, and how long it takes."""

    def __init__(self, file: Path, root: Path) -> None:
        self.root = root
        self.written = file.stat().st_mtime
        self.seconds: dict[str, float] = {}
        self.calls: dict[str, set[str]] = defaultdict(set)  # tests by function, and by file
        for line in file.read_text().splitlines():
            test = json.loads(line)
            self.seconds[test["test"]] = test["seconds"]
            for function in test["functions"]:
                path, _, name = function.partition(":")
                self.calls[function].add(test["test"])
                if name != "<module>":
                    self.calls[path].add(test["test"])

    def stages(self, site: Site) -> list[set[str]]:
        """Return the tests of a mutant's own folder, the others of its room, and those elsewhere; each may be empty."""
        callers = self.callers(site)
        room, folder = site.path.split("/")[0], f"tests/{Path(site.path).parent}/"
        mirrored = f"tests/{Path(site.path).parent}/test_{Path(site.path).stem.lstrip('_')}.py"
        in_folder = {test for test in self.seconds if test.startswith(folder)}
        own = {test for test in callers if test.startswith(folder)}
        own |= {test for test in in_folder if test.startswith(f"{mirrored}::")} if not own else set()
        homes = tuple(f"{place}/" for place in (f"tests/{room}", *ELSEWHERE.get(room, ())))
        others = {test for test in callers if test.startswith(homes)}
        if site.path.startswith(APART) or not own | others:
            others |= in_folder or {test for test in self.seconds if test.startswith(f"{Path(folder).parent}/")}
        return [own, others - own, callers - own - others]

    def callers(self, site: Site) -> set[str]:
        """Return the tests that call a mutant's function in their own process."""
        if site.path.startswith("c_src/"):
            called = wrappers(self.root, site.path)
            functions = {function for name in called for function in _users(self.root)[name]}
            programs = {
                test for test in self.seconds if test.startswith("tests/c_src/") and _links(self.root, test, site.path)
            }
            return {test for function in functions for test in self.calls[function]} | programs
        return self.calls[site.path if site.function == "<module>" else f"{site.path}:{site.function}"]

    def changed(self, site: Site) -> set[str]:
        """Return the test files of a mutant's room that are newer than the record: nobody knows what they call."""
        room = site.path.split("/")[0]
        homes = (f"tests/{room}", *ELSEWHERE.get(room, ()))
        files = (path for home in homes for path in (self.root / home).rglob("test_*.py"))
        return {str(path.relative_to(self.root)) for path in files if path.stat().st_mtime > self.written}


def cheapest(tests: set[str], seconds: dict[str, float], budget: float) -> set[str]:
    """Return the tests that take least, as many as fit the budget."""
    kept: set[str] = set()
    for test in sorted(tests, key=lambda test: (seconds[test], test)):
        budget -= seconds[test]
        if budget < 0 and kept:
            break
        kept.add(test)
    return kept


def _links(root: Path, test: str, path: str) -> bool:
    """Tell whether a test of the C core's own programs can be about a file, which is part of its program."""
    if "/test_scan.py" in test:
        return path.startswith("c_src/reader/")
    program = re.search(r"\[([\w/]+)\]", test)
    if not program:
        return True
    linked = {f"c_src/{source.relative_to(CORE)}" for source in kernels(program[1])}
    included = INCLUDES.findall((root / "tests" / "c_src" / f"{program[1]}.c").read_text())
    return not users(root, path).isdisjoint({*linked, *(f"c_src/{name}" for name in included)})


@cache
def _users(root: Path) -> dict[str, set[str]]:
    """The Python functions that mention each kernel, ``PATH:QUALIFIED.NAME`` by the kernel's name."""
    found = defaultdict(set)
    for room in ("solvers", "instances"):
        for path in (root / room).rglob("*.py"):
            text = path.read_text()
            if "lib" in text:
                for kernel, function in _mentions(ast.parse(text)):
                    found[kernel].add(f"{path.relative_to(root)}:{function}")
    return found


def _mentions(tree: ast.Module) -> list[tuple[str, str]]:
    found = []
    places = [(node, "") for node in tree.body]
    while places:
        node, scope = places.pop()
        if isinstance(node, ast.ClassDef):
            places += [(part, f"{node.name}.") for part in node.body]
            continue
        name = f"{scope}{node.name}" if isinstance(node, ast.FunctionDef) else "<module>"
        parts = (part for part in ast.walk(node) if isinstance(part, ast.Attribute))
        found += [(part.attr, name) for part in parts if part.attr.startswith("shard_")]
    return found
