"""Small instances, the zoo of solvers, and a way to run one under the referee."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest
from patience import given_time as given_time  # for the tests of this folder

from harness.campaign.discover import SolverInfo, discover
from harness.campaign.jobs import Job, perform
from harness.campaign.problems import Problem
from harness.results.database import Record
from harness.sandbox.backends.choice import Backend, choose
from harness.sandbox.contract import Limits, Order
from harness.sandbox.supervisor import Supervisor
from instances import InputError
from instances.files.jsonfile import write_json
from shardmark import runs
from shardmark.cli import conformance, matrix
from shardmark.cli.arguments import main

ZOO = Path(__file__).parent / "zoo"
CHAIN = {
    "format": "shardmark/pipeline/1",
    "name": "chain",
    "stages": 2,
    "bandwidth": 1.0,
    "memory": None,
    "nodes": {"work": [3, 2, 4, 1], "output_size": [1, 1, 1, 1], "param_size": [0, 0, 0, 0]},
    "edges": [[0, 1], [1, 2], [2, 3]],
}


@pytest.fixture(scope="session")
def zoo() -> dict[str, SolverInfo]:
    """Every solver of the zoo by its name."""
    return {info.name: info for info in discover([ZOO]) if Path(info.file).parent == ZOO}


@pytest.fixture(scope="session")
def chain(tmp_path_factory: pytest.TempPathFactory) -> Problem:
    """Four nodes in a row: one block costs 10, the best cut into two costs 6."""
    path = tmp_path_factory.mktemp("instances") / "chain.json"
    write_json(path, CHAIN)
    return Problem("chain", path, "pipeline", {}, {}, 10.0)


@pytest.fixture
def run_zoo(zoo: dict[str, SolverInfo], chain: Problem):
    """Run a solver of the zoo on the chain."""

    def run(name: str, timeout: float = 60.0, memory: float = 1024.0) -> Record:
        with Supervisor() as supervisor:
            return perform(Job(zoo[name], chain, 0, Limits(timeout, memory)), supervisor)

    return run


def backend_here(name: str, isolation: str = "auto") -> Backend:
    """A backend that works here; skips with the reason if it does not."""
    found = try_backend(name, isolation)
    if isinstance(found, InputError):
        pytest.skip(str(found))
    return found


@cache
def try_backend(name: str, isolation: str) -> Backend | InputError:
    """A backend, or why it does not work here."""
    try:
        return choose(name, isolation)
    except InputError as error:
        return error


@pytest.fixture
def posix_for_auto(monkeypatch: pytest.MonkeyPatch, surveyed_once: None) -> None:
    """The command line takes ``posix``, tried once, for ``auto``: it starts runs ten times as fast as ``benchexec``."""

    def chosen(limits: str = "auto", isolation: str = "auto") -> Backend:
        return backend_here("posix", isolation) if limits == "auto" else choose(limits, isolation)

    for user in (matrix, conformance):
        monkeypatch.setattr(user, "choose", chosen)
    monkeypatch.setattr(runs, "backend", chosen)


@pytest.fixture(params=["posix", "benchexec"])
def supervisor(request: pytest.FixtureRequest) -> Iterator[Supervisor]:
    """A supervisor of each backend; skips where the machine does not permit it."""
    with backend_here(request.param).supervisor() as supervisor:
        yield supervisor


@pytest.fixture
def order(chain: Problem) -> Callable[..., Order]:
    """The run of a program, or of a solver in a file, on the chain, pinned to one core; limits by name."""

    def make(*command: str, solver: str = "", file: Path | None = None, **limits: float) -> Order:
        return Order(
            track="pipeline",
            instance=str(chain.path),
            checksum=chain.content_hash,
            options={},
            solver=solver,
            file=str(file or ""),
            seed=0,
            limits=Limits(**{"timeout_s": 20.0, "memory_mib": 256.0, **limits}),
            cpus=(min(os.sched_getaffinity(0)),),
            command=command,
        )

    return make


@pytest.fixture
def answer(capsys):
    """What a command says as JSON; it has to end with a status."""

    def run(*arguments, status=0):
        assert main([*map(str, arguments), "--json"]) == status
        return json.loads(capsys.readouterr().out)

    return run
