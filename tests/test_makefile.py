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
