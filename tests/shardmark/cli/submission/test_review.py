"""What a review makes of submissions, which anybody may have written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from shardmark.cli.submission.changes import SOLVER, SUBMISSION, Added, Changes
from shardmark.cli.submission.proposal import FORMAT
from shardmark.cli.submission.review import Candidate, _Reviewer
from shardmark.harness.campaign.discover import SolverInfo
from shardmark.harness.sandbox.backends.choice import choose

ROW = {"instance": "chain", "cost": 16, "bound": 11.0}


def claimed(tmp_path: Path, *documents: Any) -> tuple[list[str], list[tuple[str, str]]]:
    """Return for each submission if it is readable, and the claims of the solver ``mine``."""
    files = [Added(f"submissions/{at}.json", SUBMISSION, json.dumps(x).encode()) for at, x in enumerate(documents)]
    solver = Candidate(SolverInfo("mine", "pipeline", "solver", "mine.py", ""), Added("mine.py", SOLVER, b""))
    found = Changes("", "", tuple(files), (), ())
    _Reviewer(tmp_path, found, tmp_path, choose("posix"), print)._claimed([solver])
    return [finding.passed for finding in solver.findings], [(x["kind"], x["claimed"]) for x in solver.claims]


def submission(*rows: Any) -> dict[str, Any]:
    return {"format": FORMAT, "solvers": [{"name": "mine", "instances": list(rows)}]}


def test_costs_and_bounds_are_claims(tmp_path: Path):
    found = claimed(tmp_path, submission(ROW), submission({**ROW, "instance": "overflow", "bound": None}))
    assert found == (["yes", "yes"], [("cost", 16), ("bound", 11.0), ("cost", 16)])


@pytest.mark.parametrize(
    "document",
    [
        [],
        {"format": FORMAT},
        {**submission(ROW), "format": "shardmark/submission/0"},
        {"format": FORMAT, "solvers": ["mine"]},
        {"format": FORMAT, "solvers": [{"name": [], "instances": []}]},
        submission([]),
        submission("chain"),
        submission({**ROW, "instance": 7}),
        submission({**ROW, "instance": "@maintainer"}),
        submission({**ROW, "cost": 10**400}),
        submission({**ROW, "cost": True}),
    ],
)
def test_a_submission_of_another_form_is_not_readable(tmp_path: Path, document: Any):
    assert claimed(tmp_path, document) == (["no"], [])


def test_a_claim_counts_once_as_each_may_be_run_again(tmp_path: Path):
    assert claimed(tmp_path, submission(ROW, ROW)) == (["no"], [])
    assert claimed(tmp_path, submission(ROW), submission(ROW))[0] == ["yes", "no"]
