"""Campaigns on Dask whose workers or scheduler stop, go or come late: each ends or goes on, and records each run once.

Minutes, as Dask gives up a silent worker after its time to live, of which the scheduler's default is five minutes.
"""

from __future__ import annotations

import re
import signal
import time
from contextlib import contextmanager

import psutil
import pytest
from clusters import Cluster, runs_under, table
from marked import ended, until

from shardmark.harness.campaign.cpus import usable_cpus

pytestmark = pytest.mark.skipif(len(usable_cpus()) < 2, reason="two workers need two CPUs")
TTL = {"DASK_DISTRIBUTED__SCHEDULER__WORKER_TTL": "8s"}
RUNS = 6  # of a campaign


@contextmanager
def a_cluster(folder, **options):
    cluster = Cluster(folder, **(TTL | options))
    try:
        yield cluster
    finally:
        for process in cluster.started:
            process.send_signal(signal.SIGCONT)
        cluster.end()


def begun(cluster, chain, results, *workers):
    """Start a campaign of naps; wait until each of these workers has a run and two runs have ended."""
    options = ["--instance", str(chain.path), "--solver", "naps", "--seeds", str(RUNS), "--timeout", "60"]
    campaign = cluster.campaign(results, *options)
    until(lambda: all(map(runs_under, workers)) and len(table(results)) >= 2)
    return campaign


def completed(campaign, results):
    """Wait for a campaign that ends by itself; check that each run was recorded once. Return what it said."""
    status, _, errors = ended(campaign, 150)
    assert status == 0, errors
    assert [row[2] for row in table(results)] == list(range(RUNS))
    assert len(re.findall(r"^\[\d+/", errors, re.MULTILINE)) == RUNS, errors
    return errors


@pytest.mark.parametrize("signals", [(signal.SIGINT,), (signal.SIGINT, signal.SIGINT), (signal.SIGTERM,)])
@pytest.mark.parametrize("stopped", ["worker", "scheduler", "both"])
def test_a_campaign_ends_within_seconds_on_a_signal(chain, tmp_path, signals, stopped):
    with a_cluster(tmp_path) as cluster:
        one, two = cluster.workers("one", "two")
        campaign = begun(cluster, chain, tmp_path / "r", one, two)
        for process in {"worker": [one], "scheduler": [cluster.scheduler], "both": [one, cluster.scheduler]}[stopped]:
            process.send_signal(signal.SIGSTOP)
        begin = time.monotonic()
        for number in signals:
            time.sleep(1.0)
            campaign.send_signal(number)
        status, _, errors = ended(campaign)
        assert status == 128 + signals[0]
        assert time.monotonic() - begin < 40.0
        name = f"worker one-{one.pid}" if stopped == "worker" else "the scheduler tcp://"
        assert re.findall("^(.*) has not answered since", errors, re.MULTILINE)[0].startswith(name), errors


@pytest.mark.parametrize("wakes", [False, True])
def test_runs_of_a_stopped_worker_go_to_another_and_it_joins_again(chain, tmp_path, wakes):
    with a_cluster(tmp_path) as cluster:
        one, _ = cluster.workers("one", "two")
        campaign = begun(cluster, chain, tmp_path / "r", one)
        one.send_signal(signal.SIGSTOP)
        until(lambda: f"worker one-{one.pid} (" in (line := campaign.stderr.readline()) and "has gone" in line)
        if wakes:
            one.send_signal(signal.SIGCONT)
            assert "was removed by the scheduler" in one.stderr.readline()
        assert ended(campaign, 60)[0] == 0
        assert [row[2] for row in table(tmp_path / "r")] == list(range(RUNS))
        one.send_signal(signal.SIGCONT)
        one.terminate()
        assert ended(one)[0] == 0


@pytest.mark.parametrize("later_s", [0.0, 3.0])
def test_a_worker_that_was_removed_ends_on_sigterm(tmp_path, later_s):
    with a_cluster(tmp_path) as cluster:
        (one,) = cluster.workers("one")
        one.send_signal(signal.SIGSTOP)
        time.sleep(20.0)  # the scheduler looks at times to live once per time to live
        one.send_signal(signal.SIGCONT)
        time.sleep(later_s)
        one.terminate()
        status, _, errors = ended(one, 30)
        assert status == 0
        assert "lost the scheduler" not in errors
        assert ("was removed by the scheduler" in errors) == bool(later_s)


def test_a_worker_that_is_resumed_in_time_goes_on(chain, tmp_path):
    with a_cluster(tmp_path) as cluster:
        (one,) = cluster.workers("one")
        campaign = begun(cluster, chain, tmp_path / "r", one)
        one.send_signal(signal.SIGSTOP)
        time.sleep(4.0)
        one.send_signal(signal.SIGCONT)
        assert "has gone" not in completed(campaign, tmp_path / "r")


def test_a_scheduler_that_is_resumed_goes_on(chain, tmp_path):
    with a_cluster(tmp_path) as cluster:
        (one,) = cluster.workers("one")
        campaign = begun(cluster, chain, tmp_path / "r", one)
        cluster.scheduler.send_signal(signal.SIGSTOP)
        time.sleep(12.0)
        cluster.scheduler.send_signal(signal.SIGCONT)
        errors = completed(campaign, tmp_path / "r")
        assert "the scheduler tcp://" in errors
        assert "answers again" in errors


def test_a_late_worker_takes_over_from_one_that_was_killed(chain, tmp_path):
    with a_cluster(tmp_path) as cluster:
        (one,) = cluster.workers("one")
        campaign = begun(cluster, chain, tmp_path / "r", one)
        one.kill()
        until(lambda: "no worker is left" in campaign.stderr.readline())
        cluster.workers("two")
        status, _, errors = ended(campaign, 60)
        assert status == 0, errors
        assert [row[2] for row in table(tmp_path / "r")] == list(range(RUNS))


def test_two_campaigns_share_workers_and_the_end_of_one_leaves_the_other(chain, tmp_path):
    with a_cluster(tmp_path) as cluster:
        one, two = cluster.workers("one", "two")
        first = begun(cluster, chain, tmp_path / "a", one, two)
        second = begun(cluster, chain, tmp_path / "b", one, two)
        second.send_signal(signal.SIGINT)
        status, _, errors = ended(second, 20)
        assert (status, "not answered" in errors) == (130, False)
        completed(first, tmp_path / "a")


def test_the_end_of_the_scheduler_ends_workers_and_campaign(chain, tmp_path):
    with a_cluster(tmp_path) as cluster:
        (one,) = cluster.workers("one")
        campaign = begun(cluster, chain, tmp_path / "r", one)
        runs = runs_under(one)
        cluster.scheduler.kill()
        status, _, errors = ended(campaign, 30)
        assert (status, "it is gone; the same command resumes" in errors) == (2, True)
        assert ended(one, 40)[0] == 0
        assert psutil.wait_procs(runs, timeout=30)[1] == []
