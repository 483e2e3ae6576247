"""What a branch adds: read from git's objects, sorted by name, mode, size and what it would replace."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from fake_github import git
from referee import refusal

from shardmark.cli.submission import changes as module
from shardmark.cli.submission.changes import Changes, changes, runs_code, uses
from shardmark.solvers.registry import solver_files

SOLVER = b"def f(): pass\n"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A small project with a solver, a history of records and a catalog."""
    for name, text in (
        ("solvers/pipeline/old.py", "old"),
        ("solvers/pipeline/trees/__init__.py", ""),
        ("records/history.jsonl", "{}\n"),
        ("records/solutions/chain-0123456789ab.json.gz", "solution"),
        ("records/certificates/chain-0123456789ab.cert.json.gz", "certificate"),
        ("instances/catalog.toml", "# entries\n"),
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    git(tmp_path, "init", "--quiet", "--initial-branch", "main")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "--quiet", "-m", "Begin")
    return tmp_path


def propose(project: Path, files: dict[bytes, tuple[str, bytes]]) -> Changes:
    """Commit files, by name with mode and content, to a branch that begins at main; deleted if the mode is "0"."""
    lines = b""
    for name, (mode, content) in files.items():
        command = ["git", "hash-object", "-w", "--stdin"]
        blob = subprocess.run(command, cwd=project, input=content, check=True, capture_output=True).stdout.strip()
        lines += mode.encode() + b" " + (b"0" * 40 if mode == "0" else blob) + b"\t" + name + b"\0"
    git(project, "read-tree", "main")
    subprocess.run(["git", "update-index", "-z", "--index-info"], cwd=project, input=lines, check=True)
    commit = git(project, "commit-tree", git(project, "write-tree"), "-p", "main", "-m", "Add")
    git(project, "branch", "--force", "theirs", commit)
    return changes(project, "theirs")


@pytest.mark.parametrize(
    ("name", "mode", "content", "reason"),
    [
        (b"solvers/pipeline/new.py", "120000", b"/etc/passwd", "link"),
        (b"solvers/pipeline/new.py", "100755", SOLVER, "executable"),
        (b"solvers/pipeline/new.py", "100644", b"#" * (1 << 18) + b"\n", "large"),
        (b"solvers/pipeline/new.py", "100644", b"import os\nos.remove('x')\n", "code at import"),
        (b"solvers/pipeline/new.py", "100644", b"for x in range(9): x = 1\n", "code at import"),
        (b"solvers/pipeline/random.py", "100644", SOLVER, "shadows"),
        (b"solvers/pipeline/polars.py", "100644", SOLVER, "shadows"),
        (b"solvers/pipeline/trees.py", "100644", SOLVER, "shadows"),
        (b"solvers/pipeline/deep.py", "100644", b"if " + b"-" * 900 + b"x: pass\n", "code at import"),
        (b"solvers/pipeline/old.py", "100644", SOLVER, "changes"),
        (b"solvers/pipeline/old.py", "0", b"", "changes"),
        (b"solvers/pipeline/_helper.py", "100644", SOLVER, "outside"),
        (b"solvers/pipeline/machinery/new.py", "100644", SOLVER, "outside"),
        (b"solvers/nowhere/new.py", "100644", SOLVER, "outside"),
        (b"solvers/pipeline/New.py", "100644", SOLVER, "outside"),
        (b"solvers/pipeline/caf\xe9.py", "100644", SOLVER, "name"),
        (b"solvers/pipeline/new\n.py", "100644", SOLVER, "name"),
        (b"submissions/@maintainer.json", "100644", b"{}", "name"),
        (b"records/solutions/chain.json.gz", "100644", b"", "name"),
        (b"records/solutions/chain-0123456789ab.json.gz", "100644", b"other", "changes"),
        (b"records/history.jsonl", "100644", b"{} \n{}\n", "rewrites"),
        (b"records/history.jsonl", "100644", b"{}\n" + b" " * (1 << 20) + b"\n", "large"),
        (b"records/history.jsonl", "0", b"", "outside"),
        (b"instances/catalog.toml", "100644", b"# other\n", "rewrites"),
        (b"conftest.py", "100644", SOLVER, "outside"),
        (b".github/workflows/submission.yml", "100644", b"on: push", "outside"),
    ],
)
def test_a_file_that_is_not_an_addition_is_left(project: Path, name: bytes, mode: str, content: bytes, reason: str):
    found = propose(project, {name: (mode, content)})
    assert (found.added, [(left.path, left.reason) for left in found.left]) == ((), [(name, reason)])


def test_a_path_that_climbs_is_left(project: Path):
    """Git makes no such tree, but a server may send one."""
    made = git(project, "hash-object", "-w", "records/history.jsonl")
    for mode, name in (("100644", "Makefile.json"), ("40000", ".."), ("40000", "submissions")):
        tree = f"{mode} {name}\0".encode() + bytes.fromhex(made)
        command = ["git", "hash-object", "-t", "tree", "-w", "--stdin", "--literally"]
        made = subprocess.run(command, cwd=project, input=tree, check=True, capture_output=True).stdout.decode().strip()
    git(project, "branch", "theirs", git(project, "commit-tree", made, "-p", "main", "-m", "Climb"))
    left = {file.path: file.reason for file in changes(project, "theirs").left}
    assert left[b"submissions/../Makefile.json"] == "name"


def test_additions_are_taken_over(project: Path):
    found = propose(
        project,
        {
            b"solvers/pipeline/new.py": ("100644", SOLVER),
            b"solvers/pipeline/bounds/new.py": ("100644", SOLVER),
            b"submissions/new.json": ("100644", b"{}"),
            b"instances/data/pipeline/new.json": ("100644", b"{}"),
            b"records/history.jsonl": ("100644", b"{}\n[]\n"),
            b"records/solutions/chain-0123456789ac.json.gz": ("100644", b"{}"),
            b"records/solutions/chain-0123456789ab.json.gz": ("0", b""),
        },
    )
    assert found.left == ()
    assert found.deleted == ("records/solutions/chain-0123456789ab.json.gz",)
    assert {(file.path, file.kind) for file in found.added} == {
        ("solvers/pipeline/new.py", "solver"),
        ("solvers/pipeline/bounds/new.py", "solver"),
        ("submissions/new.json", "submission"),
        ("instances/data/pipeline/new.json", "instance"),
        ("records/history.jsonl", "records/history.jsonl"),
        ("records/solutions/chain-0123456789ac.json.gz", "solution"),
    }
    assert {file.content for file in found.added if file.kind == module.HISTORY} == {b"[]\n"}


def test_what_the_base_did_since_the_branch_began_is_not_the_branchs(project: Path):
    propose(project, {b"solvers/pipeline/new.py": ("100644", SOLVER), b"solvers/pipeline/two.py": ("100644", SOLVER)})
    git(project, "reset", "--quiet", "--hard")
    (project / "solvers" / "pipeline" / "two.py").write_text("mine")
    (project / "records" / "history.jsonl").write_text("{}\n{}\n")
    git(project, "add", ".")
    git(project, "commit", "--quiet", "-m", "Go on")
    found = changes(project, "theirs")
    assert [file.path for file in found.added] == ["solvers/pipeline/new.py"]
    assert [(left.path, left.reason) for left in found.left] == [(b"solvers/pipeline/two.py", "changes")]


def test_a_branch_must_exist_and_add_something(project: Path):
    assert "expected commits that the checkout lacks" in refusal(changes, project, "main")
    for name in ("nothing", "--all", "main:solvers", "main^{tree}"):
        assert f"{name}: expected a branch or a commit of {project}" in refusal(changes, project, name)
    git(project, "branch", "theirs", git(project, "commit-tree", "main^{tree}", "-m", "Begin anew"))
    assert "theirs: expected history in common with the checkout" in refusal(changes, project, "theirs")
    assert "expected a git checkout of the project" in refusal(changes, project / "solvers", "main")


def tree(project: Path, mode: str, made: str, names: range) -> str:
    """Make a tree whose entries are all the same object."""
    lines = "".join(f"{mode} {'tree' if mode == '40000' else 'blob'} {made}\te{name}\0" for name in names)
    command = ["git", "mktree", "-z"]
    done = subprocess.run(command, cwd=project, input=lines, check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.mark.parametrize("leaves", [0, 10])
def test_a_tree_without_end_is_refused(project: Path, leaves: int):
    """Eleven objects of git, which stand for 10 ** 10 folders: with files in the last of them, and without."""
    made = git(project, "hash-object", "-w", "records/history.jsonl")
    made = tree(project, "100644", made, range(leaves))
    for _ in range(10):
        made = tree(project, "40000", made, range(10))
    git(project, "branch", "theirs", git(project, "commit-tree", made, "-p", "main", "-m", "Explode"))
    assert "expected fewer files: `git ls-tree`" in refusal(changes, project, "theirs")


def test_so_many_changes_that_no_summary_lists_them_are_refused(project: Path):
    made = git(project, "hash-object", "-w", "records/history.jsonl")
    made = tree(project, "100644", made, range(6000))
    git(project, "branch", "theirs", git(project, "commit-tree", made, "-p", "main", "-m", "Flood"))
    assert "expected fewer files: `git diff-tree`" in refusal(changes, project, "theirs")


def test_the_projects_own_solvers_run_no_code_at_import():
    assert [file.name for file in solver_files() if runs_code(file.read_bytes())] == []


def test_what_a_file_uses_is_named():
    assert uses(b"import os.path, numpy\nfrom socket import create_connection\nexec('')\n") == ["os", "socket", "exec"]
    assert uses(b"import os = nonsense") == []


def test_deep_statements_that_only_define_are_no_code():
    assert not runs_code(b"if TYPE_CHECKING: pass\n" + b"elif TYPE_CHECKING: pass\n" * 900)
