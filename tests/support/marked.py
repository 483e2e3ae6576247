"""Processes that a test starts, and all that these start: found by a mark in their environment, whoever owns them."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import psutil

Found = TypeVar("Found")
MARK = "SHARDMARK_TEST"
LONGEST_S = 240.0


class Marked:
    """Python programs with a temporary folder of their own."""

    def __init__(self, folder: Path, **settings: str) -> None:
        self.scratch = folder / "scratch"
        self.scratch.mkdir()
        self.mark = uuid.uuid4().hex
        self.environment = {**os.environ, **settings, "TMPDIR": str(self.scratch), MARK: self.mark}
        self.started: list[subprocess.Popen[str]] = []
        self.watchdogs: list[threading.Timer] = []

    def start(self, *command: str, longest_s: float = LONGEST_S, **given: Any) -> subprocess.Popen[str]:
        """Start ``python COMMAND``; ``given`` as for Popen."""
        process = subprocess.Popen([sys.executable, *command], env=self.environment, text=True, **given)
        self.started.append(process)
        self.watchdogs.append(threading.Timer(longest_s, process.kill))  # whoever reads from it must not wait for ever
        self.watchdogs[-1].start()
        return process

    def alive(self) -> list[psutil.Process]:
        """Return the processes still alive of all that were started."""
        mark = f"{MARK}={self.mark}"
        return [process for process in psutil.process_iter() if mark in _environment(process.pid)]

    def end(self) -> None:
        """Wait until all has ended by itself; what has not is killed, and an error."""
        try:
            for process in self.started:
                ended(process)
            until(lambda: not self.alive())
        finally:
            for watchdog in self.watchdogs:
                watchdog.cancel()
            for left in self.alive():
                left.kill()


def _environment(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/environ").read_text(errors="replace").split("\0")
    except OSError:
        return []


def until(true: Callable[[], Found], seconds: float = 120.0) -> Found:
    """Wait for something to become true; what it is then."""
    end = time.monotonic() + seconds
    while not (found := true()):
        assert time.monotonic() < end, f"not true within {seconds:g} s"
        time.sleep(0.02)
    return found


def ended(process: subprocess.Popen[str], seconds: float = 60.0) -> tuple[int, str, str]:
    """Wait for a process; its exit status, its output and its errors."""
    if any(pipe and not pipe.closed for pipe in (process.stdout, process.stderr)):
        output, errors = process.communicate(timeout=seconds)
    else:
        output, errors = "", ""
    return process.wait(seconds), output, errors
