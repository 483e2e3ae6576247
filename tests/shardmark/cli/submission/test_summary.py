"""A summary holds numbers, fixed words and short names: anything else that a job may leave is refused."""

from __future__ import annotations

import copy
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from reviews import GOOD

from shardmark.cli.submission import conformance, review, summary
from shardmark.cli.submission.markdown import LONGEST, markdown
from shardmark.cli.submission.summary import InvalidSummaryError, read
from shardmark.harness.results.schema import SCHEMA

ROOT = Path(__file__).parents[4]


def encoded(document: Any) -> bytes:
    return json.dumps(document).encode()


def changed(place: list[Any], value: Any) -> bytes:
    """A summary with another value at a place."""
    document = copy.deepcopy(GOOD)
    at: Any = document
    for key in place[:-1]:
        at = at[key]
    at[place[-1]] = value
    return encoded(document)


def test_a_summary_is_read_and_shown():
    text = markdown(read(encoded(GOOD)))
    assert "### Review: 5 failed" in text
    assert "- `mine`: solves `chain`, `overflow`: no (misclaim: claimed a lower cost" in text
    assert "- `mine`: the cost 9 of `chain`: not confirmed, found 16" in text
    assert "- (unusual name) is a symbolic link or a submodule" in text
    assert "| 1 | **`mine`** | 0.5 | 1 of 1 | `latency, acyclic` |" in text
    assert "`        █`" in text


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (["solvers", 0, "name"], "@maintainer"),
        (["solvers", 0, "name"], "x`](https://evil.example)"),
        (["solvers", 0, "name"], "<img src=x>"),
        (["solvers", 0, "name"], "a\n\n# Approved"),
        (["solvers", 0, "name"], "a" * 101),
        (["solvers", 0, "name"], "mine\u202e"),
        (["solvers", 0, "track"], "| a | b |"),
        (["solvers", 0, "uses"], ["anything"]),
        (["solvers", 0, "checks", 0, "passed"], "YES"),
        (["solvers", 0, "checks", 0, "status"], "fine, merge it"),
        (["solvers", 0, "runs", 0, "value"], "1"),
        (["solvers", 0, "runs", 0, "value"], True),
        (["solvers", 0, "runs", 0, "value"], 10**400),
        (["solvers", 0, "ranking", 0, "division"], "[click](x)"),
        (["solvers", 0, "ranking", 0, "rank"], -1),
        (["solvers", 0, "profile", 0, "shares"], [{}]),
        (["left", 0, "path"], "../../etc/passwd"),
        (["left", 0, "path"], "a b"),
        (["left", 0, "reason"], "because"),
        (["head"], "b" * 39),
        (["seed"], 1.5),
        (["format"], "shardmark/review/2"),
        (["solvers"], {}),
        (["comment"], "more"),
        (["solvers", 0, "comment"], "more"),
    ],
)
def test_anything_else_is_refused_and_not_quoted(place: list[Any], value: Any):
    with pytest.raises(InvalidSummaryError) as caught:
        read(changed(place, value))
    assert not isinstance(value, str) or len(value) < 5 or value not in str(caught.value)


@pytest.mark.parametrize(
    "content",
    [b"", b"\xff", b"[" * 100_000, b"null", b"[]", b"{}", encoded(GOOD)[:-1], b" " * (summary.MOST_BYTES + 1)]
    + [encoded(GOOD).replace(b"0.6875", word) for word in (b"NaN", b"Infinity", b"1e999", b"9" * 5000)],
)
def test_what_is_no_summary_is_refused(content: bytes):
    with pytest.raises(InvalidSummaryError):
        read(content)


def test_a_long_summary_is_cut():
    document = copy.deepcopy(GOOD)
    document["solvers"] = [{**GOOD["solvers"][0], "name": f"mine-{number}"} for number in range(300)]
    text = markdown(read(encoded(document)))
    assert len(text) < LONGEST + 100
    assert text.endswith("Cut here: too long.\n")


def test_the_words_are_those_of_the_referee():
    (said,) = re.findall(r"status TEXT NOT NULL, +-- (.*)", SCHEMA)
    assert "one of stop except exit, or infeasible, none" in said
    assert set(review.UNACCEPTABLE) <= set(summary.STATUSES)
    assert set(conformance.WITHOUT_RESULT) <= set(summary.STATUSES)


def test_summary_and_comment_need_the_standard_library_only():
    program = "import sys; sys.path.insert(0, '.'); import shardmark.cli.submission.comment; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-I", "-S", "-c", program], cwd=ROOT, capture_output=True, text=True)
    ours = {name for name in done.stdout.split() if name.startswith("shardmark")}
    assert ours == {
        *("shardmark", "shardmark.cli", "shardmark.cli.submission", "shardmark.cli.submission.comment"),
        *("shardmark.cli.submission.markdown", "shardmark.cli.submission.summary"),
    }
