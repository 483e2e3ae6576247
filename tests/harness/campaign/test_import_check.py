"""Limits on a third-party import, isolated and not."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from marked import until
from referee import needs_isolation

from shardmark.harness.campaign import import_check

#: The program with low limits; it cannot isolate if there is a third argument.
PROGRAM = """
import os, sys
from shardmark.harness.campaign import import_check
from shardmark.harness.sandbox import contract
from shardmark.harness.sandbox.backends import namespaces

def unable(*_):
    raise contract.BackendError("the system does not let us")

import_check.MEMORY_BYTES, import_check.PROCESSES = 256 << 20, 20
import_check.IMPORT_TIMEOUT_S = float(os.environ.get("IMPORT_S", "60"))
if sys.argv[3:]:
    namespaces.start = unable
sys.exit(import_check.main([*sys.argv[1:3], str(os.getppid())]))
"""
SOLVER = """
import os, resource, time
from shardmark.solvers.registry import solver
{}
@solver(track="pipeline", source=str({}))
def f(instance, run): ...
"""
#: Further arguments of `PROGRAM`.
WITH_AND_WITHOUT = [pytest.param((), marks=needs_isolation, id="isolated"), pytest.param(("none",), id="not")]


def listed(folder: Path, body: str, source: str, *more: str) -> tuple[int, list[dict]]:
    """Import a file that runs ``body`` and declares ``source`` as its source; return exit status and answers."""
    file, scratch = folder / "f.py", folder / "scratch"
    file.write_text(SOLVER.format(body, source))
    command = [sys.executable, "-P", "-c", PROGRAM, str(file), str(scratch), *more]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=60)
    assert more or not scratch.exists()
    return done.returncode, [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.parametrize("more", WITH_AND_WITHOUT)
def test_an_import_has_its_limits(tmp_path, more):
    names = ("RLIMIT_DATA", "RLIMIT_CPU", "RLIMIT_CORE", "RLIMIT_FSIZE")
    source = f"[resource.getrlimit(getattr(resource, name))[1] for name in {names}]"
    status, [answer] = listed(tmp_path, "", source, *more)
    assert status == 0
    assert answer["solvers"][0]["source"] == str([256 << 20, import_check.CPU_S, 0, import_check.FILE_BYTES])


@needs_isolation
@pytest.mark.parametrize(
    "body",
    [
        "for _ in range(4):\n    if os.fork() == 0:\n        x = bytearray(b'x') * (90 << 20)\n        time.sleep(60)",
        "for _ in range(40):\n    if os.fork() == 0: time.sleep(60)",
    ],
    ids=["memory", "processes"],
)
def test_usage_of_all_processes_of_an_import_is_limited(tmp_path, body):
    assert listed(tmp_path, f"{body}\ntime.sleep(60)", "0") == (import_check.OUT_OF_MEMORY_STATUS, [])


def test_an_import_runs_without_isolation_if_the_system_has_none(tmp_path):
    status, [answer] = listed(tmp_path, "", "os.getpid() > 2", "none")
    assert (status, answer["solvers"][0]["source"]) == (0, "True")


@needs_isolation
def test_an_import_ends_itself_at_its_time_limit(tmp_path, monkeypatch):
    monkeypatch.setenv("IMPORT_S", "0.5")
    assert listed(tmp_path, "time.sleep(60)", "0") == (128 + signal.SIGKILL, [])


def begun(folder: Path, *more: str) -> subprocess.Popen[bytes]:
    """Return a shell that waits for the import of a file that sleeps, once the import has begun."""
    file, scratch = folder / "f.py", folder / "scratch"
    file.write_text("import time; time.sleep(60)")
    # With a second command the shell does not replace itself by the first.
    command = [sys.executable, "-P", "-c", PROGRAM, str(file), str(scratch), *more]
    shell = subprocess.Popen(["sh", "-c", '"$@"; exit $?', "sh", *command])
    until(lambda: scratch.exists() or shell.poll() is not None)
    assert shell.poll() is None
    return shell


@pytest.mark.gate
@pytest.mark.parametrize("more", WITH_AND_WITHOUT)
def test_an_import_ends_with_its_client(tmp_path, more):
    shell = begun(tmp_path, *more)
    family = psutil.Process(shell.pid).children(recursive=True)
    shell.kill()
    shell.wait()
    assert family
    assert not psutil.wait_procs(family, timeout=20)[1]
    if not more:
        assert not (tmp_path / "scratch").exists()


@needs_isolation
def test_a_signal_ends_an_import_and_deletes_its_folder(tmp_path):
    shell = begun(tmp_path)
    (leader,) = psutil.Process(shell.pid).children()
    leader.terminate()
    assert shell.wait(20) == 128 + signal.SIGTERM
    assert not (tmp_path / "scratch").exists()


def test_an_import_does_not_begin_if_its_client_has_ended(tmp_path):
    command = [sys.executable, "-P", "-m", "shardmark.harness.campaign.import_check"]
    command += [str(tmp_path / "f.py"), str(tmp_path / "scratch"), "1"]
    assert subprocess.run(command, timeout=20).returncode == 1
    assert not (tmp_path / "scratch").exists()
