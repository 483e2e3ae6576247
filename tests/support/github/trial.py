"""Try a wheel as its users will: install it into an empty environment elsewhere, without a compiler, and use it there.

``python tests/support/github/trial.py dist/NAME.whl`` does so with the Python that runs it, and with the newest
dependencies. The tests of the wheel share `use`. Only the standard library is needed.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[3]
ROOMS = (
    "editions",
    "harness",
    "instances",
    "leaderboard",
    "records",
    "solvers",
)  # folders that `shardmark` has links to
PLACES = "import shardmark, shardmark.solvers._core; print(shardmark.__file__, shardmark.solvers._core.__file__)"
MODEL = "import onnx; print(onnx.__path__[0] + '/backend/test/data/light/light_squeezenet.onnx')"
FOUND = f"import importlib.util as util; print([name for name in {ROOMS} if util.find_spec(name)])"
#: The package of the index that has the name of one of our rooms, and a module of ours beside it.
OTHER = "import records, shardmark.records; print(records.Database('sqlite://').query('select 6 * 7 as n')[0].n)"


def run(place: Path, *command: str) -> str:
    """Return the output of a program of the environment ``.venv`` of a folder, which must succeed.

    It finds no program but those of the environment, so no compiler either.
    """
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}
    clean |= {"PATH": str(place / ".venv" / "bin"), "CC": "false", "XDG_CACHE_HOME": str(place / "cache")}
    program = str(place / ".venv" / "bin" / command[0])
    done = subprocess.run([program, *command[1:]], cwd=place, env=clean, capture_output=True, text=True)
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout


def use(place: Path) -> None:
    """Solve, run a campaign, build its site, add a solver, plan a model; by the command line and from Python."""
    use_commands(place)
    use_python(place)
    ranks = run(
        place, "python", "-c", "import shardmark as sm; print(sm.results('results').solvers['solver'].to_list())"
    )
    assert ranks == "['mla', 'random-1']\n", ranks


def use_commands(place: Path) -> None:
    """Solve, run a campaign, build its site and add a solver."""
    found = json.loads(run(place, "shardmark", "solve", "chain", "--solver", "random-100", "--timeout", "60", "--json"))
    assert (found["status"], found["cost"]) == ("ok", 11.0), found

    solvers = ["--solver", "random-1", "--solver", "mla"]
    campaign = ["run", "--instance", "chain", *solvers, "--timeout", "20", "--json", "--quiet"]
    counts = [json.loads(run(place, "shardmark", *campaign)) for _ in range(2)]
    assert [(count["started"], count["ok"]) for count in counts] == [(2, 2), (0, 2)], counts
    index = Path(json.loads(run(place, "shardmark", "leaderboard", "--json"))["index"])
    assert index == place / "site" / "index.html"
    assert {path.name for path in index.parent.rglob("*.*")} >= {"index.html", "style.css", "random-1.html"}

    run(place, "shardmark", "new-solver", "my-idea", "--track", "pipeline")
    own = ["--solver", "my-idea", "--solver-path", "my_idea.py", "--timeout", "60"]
    assert json.loads(run(place, "shardmark", "solve", "chain", *own, "--json"))["status"] == "ok"


def use_python(place: Path) -> None:
    """Carry out the example of the reference, and plan a model."""
    assert all(Path(file).is_relative_to(place) for file in run(place, "python", "-c", PLACES).split())
    page = (ROOT / "docs" / "reference" / "python.md").read_text()
    (example,) = re.findall(r"```python\n(import shardmark as sm\n.*?)```", page, re.DOTALL)
    (place / "model.onnx").write_bytes(Path(run(place, "python", "-c", MODEL).strip()).read_bytes())
    example += "plan = sm.plan('model.onnx', devices=4)\n"
    answers = "check.cost == split.cost, bound.optimal, bound.lower_bound <= split.cost"
    shown = run(place, "python", "-c", f"{example}\nprint(plan.parts[0].name, {answers})")
    assert shown == "stage 0 True True True\n", shown


def main(wheel: str) -> None:
    """Install a wheel with its dependencies, use it, and use it again with another project's package ``records``."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        subprocess.run([sys.executable, "-m", "venv", place / ".venv"], check=True)
        pip = ["python", "-m", "pip", "--disable-pip-version-check", "--quiet"]
        run(place, *pip, "install", str(Path(wheel).resolve()))
        run(place, *pip, "check")
        assert run(place, "python", "-c", FOUND) == "[]\n"
        use(place)
        model = ["plan", "model.onnx", "--devices", "2", "--output", "plan"]
        run(place, "shardmark", *model)
        assert (place / "plan" / "plan.json").is_file()
        run(place, *pip, "install", "records")
        run(place, *pip, "check")
        assert run(place, "python", "-c", OTHER) == "42\n"
        run(place, "shardmark", "records")
        print(f"{Path(wheel).name} works in Python {sys.version.split()[0]}")


if __name__ == "__main__":
    main(*sys.argv[1:])
