"""One run under limits: reports in time count, and usage is measured. For the ends of runs see test_zoo."""

from __future__ import annotations

import math

import pytest
from patience import given_time
from referee import CHAIN

from shardmark.harness.campaign.jobs import Job, known_bound, perform
from shardmark.harness.campaign.problems import Problem
from shardmark.harness.results.records import Certificate
from shardmark.harness.sandbox.contract import Limits
from shardmark.harness.sandbox.supervisor import Supervisor
from shardmark.instances.files.jsonfile import write_json


def test_incumbents_are_stamped_verified_and_the_best_is_kept(run_zoo):
    row = run_zoo("good")
    assert (row.status, row.reason, row.cost) == ("ok", "", 6.0)
    assert [x.cost for x in row.incumbents] == [10.0, 6.0]
    assert 0 < row.incumbents[0].time_s <= row.incumbents[1].time_s <= row.wall_s
    assert row.solution == [0, 0, 1, 1]
    assert row.lower_bound == pytest.approx(5.0)
    assert row.lower_bound <= 5.0
    assert 0 < row.cpu_s < math.inf
    assert 10 < row.peak_mib < 1024


def test_a_returned_solution_is_reported_and_the_greatest_bound_counts(run_zoo):
    row = run_zoo("returns-it")
    assert (row.status, row.cost, len(row.incumbents)) == ("ok", 10.0, 1)
    row = run_zoo("bounds")
    assert (row.lower_bound, [b.value for b in row.bounds]) == (2, [2, 1.5])


@pytest.mark.gate
def test_reports_before_a_timeout_count(run_zoo):
    row = given_time(lambda limit: run_zoo("hangs", timeout=limit), lambda row: row.incumbents)
    assert (row.status, row.cost) == ("timeout", 10.0)
    assert row.reason == f"killed at the time limit of {row.timeout_s:g} s"
    assert row.timeout_s <= row.wall_s < 2 * row.timeout_s + 30


@pytest.mark.gate
def test_reports_after_the_time_limit_do_not_count(run_zoo):
    row = run_zoo("late", timeout=1.0)
    assert (row.status, row.cost, row.incumbents) == ("timeout", None, ())


@pytest.mark.gate
def test_a_solver_that_obeys_its_deadline_is_in_time(run_zoo):
    row = given_time(lambda limit: run_zoo("obeys", timeout=limit), lambda row: row.status == "ok", 3.0)
    assert (row.status, row.cost) == ("ok", 10.0)
    assert row.incumbents[0].time_s <= row.timeout_s


def test_a_flood_of_reports_keeps_the_first_and_the_last(run_zoo):
    row = run_zoo("floods")
    assert (row.status, row.cost, len(row.incumbents)) == ("ok", 6.0, 1000)
    assert "and dropped 1001 in between" in row.log


def test_a_flood_on_stdout_keeps_its_end(run_zoo):
    row = run_zoo("prints")
    assert row.status == "ok"
    assert len(row.log) < 64 * 1024
    assert row.log.endswith("the end\n")


@pytest.mark.gate
def test_a_spike_between_two_measurements_of_memory_counts(run_zoo):
    row = run_zoo("spike", memory=1024.0)
    assert row.status == "ok"
    assert 400 < row.peak_mib < 500


@pytest.mark.gate
def test_the_referees_own_memory_is_not_the_runs(run_zoo):
    ballast = bytearray(700 << 20)
    ballast[::4096] = b"x" * len(ballast[::4096])
    assert run_zoo("good").peak_mib < 300
    del ballast


def test_a_changed_instance_is_not_solved(zoo, tmp_path):
    problem = Problem("chain", tmp_path / "chain.json", "pipeline")
    write_json(problem.path, CHAIN)
    job = Job(zoo["good"], problem, 0, Limits(10.0, 1024.0))
    with Supervisor() as supervisor:
        assert perform(job, supervisor).status == "ok"
        write_json(problem.path, {**CHAIN, "stages": 3})
        row = perform(job, supervisor)
    assert (row.stop, row.status, row.cost) == ("error", "error", None)
    assert "expected the content that was first read, but the file has changed" in row.reason


@pytest.mark.parametrize(
    ("bound", "proven", "counts"),
    [
        (5.0, None, 5.0),
        (5.0, 5.0, 5.0),
        (5.0, 6.5, 6.5),
        (5, 6.5, 6),
        (5, 4, 5),
        (5.0, 5.0 * (1 - 1e-12), 5.0 * (1 - 1e-12)),
        (5.0, 4.0, 5.0),
        (None, 4.0, None),
    ],
)
def test_a_certificate_that_proves_more_than_the_run_said_counts(bound, proven, counts):
    """A certificate that proves less leaves the bound as it is, unless the difference is rounding."""
    certificate = Certificate({}, proven, 0.0, "")
    assert known_bound(bound, certificate) == counts
    assert known_bound(bound, None) == bound
