"""Shared by tests: a small instance, the zoo of solvers, backends that work here, supervisors to borrow, commands."""

from __future__ import annotations

import io
import json
import os
import tempfile
import threading
from collections.abc import Callable
from contextlib import chdir, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from shardmark.cli.arguments import main
from shardmark.harness.sandbox.backends.choice import Backend, choose
from shardmark.harness.sandbox.backends.namespaces import isolation_error_in_subprocess
from shardmark.harness.sandbox.contract import Order, Outcome
from shardmark.harness.sandbox.link import Watch
from shardmark.harness.sandbox.outside import UNSENT
from shardmark.harness.sandbox.supervisor import Supervisor, environment
from shardmark.instances import InputError

SANDBOX = Path(__file__).parents[1] / "harness" / "sandbox"
ZOO = SANDBOX / "zoo"
CHAIN = {
    "format": "shardmark/pipeline/1",
    "name": "chain",
    "stages": 2,
    "bandwidth": 1.0,
    "memory": None,
    "nodes": {"work": [3, 2, 4, 1], "output_size": [1, 1, 1, 1], "param_size": [0, 0, 0, 0]},
    "edges": [[0, 1], [1, 2], [2, 3]],
}
#: Reason of a run that SIGKILL ended. If the system has killed any process of the machine for lack of memory meanwhile,
#: another test's or another container's, the referee takes the run for one of those.
SIGKILLED = f"killed by SIGKILL, {UNSENT}|killed from outside for lack of memory: it used .*"
#: Supervisors that wait in a pool, at most.
KEPT = 4
OBSTACLE = isolation_error_in_subprocess()  # why this machine cannot isolate runs, "" if it can
needs_isolation = pytest.mark.skipif(bool(OBSTACLE), reason=OBSTACLE)
ISOLATION = [pytest.param("auto", marks=needs_isolation, id="isolated"), pytest.param("none", id="not isolated")]


def backend_here(name: str, isolation: str = "auto") -> Backend:
    """Return a backend; skip with the reason if it does not work here."""
    found = try_backend(name, isolation)
    if isinstance(found, InputError):
        pytest.skip(str(found))
    return found


@cache
def try_backend(name: str, isolation: str) -> Backend | InputError:
    """Return a backend, or why it does not work here."""
    try:
        return choose(name, isolation)
    except InputError as error:
        return error


class Pool:
    """The last supervisors that have carried out a run: to start one takes longer than most runs of tests."""

    def __init__(self) -> None:
        self.free: list[tuple[object, Supervisor]] = []
        self.lock = threading.Lock()

    def borrow(self, key: object) -> Supervisor | None:
        """Return a supervisor that was given back with this key, None if there is none."""
        with self.lock:
            at = next((i for i, (other, _) in enumerate(self.free) if other == key), None)
            return None if at is None else self.free.pop(at)[1]

    def give_back(self, key: object, supervisor: Supervisor) -> None:
        """Keep a supervisor for later runs, and end those that have waited longest if there are too many."""
        with self.lock:
            self.free.append((key, supervisor))
            ended, self.free = self.free[:-KEPT], self.free[-KEPT:]
        for _, old in ended:
            old.close()

    def close(self) -> None:
        """End all of them."""
        while self.free:
            self.free.pop()[1].close()


class Lent(Supervisor):
    """Carries out each run in a supervisor of the pool that was started as one would be now, or in a new one."""

    def __init__(self, backend: str, isolation: str, pool: Pool) -> None:
        super().__init__(backend, isolation)
        self.pool = pool

    def run(self, order: Order, cancel: threading.Event | None = None, watch: Watch | None = None) -> Outcome:
        """Carry out one run."""
        started_with = environment(order.limits.cores).items(), os.sched_getaffinity(0)
        key = self.backend, self.isolation, tempfile.gettempdir(), *map(frozenset, started_with)
        supervisor = self.pool.borrow(key) or Supervisor(self.backend, self.isolation)
        try:
            return supervisor.run(order, cancel, watch)
        finally:
            self.pool.give_back(key, supervisor)


@dataclass(frozen=True)
class Lending(Backend):
    """A backend whose supervisors outlive their users, up to the end of the pool."""

    pool: Pool = field(default_factory=Pool)

    def supervisor(self) -> Supervisor:
        """Return a supervisor that carries out runs in those of the pool."""
        return Lent(self.name, self.isolation, self.pool)


class Result(NamedTuple):
    """Exit status, standard output and error of a command."""

    returncode: int
    stdout: str
    stderr: str


def shardmark(*arguments: object, cwd: Path | None = None) -> Result:
    """Run a command in this process: an uncaught exception fails the test."""
    stdout, stderr = io.StringIO(), io.StringIO()
    with redirect_stdout(stdout), redirect_stderr(stderr), chdir(cwd or "."):
        try:
            status = main([str(argument) for argument in arguments])
        except SystemExit as exit_of_argparse:
            status = int(exit_of_argparse.code or 0)
    return Result(status, stdout.getvalue(), stderr.getvalue())


def answer(*arguments: object, status: int = 0, **options: Any) -> Any:
    """Return the JSON that a command prints; the command must end with the given status."""
    result = shardmark(*arguments, "--json", **options)
    assert result.returncode == status, result.stderr
    return json.loads(result.stdout)


def refusal(call: Callable[..., object], *arguments: Any, **options: Any) -> str:
    """Return the sentence with which a call refuses its input: one line."""
    with pytest.raises(InputError) as caught:
        call(*arguments, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def refused(*arguments: object) -> str:
    """Return the sentence of a command that ends with status 2."""
    result = shardmark(*arguments)
    assert result.returncode == 2
    return result.stderr
