"""The comment on a pull request: posted by a program that trusts nothing that the review left."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable
from typing import Any

import pytest
from reviews import GOOD

from shardmark.cli.submission import comment
from shardmark.cli.submission.comment import MARK, NO_SUMMARY, OF_WORKFLOWS, main

PROJECT, HEAD, BASE = "shardmark/shardmark", "b" * 40, "c" * 40
PULL = {"number": 7, "base": {"sha": BASE}, "head": {"sha": HEAD, "repo": {"full_name": "ada/shardmark"}}}


class Answers:
    """GitHub's answers to GET requests, and what was sent to it."""

    def __init__(self) -> None:
        self.pulls: list[Any] = [PULL]
        self.files = [{"filename": "solvers/pipeline/mine.py"}]
        self.size, self.archive = 1000, archive(json.dumps(GOOD).encode())
        self.sent: list[tuple[str, str]] = []

    def __call__(self, address: str, *words: str, given: Any = None) -> bytes:
        if given is not None:
            self.sent.append((address, given["body"]))
            return b"{}"
        if address.endswith("/zip"):
            return self.archive
        artifacts = {"artifacts": [{"id": 3, "size_in_bytes": self.size}]}
        comments = [{"id": 1, "user": None, "body": MARK}]  # of somebody who has left GitHub
        answers: dict[str, Any] = {"pulls": self.pulls, "artifacts": artifacts, "comments": comments}
        answers[f"{BASE}...{HEAD}"] = {"files": self.files}
        return json.dumps(answers[address.rpartition("/")[2]]).encode()


def archive(content: bytes, name: str = "summary.json", compression: int = zipfile.ZIP_DEFLATED) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", compression) as written:
        written.writestr(name, content)
    return stream.getvalue()


@pytest.fixture
def github(monkeypatch: pytest.MonkeyPatch) -> Answers:
    answers = Answers()
    monkeypatch.setattr(comment, "_gh", answers)
    run = {"RUN_ID": "42", "HEAD_SHA": HEAD, "HEAD_BRANCH": "idea", "HEAD_REPOSITORY": "ada/shardmark"}
    for name, value in {**run, "GITHUB_REPOSITORY": PROJECT}.items():
        monkeypatch.setenv(name, value)
    return answers


def body(github: Answers) -> str:
    """The one comment that was posted."""
    assert main() == 0
    ((address, text),) = github.sent
    assert address == f"repos/{PROJECT}/issues/7/comments"
    assert text.startswith(MARK)
    assert text.endswith(f"(https://github.com/{PROJECT}/actions/runs/42)\n")
    return text


def test_a_valid_summary_is_posted(github: Answers):
    assert "### Review: 5 failed" in body(github)


@pytest.mark.parametrize(
    "left",
    [
        archive(b'{"format": "shardmark/review/1", "text": "@everyone"}'),
        archive(json.dumps({**GOOD, "head": "d" * 40}).encode()),
        archive(json.dumps(GOOD).encode(), "../../summary.json"),
        lambda: archive(b" " * (64 << 20)),
        archive(json.dumps(GOOD).encode())[:-30],
        archive(json.dumps(GOOD).encode()).replace(b"\x00\x00\x08\x00", b"\x00\x00\x63\x00"),
        archive(json.dumps(GOOD).encode(), compression=zipfile.ZIP_BZIP2),
        archive(b" " * 1000, compression=zipfile.ZIP_LZMA).replace(b"\x05\x00]", b"\x05\x00\xff"),
        b"no archive",
    ],
    ids=[
        "other-keys",
        "another-commit",
        "another-name",
        "bomb",
        "cut",
        "unknown-compression",
        "bzip2",
        "lzma",
        "no-archive",
    ],
)
def test_of_what_is_not_valid_nothing_is_shown(github: Answers, left: bytes | Callable[[], bytes]):
    github.archive = left if isinstance(left, bytes) else left()
    assert NO_SUMMARY in body(github)


def test_a_large_artifact_is_not_even_fetched(github: Answers):
    github.size, github.archive = 1 << 30, b"fetched"
    assert NO_SUMMARY in body(github)


@pytest.mark.parametrize(
    "files",
    [
        [{"filename": ".github/workflows/submission.yml"}],
        [{"filename": "ci.yml", "previous_filename": ".github/workflows/ci.yml"}],
        [{"filename": f"solvers/pipeline/s{number}.py"} for number in range(300)],
    ],
    ids=["changed", "moved", "too-many"],
)
def test_a_pull_request_that_can_change_the_review_is_left_to_a_maintainer(github: Answers, files: list[Any]):
    github.files = files
    assert OF_WORKFLOWS in body(github)


@pytest.mark.parametrize(
    "head",
    [
        {"sha": "d" * 40, "repo": {"full_name": "ada/shardmark"}},
        {"sha": HEAD, "repo": {"full_name": "mallory/shardmark"}},
        {"sha": HEAD, "repo": None},
    ],
    ids=["moved-on", "another-fork", "deleted-fork"],
)
def test_only_the_pull_request_that_was_reviewed_gets_a_comment(
    github: Answers, head: dict[str, Any], capsys: pytest.CaptureFixture[str]
):
    github.pulls = [{**PULL, "head": head}]
    assert main() == 0
    assert github.sent == []
    assert "nothing to comment on" in capsys.readouterr().out
