"""A wheel, installed in an empty environment elsewhere, is all of Shardmark: commands, data, pages and the API."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import time
import venv
import zipfile
from pathlib import Path

import onnx
import pytest

pytestmark = pytest.mark.gate

ROOT = Path(__file__).resolve().parents[1]
ONNX_MODELS = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
LATER = time.time() + 3600.0  # newer than all sources, so that it is not compiled again
ROOMS = ("harness", "instances", "leaderboard", "records", "solvers")  # folders that `shardmark` has links to


@pytest.fixture(scope="module")
def sources() -> list[str]:
    """The files of the project, as a clone has them."""
    listing = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [
        name
        for name in filter(None, listing.split("\0"))
        if os.path.lexists(ROOT / name) and not name.startswith("tests/")
    ]


@pytest.fixture(scope="module")
def wheel(sources: list[str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel of the project, built from a copy, with the C core that was compiled for this environment."""
    copy, output = tmp_path_factory.mktemp("copy"), tmp_path_factory.mktemp("wheel")
    for name in sources:
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, copy / name, follow_symlinks=False)
    library = copy / "build" / f"lib.{sysconfig.get_platform()}-{sys.implementation.cache_tag}"
    for built in (*ROOT.glob("solvers/_core.*so"), *ROOT.glob("instances/files/_reader.*so")):
        module = library / "shardmark" / built.relative_to(ROOT)
        module.parent.mkdir(parents=True)
        shutil.copyfile(built, module)
        os.utime(module, (LATER, LATER))
    build = ["wheel", str(copy), "--no-deps", "--no-build-isolation", "--no-index", "--wheel-dir", str(output)]
    pip(*build)
    (found,) = output.iterdir()
    return found


def pip(*arguments: str) -> None:
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", *arguments]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def place(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder elsewhere with an environment, ``.venv``, of the wheel and the other packages of this one."""
    folder = tmp_path_factory.mktemp("elsewhere")
    venv.create(folder / ".venv", symlinks=True)
    python = folder / ".venv" / "bin" / "python"
    pip("--python", str(python), "install", "--no-deps", "--no-index", str(wheel))
    base = {"base": str(folder / ".venv"), "platbase": str(folder / ".venv")}
    packages = Path(sysconfig.get_path("purelib", "venv", vars=base))
    (packages / "dependencies.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    return folder


def run(place: Path, *command: str) -> str:
    """Return the output of a program of the environment, which must succeed."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}
    clean |= {"XDG_CACHE_HOME": str(place / "cache")}
    program = str(place / ".venv" / "bin" / command[0])
    done = subprocess.run([program, *command[1:]], cwd=place, env=clean, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_it_holds_every_file_of_the_packages_and_what_is_compiled(wheel, sources):
    held = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    compiled = {name for name in held if name.endswith(".so")}
    rooms = {f"shardmark/{name}" for name in sources if name.split("/")[0] in ROOMS}
    front = {name for name in sources if name.startswith("shardmark/") and not (ROOT / name).is_symlink()}
    assert held - compiled == rooms | front
    assert {name.split(".")[0] for name in compiled} == {"shardmark/solvers/_core", "shardmark/instances/files/_reader"}


def test_commands_and_the_examples_of_the_documentation_work_elsewhere(place):
    """No module comes from the checkout, and what runs is known by its version although there are no C sources."""
    home = run(
        place,
        "python",
        "-c",
        "import shardmark, shardmark.solvers._core; print(shardmark.__file__, shardmark.solvers._core.__file__)",
    )
    assert all(Path(file).is_relative_to(place) for file in home.split())
    found = json.loads(run(place, "shardmark", "solve", "chain", "--solver", "random-100", "--timeout", "60", "--json"))
    assert (found["status"], found["cost"]) == ("ok", 11.0)

    solvers = ["--solver", "random-1", "--solver", "mla"]
    campaign = ["run", "--instance", "chain", *solvers, "--timeout", "60", "--json", "--quiet"]
    counts = [json.loads(run(place, "shardmark", *campaign)) for _ in range(2)]
    assert [(count["started"], count["ok"]) for count in counts] == [(2, 2), (0, 2)]
    index = Path(json.loads(run(place, "shardmark", "leaderboard", "--json"))["index"])
    assert index == place / "site" / "index.html"
    assert {path.name for path in index.parent.rglob("*.*")} >= {"index.html", "style.css", "random-1.html"}

    run(place, "shardmark", "new-solver", "my-idea", "--track", "pipeline")
    own = ["--solver", "my-idea", "--solver-path", "my_idea.py", "--timeout", "60"]
    assert json.loads(run(place, "shardmark", "solve", "chain", *own, "--json"))["status"] == "ok"

    page = (ROOT / "docs" / "reference" / "python.md").read_text()
    (example,) = re.findall(r"```python\n(import shardmark as sm\n.*?)```", page, re.DOTALL)
    example += "plan = sm.plan('model.onnx', devices=4)\nranks = sm.results('results').solvers\n"
    shutil.copyfile(ONNX_MODELS / "light_squeezenet.onnx", place / "model.onnx")
    answers = "check.cost == split.cost, bound.optimal, bound.lower_bound <= split.cost, ranks['solver'].to_list()"
    shown = f"print(plan.parts[0].name, {answers})"
    assert run(place, "python", "-c", f"{example}\n{shown}") == "stage 0 True True True ['mla', 'random-1']\n"
