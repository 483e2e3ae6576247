"""Mutants change what they say they change, a seed draws the same again, and a dead one is told from a survivor."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest

from tests.mutants import __main__ as tool
from tests.mutants import kernels, python_sites
from tests.mutants.python_sites import Site
from tests.mutants.selection import Record, cheapest
from tests.support.compiled import PROGRAMS

ROOT = Path(__file__).resolve().parents[2]

PYTHON = '''"""Of 1 and 2."""
@decorated(3)
def least(numbers: "Literal[4]", most=5):
    """Below 6."""
    if not numbers:
        raise ValueError("expected 7")
    print("8 or", 9)
    found = [number for number in numbers if number <= most and number]
    return min(sorted(found))[:-1]
'''

C = """#include <limits.h> /* 1 < 2 */
int shard_least(int n, const int *number) {
    int least = INT_MAX; /* n > 3 && "4" */
    for (int i = 0; i < n; i++) {
        if (number[i] < least && !(number[i] == 5))
            least = number[i];
        touch(least);
    }
    return least;
}
"""


def changes(found: list[Site], source: str) -> list[tuple[str, str]]:
    return [(source[site.start : site.end], site.text) for site in found]


def test_each_mutant_of_python_changes_what_a_function_does() -> None:
    assert changes(python_sites.sites(PYTHON, "least.py"), PYTHON) == [
        ("5", "(6)"),
        ("5", "(4)"),
        ("not numbers", "(numbers)"),
        ('raise ValueError("expected 7")', "pass"),
        ("[number for number in numbers if number <= most and number]", "([number for number in numbers])"),
        ("number <= most and number", "(number <= most or number)"),
        ("number <= most and number", "(number)"),
        ("number <= most and number", "(number <= most)"),
        ("number <= most", "(number < most)"),
        ("number <= most", "(number > most)"),
        ("return min(sorted(found))[:-1]", "return None"),
        ("min(sorted(found))[:-1]", "(min(sorted(found))[:])"),
        ("min(sorted(found))[:-1]", "(min(sorted(found))[:-1 + 1])"),
        ("min(sorted(found))", "(max(sorted(found)))"),
        ("sorted(found)", "(found)"),
        ("-1", "(1)"),
        ("1", "(2)"),
        ("1", "(0)"),
    ]


def test_each_mutant_of_c_changes_what_a_function_does() -> None:
    found = kernels.sites(C, "c_src/least.c")
    assert {site.function for site in found} == {"shard_least"}
    assert sorted(changes(found, C)) == sorted(
        [
            *((old, new) for old in ("<", "<") for new in ("<=", ">=")),
            *(("&&", "||"), ("!", ""), ("==", "!="), ("0", "1"), ("0", "-1"), ("5", "6"), ("5", "4")),
            *(("            least = number[i];", " ;"), ("        touch(least);", " ;")),
        ]
    )


@pytest.mark.parametrize("path", ["harness/results/ranking/cases.py", "instances/models/onnx_file.py"])
def test_mutants_of_python_compile_and_differ(path: str) -> None:
    source = (ROOT / path).read_text()
    original = ast.dump(ast.parse(source))
    for site in python_sites.sites(source, path)[::10]:
        mutant = site.applied(source)
        compile(mutant, path, "exec")
        assert ast.dump(ast.parse(mutant)) != original, site


def test_a_seed_draws_the_same_lines_wherever_they_move(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tool, "ROOT", tmp_path)
    lines = [f"a{i} = b{i} < {i}" for i in range(40)]
    (tmp_path / "a.py").write_text("\n".join(lines))
    drawn = tool.draw(["a.py"], 10, seed=0)
    assert len({site.line for site in drawn}) == 10
    assert drawn != tool.draw(["a.py"], 10, seed=1)
    (tmp_path / "a.py").write_text("\n".join(["# another line", *lines]))
    assert [(site.line - 1, site.operator, site.text) for site in tool.draw(["a.py"], 10, seed=0)] == [
        (site.line, site.operator, site.text) for site in drawn
    ]


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tool.Tree:
    """A project of one module, whose test cannot tell ``<`` from ``<=``, with a record of its tests."""
    files = {
        "solvers/__init__.py": "",
        "solvers/least.py": "def below(x):\n    return x < 3\n",
        "tests/solvers/test_least.py": "import solvers.least\n\ndef test_below():\n    assert solvers.least.below(2)\n",
        "tests/mutants/plugin.py": (Path(__file__).parent / "plugin.py").read_text(),
        "pyproject.toml": "[tool.pytest.ini_options]\naddopts = '--import-mode=importlib'\n",
    }
    for name, text in files.items():
        (tmp_path / "tree" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "tree" / name).write_text(text)
    monkeypatch.setattr(tool, "ROOT", tmp_path / "tree")
    tree = tool.Tree(tmp_path / "tree")
    assert tree.pytest(["tests/solvers"], {"SHARDMARK_RECORD": str(tmp_path / "tests.jsonl")}, limit=60)[0] == 0
    return tree


def test_a_mutant_dies_of_the_test_that_calls_it_or_survives(tree: tool.Tree, tmp_path: Path) -> None:
    (line,) = map(json.loads, (tmp_path / "tests.jsonl").read_text().splitlines())
    assert line["functions"] == ["solvers/least.py:below"]
    known = Record(tmp_path / "tests.jsonl", tree.root)
    source = (tree.root / "solvers/least.py").read_text()
    found = {site.text: site for site in python_sites.sites(source, "solvers/least.py")}
    alive, dead = (tree.judged(found[text], known, budget=60) for text in ("(x <= 3)", "(x >= 3)"))
    assert (alive["status"], alive["tests"]) == ("survived", 1)
    assert (dead["status"], dead["by"]) == ("killed by own", "tests/solvers/test_least.py::test_below")
    assert (tree.root / "solvers/least.py").read_text() == source
    assert tool.shown(alive) in tool.summary([alive, dead])


def test_a_mutant_of_c_concerns_the_python_functions_that_call_its_kernel(tmp_path: Path) -> None:
    (tmp_path / "tests.jsonl").write_text("")
    known = Record(tmp_path / "tests.jsonl", ROOT)
    calls = {"cuts": "solvers/pipeline/_kernels.py:PipelineCore.slice", "sorts": "solvers/native.py:kahn"}
    known.seconds = dict.fromkeys(names := [f"tests/solvers/test_a.py::test_{call}" for call in calls], 1.0)
    known.calls |= {function: {name} for function, name in zip(calls.values(), names, strict=True)}
    for path, chosen in (
        ("pipeline/slice.c", {names[0]}),
        ("common/kahn.c", {names[1]}),
        ("common/status.h", {*names}),
    ):
        assert known.stages(Site(f"c_src/{path}", 1, "any", "", 0, 0, "")) == [set(), chosen, set()]


@pytest.mark.parametrize(
    ("path", "programs"),
    [
        ("hybrid/walk.c", {"hybrid/chains"}),
        ("hybrid/chains/step.h", {"hybrid/chains"}),
        ("intraop/blocks/large_neighbourhood.c", {"large_neighbourhood"}),
        ("pipeline/windows/window_cuts.h", {"windows"}),
        ("reader/digest.c", set()),
        ("common/status.h", {*PROGRAMS}),
    ],
)
def test_a_mutant_of_c_concerns_the_programs_that_it_is_part_of(path: str, programs: set[str], tmp_path: Path) -> None:
    (tmp_path / "tests.jsonl").write_text("")
    known = Record(tmp_path / "tests.jsonl", ROOT)
    known.seconds = {f"tests/c_src/test_core.py::test_kernels[{program}]": 1.0 for program in PROGRAMS}
    tests = known.callers(Site(f"c_src/{path}", 1, "any", "", 0, 0, ""))
    assert {test.split("[")[1].removesuffix("]") for test in tests} == programs


def test_the_cheapest_tests_fill_a_budget() -> None:
    assert cheapest({"a", "b", "c"}, {"a": 5.0, "b": 1.0, "c": 2.0}, budget=4) == {"b", "c"}
    assert cheapest({"a"}, {"a": 5.0}, budget=4) == {"a"}
