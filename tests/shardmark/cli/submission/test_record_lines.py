"""Records that a branch proposes: costs from their solutions, bounds from their methods."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from referee import backend_here, needs_isolation

from shardmark.cli.submission import record_lines as module
from shardmark.cli.submission.changes import CERTIFICATE, HISTORY, SOLUTION, Added, Changes
from shardmark.harness.campaign.discover import discover
from shardmark.harness.campaign.problems import Problem
from shardmark.harness.records.files import digest
from shardmark.harness.verify.certificates import FORMAT
from shardmark.instances import catalog
from shardmark.instances.files.jsonfile import encode

CHECKSUM = Problem.of(catalog.find("chain"), catalog.locate(catalog.find("chain"))).checksum
COST_16, COST_11 = [0] * 5, [0, 0, 0, 1, 1]
LINE = {"instance": "chain", "checksum": CHECKSUM, "method": "exact", "version": "0" * 12, "seed": 0, "timeout_s": 10.0}
LINE |= {"memory_mib": 1024.0, "cores": 1, "wall_s": 0.1, "machine": "mine", "date": "2026-01-31", "by": "Ada"}


def cost(value: str, solution: Any) -> dict[str, Any]:
    return {**LINE, "kind": "cost", "value": value, "solution": digest(solution)}


def bound(value: str, method: str = "exact") -> dict[str, Any]:
    return {**LINE, "kind": "bound", "value": value, "solution": "", "method": method}


def encoded(*lines: dict[str, Any]) -> bytes:
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


@pytest.fixture
def examined(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Examine lines and solutions that a branch adds to records with the cost 16."""
    project, scratch = tmp_path / "records", tmp_path / "scratch"
    for folder in (project, scratch):
        folder.mkdir()
    (project / "history.jsonl").write_bytes(encoded(cost("16", COST_16), bound("1")))
    monkeypatch.setattr(module, "FOLDER", project)
    infos = [info for info in discover() if info.track == "pipeline"]

    def examine(
        *lines: dict[str, Any], solutions: tuple[Any, ...] = (), deleted: tuple[str, ...] = (), proof: Any = None
    ) -> module.Lines:
        added = [Added(HISTORY, HISTORY, encoded(*lines))] if lines else []
        if proof:
            path = f"records/certificates/chain-{digest(proof)[:12]}.cert.json.gz"
            added.append(Added(path, CERTIFICATE, gzip.compress(encode(proof))))
        for solution in solutions:
            path = f"records/solutions/chain-{digest(solution)[:12]}.json.gz"
            added.append(Added(path, SOLUTION, gzip.compress(encode(solution))))
        return module.examine_records(Changes("", "", tuple(added), (), deleted), scratch, infos, backend_here("posix"))

    return examine


def results(found: module.Lines) -> list[tuple[str, str]]:
    return [(claim["kind"], claim["result"]) for claim in found.claims]


def test_a_better_cost_is_computed_again_from_its_solution(examined):
    old = f"records/solutions/chain-{digest(COST_16)[:12]}.json.gz"
    found = examined(cost("11", COST_11), solutions=(COST_11,), deleted=(old,))
    assert (results(found), found.left, found.details) == ([("cost", "confirmed")], [], [])


@pytest.mark.parametrize(
    ("line", "solution", "words"),
    [
        (cost("10", COST_11), COST_11, "its solution costs 11.0, not 10"),
        (cost("11", COST_11), COST_16, "found nothing of that name"),
        (cost("10", [0, 1, 0, 1, 0]), [0, 1, 0, 1, 0], "its solution is not feasible"),
        ({**cost("11", COST_11), "checksum": "0" * 64}, COST_11, "expected"),
    ],
)
def test_a_false_cost_is_wrong(examined, line: dict[str, Any], solution: Any, words: str):
    found = examined(line, solutions=(solution,))
    assert [result for _, result in results(found)] in ([], ["wrong"])
    assert found.details
    assert words in found.details[0]


def test_a_cost_that_is_no_better_and_a_solution_that_is_needed_or_not_named(examined):
    needed = f"records/solutions/chain-{digest(COST_16)[:12]}.json.gz"
    found = examined(cost("16", COST_16), solutions=(COST_16, COST_11), deleted=(needed,))
    assert results(found) == [("cost", "no improvement")]
    assert [(left.path.decode(), left.reason) for left in found.left] == [
        (f"records/solutions/chain-{digest(COST_11)[:12]}.json.gz", "outside"),
        (needed, "changes"),
    ]


@needs_isolation
def test_a_bound_is_found_again_by_its_method_or_stays_a_claim(examined):
    found = examined(bound("5"), bound("10.5", "simple"), bound("10.6", "no-such-method"), bound("17"))
    assert results(found) == [
        ("bound", "confirmed"),
        ("bound", "claimed"),
        ("bound", "claimed"),
        ("bound", "wrong"),
    ]


@pytest.mark.parametrize(
    ("value", "outcome"), [("8", "confirmed"), ("1", "confirmed"), ("0.5", "no improvement"), ("8.5", "wrong")]
)
def test_a_bound_is_proven_by_its_certificate(examined, value: str, outcome: str):
    about = {"format": FORMAT, "track": "pipeline", "instance": CHECKSUM}
    proof = {**about, "bound": 8, "proof": {"kind": "work"}}
    line = {**bound(value, "no-such-method"), "certificate": digest(proof)}
    found = examined(line, proof=proof)
    assert (results(found), found.left) == ([("bound", outcome)], [])


@pytest.mark.parametrize("word", ["withdrawn", "withdr\\u0061wn"])
def test_a_withdrawal_is_for_a_maintainer(examined, monkeypatch: pytest.MonkeyPatch, word: str):
    taken = {"kind": "withdrawn", "reason": "mine is better"}
    line = {key: bound("1")[key] for key in ("instance", "value", "method", "version", "date", "by")} | taken
    dumps = json.dumps
    monkeypatch.setattr(json, "dumps", lambda value: dumps(value).replace("withdrawn", word))
    found = examined(line)
    assert (results(found), [left.reason for left in found.left]) == ([], ["withdraws"])


@pytest.mark.parametrize("line", [{"instance": "chain"}, bound("9" * 400), bound("-1e307")])
def test_lines_that_are_no_records_are_refused(examined, line: dict[str, Any]):
    found = examined(line)
    assert (results(found), [left.reason for left in found.left]) == ([], ["malformed"])
