"""An honest contributor's way from a template to the comment, as on machines with an empty clone: seconds of each step.

The workflow's review is what GitHub's machines do: set-up, quick suite, drawn sample. It has to take under 10 minutes.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from fake_github import GitHub, git
from referee import needs_isolation

from shardmark.cli.submission import summary

MOST_S = 600.0


@contextmanager
def timed(step: str) -> Iterator[None]:
    """Print the seconds of a step, and the CPU time of its programs."""
    began, used = time.monotonic(), os.times()
    yield
    spent = os.times()
    cpu = spent.children_user + spent.children_system - used.children_user - used.children_system
    print(f"{step:<32} {time.monotonic() - began:7.1f} s {cpu:7.1f} s of CPU time", flush=True)


@needs_isolation
@pytest.mark.timeout(3600)
def test_the_way_of_an_honest_contributor(tmp_path: Path):
    settings = {name: value for name, value in os.environ.items() if name == "HOME" or name.startswith("PIP_")}
    github = GitHub(tmp_path, lent=False, environment=settings)
    fork, clone = github.fork, tmp_path / "clone"
    for key, value in (("user.name", "Ada"), ("user.email", "ada@localhost")):
        git(fork, "config", key, value)

    def shardmark(*words: str) -> str:
        command = [str(fork / ".venv" / "bin" / "shardmark"), *words]
        done = subprocess.run(command, cwd=fork, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    print()
    with timed("make setup"):
        subprocess.run(["make", "setup"], cwd=fork, check=True)
    with timed("new-solver, edit"):
        shardmark("new-solver", "my-idea", "--track", "pipeline")
        edit(fork / "solvers" / "pipeline" / "my_idea.py")
    with timed("submit --branch"):
        said = shardmark("submit", "solvers/pipeline/my_idea.py", "--branch", "--json")
    assert json.loads(said)["branch"] == "solver/my-idea"
    base, head = github.propose("solver/my-idea")
    began = time.monotonic()
    with timed("workflow submission"):
        done = github.review(base, head, clone)
    took = time.monotonic() - began
    assert [(step.name, step.output) for step in done if step.status] == []
    found = summary.read((clone / "review" / "summary.json").read_bytes())
    assert (found["outcome"], found["left"], len(found["drawn"])) == ("passed", [], 4)
    assert {claim["result"] for claim in found["solvers"][0]["claims"]} == {"confirmed"}
    with timed("workflow submission-summary"):
        files = git(fork, "diff", "--name-only", base, head).splitlines()
        assert [step.status for step in github.comment(base, head, tmp_path / "poster", files, [])] == [0]
    print(json.loads(github.calls()[-1][2])["body"])
    assert took < MOST_S


def edit(path: Path) -> None:
    """Write words of one's own into a template, whose method is a simple one."""
    text = path.read_text()
    text = text.replace("say in one line what the method is.", "equal shares of the work in a topological order.")
    text = text.replace("where the method is described", "folklore")
    text = text.replace("Say in one line what it does; tables show it.", "Cut a topological order into equal work.")
    path.write_text(text)
