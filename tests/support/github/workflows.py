"""Workflows of GitHub Actions, replayed here: the `run` steps of a job, with the environment that GitHub gives them."""

from __future__ import annotations

import itertools
import os
import re
import subprocess
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

FOLDER = Path(__file__).parents[3] / ".github" / "workflows"

#: What stands for an action: gets its inputs (``with``) and the folder of the job.
Action = Callable[[Mapping[str, str], Path], None]


@dataclass(frozen=True)
class Done:
    """A step that has ended: its name or first line, exit status, standard output and error together."""

    name: str
    status: int
    output: str


@dataclass
class Runner:
    """A machine that replays jobs: ``folder`` is where their steps run, ``files`` where files of the runner lie.

    ``contexts`` holds what expressions name, such as ``{"github": {"event": {"number": 7}}}``. ``environment`` is that
    of all steps, without which they see only PATH, HOME and the variables of GitHub below. ``actions`` has a stand-in
    for each action that the job uses, by its name without the version. ``outputs`` of steps are in ``steps``.
    """

    folder: Path
    files: Path
    contexts: Mapping[str, Any] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    actions: Mapping[str, Action] = field(default_factory=dict)
    steps: dict[str, Any] = field(default_factory=dict)
    exported: dict[str, str] = field(default_factory=dict)

    def replay(self, workflow: Mapping[str, Any], job: str, matrix: Mapping[str, Any] | None = None) -> list[Done]:
        """Run the steps of a job in turn; once one has failed, only those that say ``if: always()``."""
        described = workflow["jobs"][job]
        shared = {**workflow.get("env", {}), **described.get("env", {})}
        done: list[Done] = []
        for step in described["steps"]:
            failed = any(earlier.status for earlier in done)
            if not _applies(step.get("if"), failed):
                continue
            values = {**self.contexts, "matrix": matrix or {}, "steps": self.steps}
            if "uses" in step:
                self.actions[step["uses"].partition("@")[0]](_filled(step.get("with", {}), values), self.folder)
            else:
                done.append(self._run(step, _filled({**shared, **step.get("env", {})}, values), values))
        return done

    def _run(self, step: Mapping[str, Any], given: Mapping[str, str], values: Mapping[str, Any]) -> Done:
        assert step.get("shell", "bash") == "bash", step["shell"]
        self.files.mkdir(exist_ok=True)
        told = {name: self.files / name.lower() for name in ("GITHUB_ENV", "GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY")}
        for name in ("GITHUB_ENV", "GITHUB_OUTPUT"):  # new for each step; summaries add up here
            told[name].write_text("")
        own = {"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/"), "CI": "true", "GITHUB_ACTIONS": "true"}
        own |= {"GITHUB_WORKSPACE": str(self.folder), "RUNNER_TEMP": str(self.files)}
        script = expand(step["run"], values)
        # What GitHub starts if a step names no shell, and if it names bash.
        options = ["--noprofile", "--norc", "-eo", "pipefail"] if "shell" in step else ["-e"]
        ended = subprocess.run(
            ["bash", *options, "-c", script],
            cwd=self.folder / step.get("working-directory", ""),
            env={**own, **self.environment, **self.exported, **given, **{k: str(v) for k, v in told.items()}},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )
        self.exported |= _assigned(told["GITHUB_ENV"])
        if "id" in step:
            self.steps[step["id"]] = {"outputs": _assigned(told["GITHUB_OUTPUT"])}
        return Done(step.get("name", step["run"].splitlines()[0]), ended.returncode, ended.stdout)


def read(name: str) -> dict[str, Any]:
    """Return a workflow of the project by the name of its file without suffix."""
    workflow: dict[str, Any] = yaml.safe_load((FOLDER / f"{name}.yml").read_text())
    return workflow


def matrices(job: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the values of a job's matrix for each of its runs; one empty set if it has none."""
    axes = {key: values for key, values in job.get("strategy", {}).get("matrix", {}).items() if key != "include"}
    assert "exclude" not in axes
    included = job.get("strategy", {}).get("matrix", {}).get("include", [])
    if axes or not included:
        for values in itertools.product(*axes.values()):
            yield dict(zip(axes, values, strict=True))
    yield from map(dict, included)


def commands(workflow: Mapping[str, Any]) -> Iterator[str]:
    """Yield the script of every step that runs one."""
    for job in workflow["jobs"].values():
        yield from (step["run"] for step in job["steps"] if "run" in step)


def expand(text: str, values: Mapping[str, Any]) -> str:
    """Replace ``${{ a.b.c }}`` by what it names in ``values``; KeyError for a name that is not there."""

    def value(found: re.Match[str]) -> str:
        at: Any = values
        for name in found[1].split("."):
            at = at[name]
        return {True: "true", False: "false", None: ""}.get(at, str(at)) if isinstance(at, bool | None) else str(at)

    return re.sub(r"\$\{\{\s*([\w.-]+)\s*\}\}", value, text)


def _filled(given: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, str]:
    texts = {key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in given.items()}
    return {key: expand(text, values) for key, text in texts.items()}


def _applies(condition: str | None, failed: bool) -> bool:
    """Return True if a step runs, from its ``if``; only these conditions are known here."""
    known = {None: not failed, "always()": True, "!cancelled()": True, "${{ !cancelled() }}": True, "failure()": failed}
    return known[condition]


def _assigned(path: Path) -> dict[str, str]:
    """Read ``name=value`` lines."""
    return dict(line.split("=", 1) for line in path.read_text().splitlines() if "=" in line)
