"""The workflows `ci`, `pages` and `release`, replayed in new clones: every step, and what a job hands to the next.

Here ``make`` is replaced by a program that checks its targets and variables and leaves the files that they make. With
``make replay`` the steps do their work; then each job runs with the Python that it asks for, or is skipped.

Two things cannot be replayed: the container of manylinux, in whose place this machine builds the wheel, and the actions
that publish (`PUBLISH`), which get what they would take.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path

import pytest
import workflows
from workflows import Runner

ROOT = Path(__file__).parents[1]
REAL = os.environ.get("SHARDMARK_REPLAY") == "1"
PUBLISH = ("actions/deploy-pages", "pypa/gh-action-pypi-publish")
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
DISTRIBUTIONS = [f"shardmark-{VERSION}.tar.gz", f"shardmark-{VERSION}-cp311-abi3-manylinux_2_17_x86_64.whl"]

#: Stands for ``make``: its targets and variables must be those of the Makefile.
MAKE = """#!{python}
import pathlib, re, sys
makefile = pathlib.Path("Makefile").read_text()
targets = re.search(r"^[.]PHONY: (.*)$", makefile, re.M)[1].split()
variables = re.findall(r"^([A-Z]+) [?]=", makefile, re.M) + ["PYTEST"]
made = {{"dist": {distributions}, "docs": ["site/docs/index.html"], "edition": ["site/index.html"]}}
for word in sys.argv[1:]:
    name, is_variable, _ = word.partition("=")
    if name not in (variables if is_variable else targets):
        sys.exit(f"make: no {{name}}")
    for file in made.get(name, []):
        pathlib.Path(file).parent.mkdir(parents=True, exist_ok=True)
        pathlib.Path(file).touch()
if "trial" in sys.argv and not list(pathlib.Path("dist").glob("*.whl")):
    sys.exit("make: no wheel to try")
"""


class Machine:
    """Replays workflows of HEAD; artifacts and what is published lie in folders of ``folder``."""

    def __init__(self, folder: Path) -> None:
        self.artifacts, self.published, self.bin = (folder / name for name in ("artifacts", "published", "bin"))
        self.bin.mkdir()
        programs = {"sudo": "#!/bin/sh\n"}  # it would change the machine
        if not REAL:
            programs["make"] = MAKE.format(
                python=sys.executable, distributions=[f"dist/{name}" for name in DISTRIBUTIONS]
            )
        for name, text in programs.items():
            (self.bin / name).write_text(text)
            (self.bin / name).chmod(0o755)
        self.folder = folder

    def replay(self, name: str, job: str, matrix: Mapping[str, str] | None = None) -> None:
        """Run a job in a new folder; all its steps must succeed."""
        clone = self.folder / "-".join((name, job, *(matrix or {}).values()))
        clone.mkdir()
        workflow = workflows.read(name)
        for step in workflow["jobs"][job]["steps"]:
            if step.get("env", {}).get("BUILDER") == "cibuildwheel":
                step["env"]["BUILDER"] = "auditwheel"  # it needs a container
        environment = {"PATH": f"{self.bin}{os.pathsep}{os.environ['PATH']}", "GITHUB_REF_NAME": f"v{VERSION}"}
        actions = {
            "actions/checkout": self.check_out,
            "actions/setup-python": self.set_python,
            "actions/upload-artifact": self.upload,
            "actions/upload-pages-artifact": self.upload,
            "actions/download-artifact": self.download,
            **dict.fromkeys(PUBLISH, self.publish),
        }
        done = Runner(clone, self.folder / "runner", {}, environment, actions).replay(workflow, job, matrix)
        for step in done:
            if REAL:
                print(f"{name} {job} {matrix or ''}: {step.name}: status {step.status}\n{step.output}")
            assert step.status == 0, f"{step.name}\n{step.output}"

    def check_out(self, inputs: Mapping[str, str], folder: Path) -> None:
        assert inputs["persist-credentials"] == "false"
        subprocess.run(["git", "clone", "--quiet", str(ROOT), str(folder)], check=True)

    def set_python(self, inputs: Mapping[str, str], folder: Path) -> None:
        """Let ``python3`` be the version that is asked for; its name is a string, or 3.10 would be 3.1."""
        version = inputs["python-version"]
        assert re.fullmatch(r"3\.1\d", version)
        if REAL:
            found = [*(Path.home() / ".pyenv" / "versions").glob(f"{version}.*/bin/python{version}")]
            on_path = shutil.which(f"python{version}")
            if not found and on_path is None:
                pytest.skip(f"needs Python {version}")
            # No link, as runs do not see the folders of temporary files, in which it would lie.
            (self.bin / "python3").write_text(f'#!/bin/sh\nexec {found[-1] if found else on_path} "$@"\n')
            (self.bin / "python3").chmod(0o755)

    def upload(self, inputs: Mapping[str, str], folder: Path) -> None:
        shutil.copytree(folder / inputs["path"], self.artifacts / inputs.get("name", "github-pages"))

    def download(self, inputs: Mapping[str, str], folder: Path) -> None:
        shutil.copytree(self.artifacts / inputs["name"], folder / inputs["path"], dirs_exist_ok=True)

    def publish(self, inputs: Mapping[str, str], folder: Path) -> None:
        """Both take a fixed place if no input names another: the artifact ``github-pages``, the folder ``dist``."""
        assert inputs == {}
        taken = folder / "dist" if (folder / "dist").exists() else self.artifacts / "github-pages"
        shutil.copytree(taken, self.published)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        pytest.skip("needs git, and the checkout to clone")
    return Machine(tmp_path)


CI = workflows.read("ci")


@pytest.mark.parametrize(
    ("job", "matrix"),
    [(job, matrix) for job, described in CI["jobs"].items() for matrix in workflows.matrices(described)],
    ids=lambda value: value if isinstance(value, str) else "-".join(value.values()),
)
def test_ci(machine: Machine, job: str, matrix: dict[str, str]) -> None:
    machine.replay("ci", job, matrix)


def test_pages(machine: Machine) -> None:
    machine.replay("pages", "build")
    machine.replay("pages", "deploy")
    assert (machine.published / "index.html").is_file()
    assert (machine.published / "docs" / "index.html").is_file()


def test_release(machine: Machine) -> None:
    machine.replay("release", "build")
    for matrix in workflows.matrices(workflows.read("release")["jobs"]["trial"]):
        try:
            machine.replay("release", "trial", matrix)
        except pytest.skip.Exception as skipped:
            print(f"trial: {skipped}")
    machine.replay("release", "publish")
    wheel, sources = sorted(path.name for path in machine.published.iterdir())
    assert re.fullmatch(rf"shardmark-{VERSION}-cp311-abi3-manylinux\w+[.\w]*_x86_64\.whl", wheel)
    assert sources == f"shardmark-{VERSION}.tar.gz"


@pytest.mark.parametrize("name", sorted(path.stem for path in workflows.FOLDER.glob("*.yml")))
def test_only_jobs_that_run_nothing_of_the_project_may_publish(name: str) -> None:
    """Whoever may write to Pages or the index gets files from an artifact, and starts no script. None has a secret."""
    assert "secrets." not in (workflows.FOLDER / f"{name}.yml").read_text()
    described = workflows.read(name)
    assert not {"write", "write-all"} & set(dict(described["permissions"]).values())
    for job in described["jobs"].values():
        actions = {step["uses"].partition("@")[0] for step in job["steps"] if "uses" in step}
        if "id-token" in job.get("permissions", {}):
            assert actions & set(PUBLISH)
            assert not any("run" in step for step in job["steps"])
            assert "actions/checkout" not in actions
        else:
            assert not actions & set(PUBLISH)
