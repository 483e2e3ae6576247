"""A project on a GitHub of its own: a repository, runners for its workflows, and a ``gh`` that notes its calls."""

from __future__ import annotations

import importlib.util
import io
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import time
import venv
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import workflows
from workflows import Done, Runner

ROOT = Path(__file__).parents[3]
PROJECT, FORK, NUMBER, RUN = "shardmark/shardmark", "contributor/shardmark", 7, 4242
ROOMS = ("harness", "instances", "leaderboard", "records", "shardmark", "solvers")
LATER = time.time() + 3600.0  # newer than what `make` compares it with

#: Answers GET requests from a file, notes every call, and takes what is posted.
GH = """#!{python}
import json, pathlib, sys
folder = pathlib.Path({folder!r})
address, options = sys.argv[2], sys.argv[3:]
assert sys.argv[1] == "api" and address.startswith("repos/"), sys.argv
method = options[options.index("--method") + 1] if "--method" in options else "GET"
body = sys.stdin.read() if "--input" in options else ""
with open(folder / "calls.jsonl", "a") as calls:
    print(json.dumps([method, address, body]), file=calls)
if method == "GET" and address.endswith("/zip"):
    sys.stdout.buffer.write((folder / "artifact.zip").read_bytes())
elif method == "GET":
    print(json.dumps(json.loads((folder / "answers.json").read_text())[address]))
"""


def git(folder: Path, *words: str) -> str:
    """Run git as a contributor; return what it prints."""
    who = {"GIT_AUTHOR_NAME": "Ada", "GIT_AUTHOR_EMAIL": "ada@localhost"}
    who |= {name.replace("AUTHOR", "COMMITTER"): value for name, value in who.items()}
    done = subprocess.run(
        ["git", *words], cwd=folder, check=True, capture_output=True, text=True, env={**os.environ, **who}
    )
    return done.stdout.strip()


@dataclass
class GitHub:
    """The project's repository at ``origin``, from which the clone ``fork`` was made; ``folder`` is empty before.

    ``environment`` is that of all steps. Clones of runners have the environment of these tests if it is ``lent``. If
    there is a ``secret``, it lies wherever it could on a runner: in variables, in the home, in the clone's settings.
    """

    folder: Path
    lent: bool = True
    secret: str = ""
    environment: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.origin, self.fork, self.bin = (self.folder / name for name in ("origin.git", "fork", "bin"))
        git(self.folder, "clone", "--quiet", "--bare", str(ROOT), str(self.origin))
        git(self.origin, "branch", "--force", "main", git(ROOT, "rev-parse", "HEAD"))
        git(self.origin, "config", "uploadpack.allowAnySHA1InWant", "true")
        git(self.folder, "clone", "--quiet", "--branch", "main", str(self.origin), str(self.fork))
        self.bin.mkdir()
        (self.folder / "home").mkdir()
        if self.secret:
            self.environment |= {"GITHUB_TOKEN": self.secret, "ACTIONS_RUNTIME_TOKEN": self.secret}
            (self.folder / "home" / ".netrc").write_text(f"machine github.com password {self.secret}\n")
        for name, text in (("gh", GH.format(python=sys.executable, folder=str(self.folder))), ("sudo", "#!/bin/sh\n")):
            (self.bin / name).write_text(text)
            (self.bin / name).chmod(0o755)

    def propose(self, branch: str) -> tuple[str, str]:
        """Open a pull request for a branch of the fork; return the commits that it is for and that it ends with."""
        head = git(self.fork, "rev-parse", branch)
        git(self.fork, "push", "--quiet", "--force", str(self.origin), f"{head}:refs/pull/{NUMBER}/head")
        return git(self.origin, "rev-parse", "main"), head

    def runner(self, name: str, event: Mapping[str, Any], clone: Path) -> Runner:
        """A machine that runs the steps of a workflow in a new clone."""
        environment = {"PATH": f"{self.bin}{os.pathsep}{os.environ['PATH']}", "GITHUB_REPOSITORY": PROJECT}
        environment |= {"GITHUB_RUN_ID": str(RUN), "HOME": str(self.folder / "home"), **self.environment}
        contexts = {"github": {"event": event, "token": "the token of the job"}}
        actions = {
            "actions/checkout": lambda inputs, folder: self._check_out(folder, inputs.get("ref", "main")),
            "actions/setup-python": lambda inputs, folder: None,
            "actions/upload-artifact": lambda inputs, folder: self._upload(folder / inputs["path"]),
        }
        return Runner(clone, self.folder / f"runner-{name}", contexts, environment, actions)

    def review(self, base: str, head: str, clone: Path, options: str | None = None) -> list[Done]:
        """Replay the workflow ``submission`` in a new clone, with other options of the review if they are given."""
        workflow = workflows.read("submission")
        if options is not None:
            workflow["jobs"]["review"]["env"]["REVIEW"] = options
        event = {"pull_request": {"number": NUMBER, "head": {"sha": head}, "base": {"sha": base}}}
        return self.runner("submission", event, clone).replay(workflow, "review")

    def comment(self, base: str, head: str, clone: Path, files: list[str], comments: list[Any]) -> list[Done]:
        """Replay the workflow that comments; ``comments`` are there already."""
        pull = {"number": NUMBER, "base": {"sha": base}, "head": {"sha": head, "repo": {"full_name": FORK}}}
        artifact = self.folder / "artifact.zip"
        found = [{"id": 1, "size_in_bytes": artifact.stat().st_size}] if artifact.exists() else []
        answers = {
            f"repos/{PROJECT}/pulls": [pull],
            f"repos/{PROJECT}/compare/{base}...{head}": {"files": [{"filename": name} for name in files]},
            f"repos/{PROJECT}/actions/runs/{RUN}/artifacts": {"artifacts": found},
            f"repos/{PROJECT}/issues/{NUMBER}/comments": comments,
        }
        (self.folder / "answers.json").write_text(json.dumps(answers))
        run = {"id": RUN, "head_sha": head, "head_branch": "idea", "head_repository": {"full_name": FORK}}
        workflow = workflows.read("submission-summary")
        return self.runner("summary", {"workflow_run": run}, clone).replay(workflow, "comment")

    def calls(self) -> list[tuple[str, str, str]]:
        """Every call of ``gh``: method, address, and what it sent."""
        path = self.folder / "calls.jsonl"
        return [tuple(json.loads(line)) for line in path.read_text().splitlines()] if path.exists() else []

    def upload(self, content: bytes, name: str = "summary.json") -> None:
        """Leave an artifact as a workflow does."""
        stream = io.BytesIO()
        with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr(name, content)
        (self.folder / "artifact.zip").write_bytes(stream.getvalue())

    def _upload(self, path: Path) -> None:
        if path.exists():
            self.upload(path.read_bytes(), path.name)

    def _check_out(self, folder: Path, ref: str) -> None:
        if not (folder / ".git").exists():
            git(self.folder, "clone", "--quiet", "--no-checkout", str(self.origin), str(folder))
        git(folder, "checkout", "--quiet", "--detach", ref if len(ref) == 40 else f"origin/{ref}")
        if self.secret:
            git(folder, "config", "http.https://github.com/.extraheader", f"AUTHORIZATION: basic {self.secret}")
        if self.lent:
            lend_environment(folder)


def lend_environment(clone: Path) -> None:
    """Give a clone the environment of these tests, so that `make setup` finds nothing to do."""
    venv.create(clone / ".venv", symlinks=True)
    base = {"base": str(clone / ".venv"), "platbase": str(clone / ".venv")}
    packages = Path(sysconfig.get_path("purelib", "venv", vars=base))
    (packages / "clone.pth").write_text(f"{clone}\n{sysconfig.get_path('purelib')}\n")
    for built in (*ROOT.glob("solvers/_core.*so"), *ROOT.glob("instances/files/_reader.*so")):
        shutil.copyfile(built, clone / built.relative_to(ROOT))
    for room in ROOMS:
        lend_bytecode(clone / room, ROOT / room)
    command = clone / ".venv" / "bin" / "shardmark"
    command.write_text('#!/bin/sh\nexec "$(dirname "$0")/python" -P -m shardmark "$@"\n')
    command.chmod(0o755)
    (clone / ".venv" / "base").touch()
    os.utime(clone / ".venv" / "base", (LATER, LATER))


def lend_bytecode(theirs: Path, ours: Path) -> None:
    """Give a copy of a folder of modules what Python has compiled of ours, for each module that is the same."""
    for source in theirs.rglob("*.py"):
        original = ours / source.relative_to(theirs)
        if original.exists() and original.read_bytes() == source.read_bytes():
            shutil.copystat(original, source)
            compiled = Path(importlib.util.cache_from_source(str(original)))
            if compiled.exists():
                (source.parent / "__pycache__").mkdir(exist_ok=True)
                shutil.copyfile(compiled, source.parent / "__pycache__" / compiled.name)
