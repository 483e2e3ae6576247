"""The replay of workflows does what GitHub does with a job's steps."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import workflows
import yaml
from workflows import Runner

WORKFLOW = """
env: {SHARED: one, PLACE: "${{ github.event.number }}"}
jobs:
  try:
    strategy: {matrix: {python: ["3.11", "3.12"], include: [{python: "3.14", extra: true}]}}
    env: {SHARED: two}
    steps:
      - uses: actions/checkout@0123 # v1
        with: {persist-credentials: false, ref: "${{ github.sha }}"}
      - run: echo "$SHARED $PLACE ${{ matrix.python }} ${LEAKED-unset}" && echo LATER=kept >> "$GITHUB_ENV"
      - id: named
        run: echo "found=7" >> "$GITHUB_OUTPUT"
      - run: |
          echo "$LATER ${{ steps.named.outputs.found }}" >> "$GITHUB_STEP_SUMMARY"
          false | true
      - name: fails
        shell: bash
        run: false | true
      - run: echo never
      - if: always()
        run: pwd
        working-directory: below
"""


def test_a_job_is_replayed_as_github_runs_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("LEAKED", "secret")
    (tmp_path / "below").mkdir()
    used: list[object] = []
    contexts = {"github": {"event": {"number": 7}, "sha": "abc"}}
    actions = {"actions/checkout": lambda inputs, folder: used.append((dict(inputs), folder))}
    runner = Runner(tmp_path, tmp_path / "runner", contexts, actions=actions)
    done = runner.replay(yaml.safe_load(WORKFLOW), "try", {"python": "3.12"})
    assert [(step.name.split()[0], step.status) for step in done] == [
        ("echo", 0),
        ("echo", 0),
        ("echo", 0),
        ("fails", 1),
        ("pwd", 0),
    ]
    assert done[0].output == "two 7 3.12 unset\n"
    assert done[-1].output == f"{tmp_path / 'below'}\n"
    assert (tmp_path / "runner" / "github_step_summary").read_text() == "kept 7\n"
    assert used == [({"persist-credentials": "false", "ref": "abc"}, tmp_path)]


def test_a_matrix_is_expanded():
    job = yaml.safe_load(WORKFLOW)["jobs"]["try"]
    assert [values["python"] for values in workflows.matrices(job)] == ["3.11", "3.12", "3.14"]
    assert list(workflows.matrices({"steps": []})) == [{}]


@pytest.mark.parametrize("path", sorted(workflows.FOLDER.glob("*.yml")), ids=lambda path: path.stem)
def test_every_action_is_pinned_by_its_hash(path: Path):
    used = re.findall(r"uses: (.*)", path.read_text())
    assert [action for action in used if not re.fullmatch(r"[\w/-]+@[0-9a-f]{40} # v[\d.]+", action)] == []


@pytest.mark.parametrize("path", sorted(workflows.FOLDER.glob("*.yml")), ids=lambda path: path.stem)
def test_no_script_has_an_expression_in_it(path: Path):
    """What an event or a matrix says reaches a script through its environment, never as part of its text."""
    assert [script for script in workflows.commands(workflows.read(path.stem)) if "${{" in script] == []
