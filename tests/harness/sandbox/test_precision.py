"""Every backend enforces limits and measures usage; `precision/measure_precision.py` measures how precisely."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest
from patience import given_time

pytestmark = pytest.mark.gate(cases=1)

STRAINS = Path(__file__).parent / "precision" / "strains.py"


@pytest.mark.gate
@pytest.mark.thorough(cases=3)
@pytest.mark.parametrize("solver", ["sleeps-on", "computes-on", "children-live-on"])
def test_no_process_outlives_the_time_limit(supervisor, order, solver):
    outcome = given_time(
        lambda limit: supervisor.run(order(solver=solver, file=STRAINS, timeout_s=limit, memory_mib=1024.0)),
        lambda outcome: outcome.log,
    )
    assert outcome.stop == "timeout"
    limit = float(re.fullmatch(r"killed at the time limit of (\S+) s", outcome.reason)[1])
    assert outcome.wall_s >= limit
    assert "late" in outcome.log


@pytest.mark.thorough(cases=4)
@pytest.mark.gate
@pytest.mark.parametrize("solver", ["allocates-in-steps", "allocates-at-once", "children-allocate"])
def test_memory_is_that_of_all_processes(supervisor, order, solver):
    outcome = supervisor.run(order(solver=solver, file=STRAINS, timeout_s=60.0))
    assert outcome.stop == "memory"
    assert re.fullmatch(r"used \d+ MiB, the limit is 256 MiB", outcome.reason)
    assert outcome.peak_mib > 240.0
    assert max(map(int, re.findall(r"^has (\d+)$", outcome.log, re.MULTILINE))) > 128


@pytest.mark.gate
def test_memory_and_time_of_a_run_within_its_limits(supervisor, order):
    work = "import time; x = bytearray(b'x') * (150 << 20)\nwhile time.process_time() < 0.5: pass\ntime.sleep(0.2)"
    outcome = supervisor.run(order(sys.executable, "-I", "-S", "-c", work))
    assert (outcome.stop, outcome.reason) == ("exit", "")
    assert 150.0 <= outcome.peak_mib < 200.0
    assert 0.5 <= outcome.cpu_s < 2.0


def test_every_backend_reports_how_it_enforced_each_measure(supervisor, order):
    outcome = supervisor.run(order("true"))
    assert outcome.backend == supervisor.backend
    assert set(outcome.enforced.values()) <= {"hard", "polled", "none"}
    assert outcome.enforced.items() >= {"wall": "hard", "cpu": "polled", "processes": "polled"}.items()


@pytest.mark.parametrize(
    ("script", "limits", "stop", "reason"),
    [
        ("exit 0", {}, "exit", ""),
        ("exit 3", {}, "crash", "ended with exit status 3"),
        ("kill -SEGV $$", {}, "crash", "killed by SIGSEGV"),
        ("while :; do :; done", {"cpu_s": 0.3}, "cpu", r"used 0\.[3-9] s of CPU time, the limit is 0.3 s"),
        ("sleep 9 & sleep 9 & wait", {"processes": 2}, "processes", "had 3 processes at once, the limit is 2"),
        ("head -c 9000000 /dev/zero; sleep 9", {"output_mib": 4}, "output", "wrote more than 4 MiB to .*"),
        ("head -c 9000000 /dev/zero > file; sleep 9", {"output_mib": 4}, "output", "wrote more than 4 MiB to .*"),
        ("exec nothing-of-that-name", {}, "crash", "ended with exit status 127"),
    ],
)
def test_every_backend_gives_the_same_reason_for_an_end(supervisor, order, script, limits, stop, reason):
    outcome = supervisor.run(order("sh", "-c", script, **limits))
    assert outcome.stop == stop
    assert re.fullmatch(reason, outcome.reason)


def test_a_missing_program_ends_as_in_a_shell(supervisor, order):
    outcome = supervisor.run(order("nothing-of-that-name"))
    assert (outcome.stop, outcome.reason) == ("crash", "ended with exit status 127")
    assert "nothing-of-that-name" in outcome.log


def test_a_program_starts_below_a_folder_of_any_name(supervisor, order, tmp_path):
    """`env` takes a program with an equals sign for a variable."""
    program = tmp_path / os.fsdecode(b"-a b=\n%s:$HOME'\"\xff") / "program"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho [0,0,1,1]")
    program.chmod(0o755)
    outcome = supervisor.run(order(str(program)))
    assert (outcome.stop, len(outcome.messages)) == ("exit", 1), outcome.log


@pytest.mark.gate
def test_output_before_the_end_counts_and_stderr_is_log(supervisor, order):
    program = ("sh", "-c", "echo [0,0,0,1]; echo so far >&2; sleep 300")
    outcome = given_time(lambda limit: supervisor.run(order(*program, timeout_s=limit)), lambda found: found.messages)
    assert outcome.stop == "timeout"
    assert [payload for _, payload in outcome.messages] == [b'["solution",[0,0,0,1]]']
    assert outcome.messages[0][0] < outcome.wall_s
    assert outcome.log == "so far\n"
