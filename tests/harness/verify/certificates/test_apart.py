"""A check in a process of its own finds the same, and its limits and failures prove nothing."""

from __future__ import annotations

import math
import sys

import pytest
from mutated_proofs import nested

from shardmark.harness.campaign.problems import Problem
from shardmark.harness.verify import certificates
from shardmark.harness.verify.certificates import apart
from shardmark.instances import catalog

ENTRY = catalog.find("slicing-trap-8")


@pytest.fixture
def problem() -> Problem:
    return Problem.of(ENTRY, catalog.locate(ENTRY))


def certificate(problem: Problem, bound: float) -> dict[str, object]:
    about = {"format": certificates.FORMAT, "track": "pipeline", "instance": problem.checksum}
    return {**about, "bound": bound, "proof": {"kind": "work"}}


@pytest.mark.parametrize(("bound", "holds"), [(1.0, True), (1.5, False)])
def test_it_finds_what_a_check_here_finds(problem: Problem, bound: float, holds: bool) -> None:
    document = certificate(problem, bound)
    found = problem.check_certificate(document)
    assert found == certificates.check(problem.instance, problem.checksum, document)
    assert (found.holds, found.proven_number) == (holds, 1)


def test_an_instance_that_has_changed_proves_nothing(problem: Problem) -> None:
    order = problem.path, "pipeline", problem.options
    found = apart.check(*order, "0" * 64, problem.checksum, certificate(problem, 1.0))
    assert (found.proven, found.holds) == (None, False)
    assert "has changed" in found.reason


def test_a_process_that_fails_proves_nothing(problem: Problem, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apart.sys, "executable", "/bin/false")
    found = problem.check_certificate(certificate(problem, 1.0))
    assert found.proven is None
    assert found.reason == (
        "expected a check that ends with a finding, in 4096 MiB of memory; its process ended with status 1"
    )


def test_time_is_limited(problem: Problem, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apart, "START_S", 0.0)
    order = problem.path, "pipeline", problem.options, problem.content_hash, problem.checksum
    found = apart.check(*order, certificate(problem, 1.0), seconds=0.001)
    assert (found.proven, found.reason) == (None, "expected a check of at most 0.001 s")


@pytest.mark.parametrize("more", [math.inf, nested(sys.getrecursionlimit())], ids=["infinite", "nested"])
def test_a_proof_that_has_no_json_proves_nothing(problem: Problem, more: object) -> None:
    document = certificate(problem, 1.0)
    found = problem.check_certificate({**document, "proof": {"kind": "work", "more": more}})
    assert (found.proven, found.reason) == (None, "expected a proof of finite numbers, less deeply nested")
