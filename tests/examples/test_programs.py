"""Example programs, compiled and run as their READMEs say, report solutions and bounds that the referee confirms."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from patience import given_time
from referee import shardmark

from shardmark.solvers.external import read_toml

pytestmark = [pytest.mark.usefixtures("posix_for_auto"), pytest.mark.gate(cases=1)]

EXAMPLES = Path(__file__).parents[2] / "examples"
LANGUAGES = ("c", "rust", "python")
PROGRAMS = os.pathsep.join(
    [os.environ["PATH"], str(Path.home() / ".cargo" / "bin")]
)  # rustup's folder may not be on it


@pytest.fixture(scope="session", params=LANGUAGES)
def example(request, tmp_path_factory) -> tuple[Path, str]:
    """A copy of an example's folder in which its program is compiled, and the program's command."""
    folder = Path(shutil.copytree(EXAMPLES / request.param, tmp_path_factory.mktemp("examples") / request.param))
    commands = re.findall(r"^\$ (.*)", (folder / "README.md").read_text(), re.M)
    compilers = [shlex.split(command) for command in commands if not command.startswith("shardmark")]
    for name, *words in compilers:
        if (program := shutil.which(name, path=PROGRAMS)) is None:
            pytest.skip(f"needs {name} to compile an example")
        strict = ["-D", "warnings"] if name == "rustc" else ["-Wall", "-Wextra", "-Wconversion", "-Werror"]
        subprocess.run([program, *strict, *words], cwd=folder, check=True)
    (solve,) = (shlex.split(command) for command in commands if command.startswith("shardmark solve"))
    return folder, solve[solve.index("--command") + 1].replace("python3", sys.executable)


def test_its_reports_are_true(example):
    """On an instance with edges of three nodes, whose optimum is 6,021,962."""
    folder, command = example

    def within(limit: float) -> dict:
        out = shardmark(
            "solve", "sharded-u-net-4", "--command", command, "--timeout", limit, "--json", cwd=folder
        ).stdout
        return json.loads(out)

    found = given_time(within, lambda found: found["cost"] is not None and found["cost"] <= 6_500_000)
    assert found["status"] in ("ok", "timeout")  # on a busy machine it may start late
    assert found["cost"] <= 6_500_000


def test_it_speaks_both_protocols(example, tmp_path):
    """Alone, without the referee: reports with costs, each better than the one before, and the contest's last line."""
    folder, command = example
    file = tmp_path / "diamond.json"
    shutil.copy(EXAMPLES.parent / "instances" / "data" / "intraop" / "diamond.json", file)
    words = [*shlex.split(command), file, "0.2"]
    first, *reports, last = subprocess.run(words, cwd=folder, check=True, text=True, stdout=-1).stdout.splitlines()
    assert json.loads(first) == {"bound": 85}
    solutions = [json.loads(line) for line in reports]
    costs = [report["cost"] for report in solutions]
    assert costs == sorted(set(costs), reverse=True) != []
    assert json.loads(last) == solutions[-1]["solution"] == [0, 0, 2, 0]
    file.write_text('{"problem": {"nodes": [1')
    broken = subprocess.run(words, cwd=folder, capture_output=True, text=True)
    assert (broken.returncode, broken.stdout) == (1, "")
    assert broken.stderr.strip() != ""


def test_the_declaration_of_the_python_example_is_complete():
    (program,) = read_toml(EXAMPLES / "python" / "solver.toml")
    assert program.command[1] == str(EXAMPLES / "python" / "search.py")
    assert program.error == ""
