"""The standing of a solver: its scores compared with records and stored runs, which stay as they are."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from referee import answer, shardmark

from shardmark.cli.submission import standing as module
from shardmark.cli.submission.conformance import candidates
from shardmark.cli.submission.standing import Standing, standing
from shardmark.harness.campaign.discover import discover
from shardmark.harness.records.best import by_checksum
from shardmark.harness.results import ranking

pytestmark = pytest.mark.gate

SOLVER = """
from shardmark import {0}

@{0}(track="pipeline", source="a test")
def mine(instance, run):
    '''Prove that costs are positive, or put everything into one stage.'''
    {1}
"""


@pytest.fixture(scope="module")
def results(tmp_path_factory) -> Path:
    """Runs of a solver and a bound on the chain, which costs 11 at best, and on another instance."""
    folder = tmp_path_factory.mktemp("stored") / "results"
    methods = [word for name in ("random-1", "simple") for word in ("--solver", name)]
    done = answer("run", "--suite", "smoke", *methods, "--timeout", 20, "--results", folder, "--quiet")
    assert done["failed"] == 0
    return folder


@pytest.fixture
def stand(tmp_path, monkeypatch, results):
    """Return where a solver with this body would stand, among the stored runs or alone."""
    monkeypatch.setattr(module, "SUITE", "smoke")

    def stand(kind: str, body: str, stored: Path = results) -> Standing:
        path = tmp_path / "mine.py"
        path.write_text(SOLVER.format(kind, body))
        (info,) = candidates(path, None)
        return standing(info, stored)

    return stand


def test_a_solver_is_ranked_among_stored_runs(stand, results):
    before = (results / "results.sqlite").read_bytes()
    found = stand("solver", "run.report([0] * instance.nodes)")
    rows = {row["instance"]: row for row in found.instances}
    assert rows["chain"] == {"instance": "chain", "status": "ok", "cost": 16.0, "best_known": 11, "score": 11 / 16}
    assert [(row["rank"], row["solver"], row["yours"]) for row in found.ranking][-1] == (2, "mine", "<-")
    assert {row["solver"] for row in found.ranking} == {"random-1", "mine"}
    assert not found.alone
    assert (results / "results.sqlite").read_bytes() == before


def test_stored_runs_are_compared_with_the_record_as_new_ones_are(results, monkeypatch):
    monkeypatch.setattr(module, "SUITE", "smoke")
    (info,) = (found for found in discover() if (found.track, found.name) == ("pipeline", "random-1"))
    half = {
        checksum: replace(record, history=[replace(record.cost, value="0.5")])
        for checksum, record in by_checksum().items()
        if record.cost
    }
    monkeypatch.setattr(ranking, "by_checksum", lambda _: half)
    rows = standing(info, results).instances
    assert {(row["best_known"], row["score"]) for row in rows} == {(0.5, 0.5 / row["cost"]) for row in rows}


def test_a_bound_is_ranked_among_bounds(stand):
    found = stand("bound", "run.bound(0.5)")
    assert found.instances[0].keys() == {"instance", "status", "bound", "best_known", "score"}
    assert {row["solver"] for row in found.ranking} >= {"simple", "mine"}


def test_without_stored_runs_it_stands_alone(stand, tmp_path):
    found = stand("solver", "raise RuntimeError", tmp_path / "nothing")
    assert found.alone
    assert [row["status"] for row in found.instances] == ["error"] * len(found.instances)
    assert not (tmp_path / "nothing").exists()


def test_a_folder_with_another_file_is_refused(tmp_path):
    (tmp_path / "results.sqlite").write_text("nonsense")
    file = tmp_path / "mine.py"
    file.write_text(SOLVER.format("solver", "return [0] * instance.nodes"))
    refused = shardmark("submit", file, "--results", tmp_path)
    assert refused.returncode == 2
    assert "results.sqlite" in refused.stderr
