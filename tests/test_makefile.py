"""The Makefile says what its targets do."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.mark.skipif(shutil.which("make") is None, reason="needs make")
def test_help_has_a_line_for_every_target() -> None:
    (targets,) = re.findall(r"^[.]PHONY: (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    command = ["make", "--no-print-directory", "help"]  # in case that make runs this test
    helped = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    lines = [re.fullmatch(r"([a-z]+) +\S.*", line) for line in helped.splitlines()]
    assert [line and line[1] for line in lines] == targets.split()


@pytest.mark.skipif(shutil.which("make") is None, reason="needs make")
def test_a_benchmark_runs_as_many_jobs_as_it_may_use_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not as many as the machine has, as in a container with one of its cores."""
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    core = min(os.sched_getaffinity(0))
    command = ["taskset", "--cpu-list", str(core), "make", "--no-print-directory", "--dry-run", "benchmark"]
    shown = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert " --jobs 1 " in shown


@pytest.mark.skipif(shutil.which("make") is None or shutil.which("git") is None, reason="needs make and git")
@pytest.mark.parametrize(
    ("history", "commits", "sentence"),
    [
        ("none", "3", "expected a clone with its commits, which asv measures"),
        ("two commits", "2", "expected at least 3 commits, found 2; give COMMITS=1 or fewer$"),
        ("shallow", "1", "expected at least 2 commits, found 1; fetch the whole history with git fetch --unshallow$"),
        ("two commits", "x", "expected a whole number of commits of at least 1, found COMMITS=x"),
        ("two commits", "0", "expected a whole number of commits of at least 1, found COMMITS=0"),
    ],
)
def test_asv_refuses_a_history_that_is_too_short_before_anything_is_set_up(
    tmp_path: Path, history: str, commits: str, sentence: str
) -> None:
    if history != "none":
        git = ["git", "-C", tmp_path, "-c", "user.name=a", "-c", "user.email=a@example.org"]
        subprocess.run([*git[:3], "init", "--quiet"], check=True)
        for subject in ("one", "two"):
            subprocess.run([*git, "commit", "--quiet", "--allow-empty", "-m", subject], check=True)
    if history == "shallow":
        clone = ["git", "clone", "--quiet", "--depth", "1", tmp_path.as_uri(), "clone"]
        subprocess.run(clone, cwd=tmp_path, check=True)
        tmp_path /= "clone"
    command = ["make", "--file", ROOT / "Makefile", "asv", f"COMMITS={commits}"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 2
    assert re.search(f"^make: {sentence}", done.stderr, re.MULTILINE)
    assert not (tmp_path / ".venv").exists()
