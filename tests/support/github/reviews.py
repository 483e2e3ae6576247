"""The summary of a review in which something of each kind failed."""

from __future__ import annotations

from typing import Any

from shardmark.cli.submission import summary

RUN = {"instance": "chain", "status": "ok", "value": 16, "best_known": 11, "score": 0.6875}
RANK = {"division": "latency, acyclic", "rank": 1, "solver": "mine", "score_sum": 0.5, "solved": 1, "instances": 1}
CLAIM = {"instance": "chain", "kind": "cost", "claimed": 9, "found": 16, "result": "not confirmed"}
GOOD: dict[str, Any] = {
    "format": summary.FORMAT,
    "base": "a" * 40,
    "head": "b" * 40,
    "seed": 7,
    "suite": "quick",
    "drawn": ["chain"],
    "outcome": "failed",
    "taken": ["solvers/pipeline/mine.py"],
    "left": [{"path": "Makefile", "reason": "outside"}, {"path": summary.UNUSUAL, "reason": "link"}],
    "solvers": [
        {
            "name": "mine",
            "track": "pipeline",
            "kind": "solver",
            "uses": ["os"],
            "checks": [
                {"check": "solves", "instance": "chain", "passed": "no", "status": "misclaim"},
                {"check": "solves", "instance": "overflow", "passed": "no", "status": "misclaim"},
                {"check": "is repeatable", "instance": None, "passed": "yes", "status": None},
            ],
            "runs": [RUN],
            "ranking": [RANK],
            "profile": [{"division": "", "solver": "mine", "shares": [0.0] * 8 + [1.0]}],
            "claims": [CLAIM],
        }
    ],
    "instances": [
        {
            "instance": "new",
            "track": "pipeline",
            "checks": [{"check": "is solved", "passed": "no"}],
            "solved_by": 0,
            "tried_by": 8,
        }
    ],
    "records": [{**CLAIM, "result": "wrong", "found": None}],
}
