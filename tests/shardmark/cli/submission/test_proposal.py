"""The branch of a proposed solver: one commit with two files; neither the working tree nor the index changes."""

from __future__ import annotations

import json
import subprocess
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest
from referee import refusal

from shardmark.cli.arguments import main
from shardmark.cli.submission import conformance, proposal
from shardmark.cli.submission.conformance import Finding
from shardmark.cli.submission.proposal import propose
from shardmark.cli.submission.standing import Standing
from shardmark.harness.campaign.discover import SolverInfo

FINDINGS = [Finding("can be imported", "mine", "yes", "")]
STAND = Standing(
    [{"instance": "chain", "cost": 11}], [{"solver": "mine", "rank": 1, "division": "", "yours": "<-"}], True
)


def git(folder: Path, *words: str) -> str:
    done = subprocess.run(["git", *words], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout.rstrip("\n")


@pytest.fixture
def checkout(tmp_path, monkeypatch) -> Path:
    """A checkout with a change that is staged, one that is not, and a file that git does not know."""
    root = tmp_path / "project"
    root.mkdir()
    git(root, "init", "-q", "-b", "main")
    for key, value in (("user.name", "Ada"), ("user.email", "ada@localhost")):
        git(root, "config", key, value)
    for name in ("one", "two"):
        (root / name).write_text("before")
    git(root, "add", ".")
    git(root, "commit", "-q", "-m", "Begin")
    for name in ("one", "two", "three"):
        (root / name).write_text("after")
    git(root, "add", "one")
    monkeypatch.setattr(proposal, "ROOT", root)
    return root


@pytest.fixture
def solver(tmp_path) -> tuple[Path, SolverInfo]:
    path = tmp_path / "mine.py"
    path.write_text("# a solver")
    return path, SolverInfo("mine", "pipeline", "solver", str(path), "version", "a paper", "Does it.")


def test_the_branch_has_the_file_and_its_results_and_nothing_else_changes(checkout, solver):
    path, info = solver
    findings = [*FINDINGS, Finding("keeps its limits", "mine", "yes", f"{path}: ended in time")]
    before = git(checkout, "status", "--porcelain"), git(checkout, "diff", "--cached"), git(checkout, "branch")
    assert propose(path, [info], findings, [STAND]) == "solver/mine"
    after = git(checkout, "status", "--porcelain"), git(checkout, "diff", "--cached")
    assert (*after, "* main\n  solver/mine") == (*before[:2], git(checkout, "branch"))
    changed = git(checkout, "diff", "--name-status", "main", "solver/mine").splitlines()
    assert changed == ["A\tsolvers/pipeline/mine.py", "A\tsubmissions/mine.json"]
    assert git(checkout, "show", "solver/mine:solvers/pipeline/mine.py") == "# a solver"
    document = json.loads(git(checkout, "show", "solver/mine:submissions/mine.json"))
    assert (document["format"], document["author"], document["licence"]) == (proposal.FORMAT, "Ada", "Apache-2.0")
    assert str(path.parent) not in json.dumps(document)
    (entry,) = document["solvers"]
    assert entry["ranking"] == [{"solver": "mine", "rank": 1, "yours": True}]
    assert (entry["name"], entry["source"], entry["instances"]) == (
        "mine",
        "a paper",
        [{"instance": "chain", "cost": 11}],
    )
    assert git(checkout, "log", "--format=%s", "main..solver/mine") == "Add mine to the solvers of pipeline"
    assert "expected no branch of that name" in refusal(propose, path, [info], FINDINGS, [STAND])


def test_what_has_no_place_in_the_project_is_refused(checkout, solver, tmp_path):
    path, info = solver
    assert "expected a Python file, or a TOML file" in refusal(propose, tmp_path / "mine", [info], FINDINGS, [STAND])
    bound = SolverInfo("other", "pipeline", "bound", str(path), "version")
    assert "one track and kind" in refusal(propose, path, [info, bound], FINDINGS, [STAND, STAND])
    git(checkout, "update-ref", "-d", "HEAD")
    assert "expected `git ls-tree` to work" in refusal(propose, path, [info], FINDINGS, [STAND])
    (checkout / ".git").rename(tmp_path / "gone")
    assert "expected a git checkout of the project" in refusal(propose, path, [info], FINDINGS, [STAND])


def test_what_prevents_a_branch_is_told_before_any_run(checkout, solver, monkeypatch, capsys):
    path, info = solver
    git(checkout, "branch", "solver/mine")
    monkeypatch.setattr(conformance, "candidates", lambda *_: [info])
    monkeypatch.setattr(conformance, "submit", lambda *_: pytest.fail("a run began"))
    assert main(["submit", str(path), "--branch"]) == 2
    assert "expected no branch of that name" in capsys.readouterr().err


def test_a_bound_goes_to_the_bounds_of_its_track(checkout, solver):
    path, _ = solver
    bound = SolverInfo("mine", "pipeline", "bound", str(path), "version")
    assert propose(path, [bound], FINDINGS, [STAND]) == "solver/mine"
    assert git(checkout, "show", "solver/mine:solvers/pipeline/bounds/mine.py") == "# a solver"


def test_a_file_of_the_project_is_replaced_by_itself_only(checkout, solver):
    path, info = solver
    own = checkout / "solvers" / "pipeline" / path.name
    own.parent.mkdir(parents=True)
    own.write_text("# what others rely on")
    git(checkout, "add", str(own))
    git(checkout, "commit", "-q", "-m", "Add a solver")
    assert "the project has solvers/pipeline/mine.py" in refusal(propose, path, [info], FINDINGS, [STAND])
    own.write_text("# better")
    assert propose(own, [info], FINDINGS, [STAND]) == "solver/mine"
    assert git(checkout, "show", "solver/mine:solvers/pipeline/mine.py") == "# better"


ENTRY = '[[solver]]\nname = "{}"\ntrack = "{}"\ncommand = "{}"\nsource = "x"\ndescription = "One stage."\n'


@pytest.fixture
def programs(checkout, tmp_path) -> tuple[Path, list[SolverInfo]]:
    """A TOML file of two programs, and a project that declares one."""
    theirs = checkout / proposal.PROGRAMS
    theirs.parent.mkdir()
    theirs.write_text("# How to declare\n\n" + ENTRY.format("older", "pipeline", "older"))
    git(checkout, "add", str(theirs))
    git(checkout, "commit", "-q", "-m", "Declare a program")
    path = tmp_path / "programs.toml"
    path.write_text(ENTRY.format("team-7", "intraop", "team") + "\n" + ENTRY.format("team-8", "pipeline", "team"))
    places = (("team-7", "intraop"), ("team-8", "pipeline"))
    return path, [SolverInfo(name, track, "solver", str(path), "version", "x", "x") for name, track in places]


def test_programs_are_added_to_those_of_the_project(checkout, programs):
    path, infos = programs
    assert propose(path, infos, FINDINGS, [STAND, STAND]) == "solver/team-7"
    changed = git(checkout, "diff", "--name-status", "main", "solver/team-7").splitlines()
    assert changed == ["M\tsolvers/external.toml", "A\tsubmissions/team-7.json"]
    added = git(checkout, "show", "solver/team-7:solvers/external.toml")
    assert added.startswith("# How to declare\n")
    declared = tomllib.loads(added)["solver"]
    assert [(entry["name"], entry["track"]) for entry in declared] == [
        ("older", "pipeline"),
        ("team-7", "intraop"),
        ("team-8", "pipeline"),
    ]
    log = git(checkout, "log", "--format=%s", "main..solver/team-7")
    assert log == "Add team-7, team-8 to the solvers of intraop and pipeline"


def test_the_first_programs_leave_room_for_others(checkout, programs):
    """As the project declares none, an inline array would be valid, but nothing could be added to it."""
    path, infos = programs
    (checkout / proposal.PROGRAMS).write_text("# How to declare\n")
    git(checkout, "commit", "-q", "-a", "-m", "Declare no program")
    path.write_text('solver = [{name = "a", track = "pipeline", command = "./a", source = "x", description = "x"}]')
    assert "expected tables [[solver]]" in refusal(propose, path, infos[:1], FINDINGS, [STAND])
    path.write_text(ENTRY.format("team-7", "intraop", "team"), encoding="utf-8-sig")  # as editors on Windows do
    assert propose(path, infos[:1], FINDINGS, [STAND]) == "solver/team-7"
    added = git(checkout, "show", "solver/team-7:solvers/external.toml")
    assert [entry["name"] for entry in tomllib.loads(added)["solver"]] == ["team-7"]


def test_programs_that_cannot_be_added_are_refused(checkout, programs):
    path, infos = programs
    for word in ("team", "../team", "data/weights"):
        next_to_it = [replace(info, command=("/usr/bin/env", str(path.parent / word))) for info in infos]
        message = refusal(propose, path, next_to_it, FINDINGS, [STAND, STAND])
        assert "solver team-7 key 'command': expected a command without paths relative to this file" in message
        assert message.endswith(f"found {word}")
    assert "expected no --track" in refusal(propose, path, infos[:1], FINDINGS, [STAND])
    theirs = checkout / proposal.PROGRAMS
    assert "expected a file of your own" in refusal(propose, theirs, infos, FINDINGS, [STAND, STAND])
    inline = 'solver = [{name = "a", track = "pipeline", command = "./a", source = "x", description = "x"}]'
    for text in (inline, f"# comment\n{inline}"):
        path.write_text(text)
        assert "expected tables [[solver]]" in refusal(propose, path, infos[:1], FINDINGS, [STAND])
