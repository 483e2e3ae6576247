"""Small instances, the zoo of solvers, and a way to run one under the referee."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.discover import SolverInfo, discover
from harness.limits import Limits
from harness.run import Job, Problem, perform
from harness.store import Record
from harness.warden import Warden
from instances.jsonfile import write_json

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

    def run(name: str, timeout: float = 10.0, memory: float = 1024.0) -> Record:
        with Warden() as warden:
            return perform(Job(zoo[name], chain, 0, Limits(timeout, memory)), warden)

    return run
