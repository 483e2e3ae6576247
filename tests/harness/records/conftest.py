"""Results folders with the runs that a test names."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from shardmark.harness.campaign.problems import Problem
from shardmark.harness.results.database import Store
from shardmark.harness.results.records import Certificate, Record
from shardmark.harness.verify import certificates
from shardmark.instances import catalog

HOST = {"cpu": "Example 3000", "cores": 4, "memory_mib": 8192}
LIMITS = {"timeout_s": 2.0, "memory_mib": 1024.0, "cores": 1}
END = {"stop": "exit", "reason": "", "wall_s": 1.234, "cpu_s": 0.9, "peak_mib": 50.0}
Results = Callable[..., Path]


def _checked(problem: Problem, proof: dict[str, Any], proven: float | None) -> Certificate:
    """A certificate with this proof, which the referee of the run found to prove this bound."""
    about = {"format": certificates.FORMAT, "track": problem.track, "instance": problem.checksum}
    return Certificate({**about, "bound": proven or 0, "proof": proof}, proven, 0.5, "")


@pytest.fixture
def results(tmp_path: Path) -> Results:
    """Return a function that writes runs, each the facts that differ from those of a plain one, into a new folder.

    ``certificate`` is a proof and what it proves.
    """

    def write(*runs: dict[str, Any]) -> Path:
        folder = tmp_path / f"results-{len(list(tmp_path.glob('results-*')))}"
        with closing(Store.open(folder, create=True)) as store:
            number = store.add_campaign("2025-01-01T00:00:00+00:00", ["shardmark", "run"], "0.1.0", HOST)
            for count, run in enumerate(runs):
                entry = catalog.find(run["instance"])
                problem = Problem.of(entry, catalog.locate(entry))
                store.add_instance(run.get("checksum", problem.checksum), entry.id, entry.track, {}, {})
                plain = {"solver": "a-method", "kind": "solver", "seed": 7, "cost": None, "lower_bound": None}
                facts = {"id": f"run {count}", "track": entry.track, "checksum": problem.checksum, **plain, **run}
                facts["certificate"] = _checked(problem, *facts["certificate"]) if "certificate" in facts else None
                started = {"started": "2025-01-02T00:00:00+00:00", "solver_hash": "0123456789abcdef", "status": "ok"}
                store.add_run(number, Record(**{**started, **LIMITS, **END, **facts}))
        return folder

    return write


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An empty folder for records."""
    path = tmp_path / "records"
    path.mkdir()
    return path
