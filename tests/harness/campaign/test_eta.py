"""The estimate of the time left: from the time that solvers took, not from their limits."""

from __future__ import annotations

import pytest

from shardmark.harness.campaign.eta import Eta
from shardmark.harness.campaign.jobs import Job
from shardmark.harness.sandbox.contract import Limits


@pytest.fixture
def job(zoo, chain):
    return lambda name, seed=0, limit=60.0: Job(zoo[name], chain, seed, Limits(limit, 64.0))


def test_before_anything_is_known_every_run_takes_its_limit(job):
    jobs = [job("good", seed) for seed in range(4)]
    assert Eta(jobs).seconds_left([], 1) == 240
    assert Eta(jobs).seconds_left([], 2) == 120
    assert Eta(jobs).seconds_left([(jobs[0], 10.0)], 1) == 230


def test_each_solver_has_a_pace_of_its_own(job):
    quick, slow = ([job(name, seed) for seed in range(3)] for name in ("good", "hangs"))
    pace = Eta([*quick, *slow])
    pace.ended(quick[0], 0.5)
    assert pace.seconds_left([], 1) == pytest.approx(2 * 0.5 + 3 * 0.5)  # the only known ratio
    pace.ended(slow[0], 60.0)
    assert pace.seconds_left([], 1) == pytest.approx(2 * 0.5 + 2 * 60)
    pace.ended(slow[1], 60.0)
    pace.ended(quick[1], 1.5)
    assert pace.seconds_left([], 1) == pytest.approx(1.0 + 60)
    assert pace.seconds_left([(slow[2], 20.0)], 2) == pytest.approx(40)  # no slot can make one run shorter
    pace.ended(slow[2], 60.0)
    pace.ended(quick[2], 1.0)
    assert pace.seconds_left([], 1) == 0


def test_finished_runs_on_the_same_instance_come_first(job, chain, tmp_path):
    other = tmp_path / "other.json"
    other.write_bytes(chain.path.read_bytes() + b" ")
    elsewhere = [Job(j.solver, type(chain)("other", other), j.seed, j.limits) for j in (job("good"), job("good", 1))]
    jobs = [job("good"), job("good", 1), *elsewhere]
    pace = Eta(jobs)
    pace.ended(jobs[0], 6.0)
    assert pace.seconds_left([], 1) == pytest.approx(6 + 2 * 6)
    pace.ended(elsewhere[0], 30.0)
    assert pace.seconds_left([], 1) == pytest.approx(6 + 30)


def test_a_run_that_is_late_may_take_as_long_again_up_to_its_limit(job):
    jobs = [job("good", seed) for seed in range(2)]
    pace = Eta(jobs)
    pace.ended(jobs[0], 1.0)
    assert [pace.seconds_left([(jobs[1], since)], 1) for since in (0.25, 4.0, 50.0, 70.0)] == [0.75, 4.0, 10.0, 0.0]
