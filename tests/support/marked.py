"""Processes that a test starts, and all their descendants: found by a mark in their environment."""

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
LONGEST_S = 240.0  # seconds after which a process is killed


class Marked:
    """Python programs with their own temporary folder."""

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
        self.watchdogs.append(threading.Timer(longest_s, process.kill))  # its reader must not wait forever
        self.watchdogs[-1].start()
        return process

    def alive(self) -> list[psutil.Process]:
        """Return the processes that are still alive."""
        mark = f"{MARK}={self.mark}"
        return [process for process in psutil.process_iter() if mark in _environment(process.pid)]

    def end(self) -> None:
        """Wait until all processes have ended; kill those that do not, and fail."""
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
    """Wait for a value to become true, and return it."""
    end = time.monotonic() + seconds
    while not (found := true()):
        assert time.monotonic() < end, f"not true within {seconds:g} s"
        time.sleep(0.02)
    return found


def ended(process: subprocess.Popen[str], seconds: float = 60.0) -> tuple[int, str, str]:
    """Wait for a process; return its exit status, output and errors."""
    if any(pipe and not pipe.closed for pipe in (process.stdout, process.stderr)):
        output, errors = process.communicate(timeout=seconds)
    else:
        output, errors = "", ""
    return process.wait(seconds), output, errors
