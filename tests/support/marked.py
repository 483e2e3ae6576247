"""Processes that a test starts, and all that these start: found by a mark in their environment, whoever owns them."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import psutil

Found = TypeVar("Found")
MARK = "SHARDMARK_TEST"


class Marked:
    """Python programs with a temporary folder of their own."""

    def __init__(self, folder: Path, **settings: str) -> None:
        self.scratch = folder / "scratch"
        self.scratch.mkdir()
        self.mark = uuid.uuid4().hex
        self.environment = {**os.environ, **settings, "TMPDIR": str(self.scratch), MARK: self.mark}
        self.started: list[subprocess.Popen[str]] = []

    def start(self, *command: str, **given: Any) -> subprocess.Popen[str]:
        """Start ``python COMMAND``; ``given`` as for Popen."""
        process = subprocess.Popen([sys.executable, *command], env=self.environment, text=True, **given)
        self.started.append(process)
        return process

    def alive(self) -> list[psutil.Process]:
        """What is left of all that was started."""
        mark = f"{MARK}={self.mark}"
        return [process for process in psutil.process_iter() if mark in _environment(process.pid)]

    def end(self) -> None:
        """Wait until all has ended by itself; what has not is killed, and an error."""
        try:
            for process in self.started:
                ended(process)
            until(lambda: not self.alive())
        finally:
            for left in self.alive():
                left.kill()


def _environment(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/environ").read_text(errors="replace").split("\0")
    except OSError:
        return []


def until(true: Callable[[], Found], seconds: float = 30.0) -> Found:
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
