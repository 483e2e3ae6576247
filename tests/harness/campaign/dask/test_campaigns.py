"""Campaigns on Dask over processes: a scheduler and workers on the loopback interface, killed and stopped at will."""

from __future__ import annotations

import json
import signal
import time

import psutil
import pytest
from clusters import Cluster, campaign_of, runs_under, table
from marked import ended, until

from shardmark.cli.arguments import main
from shardmark.harness.campaign.cpus import Claims, usable_cpus

needs_two = pytest.mark.skipif(len(usable_cpus()) < 2, reason="two workers need two CPUs")


@pytest.fixture(scope="module")
def scheduler(tmp_path_factory):
    """A cluster for all tests."""
    cluster = Cluster(tmp_path_factory.mktemp("cluster"))
    yield cluster
    cluster.end()


@pytest.fixture
def cluster(scheduler):
    """The cluster, whose workers end with the test."""
    begun = len(scheduler.started)
    yield scheduler
    for process in scheduler.started[begun:]:
        process.terminate()
        ended(process)


@pytest.mark.gate
@needs_two
def test_a_campaign_that_loses_a_worker_stores_each_run_once(cluster, chain, tmp_path):
    names = [word for name in ("naps", "fails", "limit") for word in ("--solver", name)]
    matrix = ["--instance", str(chain.path), *names, "--seeds", "2", "--timeout", "11"]
    one, two = cluster.workers("one", "two")
    campaign = cluster.campaign(tmp_path / "dask", *matrix)
    lost = until(lambda: runs_under(one))
    one.kill()
    assert ended(one)[0] == -signal.SIGKILL
    assert psutil.wait_procs(lost, timeout=30)[1] == []
    status, _, errors = ended(campaign)
    assert status == 3, errors
    assert "has gone" in errors
    assert table(tmp_path / "dask", "SELECT solver, seed, status, cost FROM runs ORDER BY solver, seed") == [
        ("fails", 0, "error", "10.0"),
        ("fails", 1, "error", "10.0"),
        ("limit", 0, "ok", None),
        ("naps", 0, "ok", "8.0"),
        ("naps", 1, "ok", "6.0"),
    ]
    assert {host for (host,) in table(tmp_path / "dask", "SELECT host FROM runs")} <= {"one", "two"}
    assert table(tmp_path / "dask", "SELECT executor, jobs, ended IS NULL FROM campaigns") == [("dask", 2, 0)]
    hosts = table(tmp_path / "dask", "SELECT name, facts, disturbances IS NULL FROM hosts ORDER BY name")
    assert [(name, silent) for name, _, silent in hosts] == [("", 1), ("one", 1), ("two", 0)]
    assert all(json.loads(facts)["cpu"] for _, facts, _ in hosts)
    assert two.poll() is None


@pytest.mark.gate
@needs_two
def test_ctrl_c_ends_a_campaign_whose_worker_has_stopped_and_keeps_finished_runs(cluster, chain, tmp_path):
    options = ["--instance", str(chain.path), "--solver", "quick", "--solver", "sleeps", "--timeout", "14"]
    one, two = cluster.workers("one", "two")
    campaign = cluster.campaign(tmp_path, *options, "--seeds", "2")
    until(lambda: runs_under(one) and runs_under(two) and len(table(tmp_path)) == 2)
    runs = runs_under(two)
    one.send_signal(signal.SIGSTOP)
    begin = time.monotonic()
    campaign.send_signal(signal.SIGINT)
    status, _, errors = ended(campaign)
    one.send_signal(signal.SIGCONT)
    assert status == 130
    assert time.monotonic() - begin < 30.0
    assert f"worker one-{one.pid} (tcp://127.0.0.1:" in errors
    assert errors.count("has not answered since") == 1
    assert psutil.wait_procs(runs, timeout=30)[1] == []
    assert [row[0] for row in table(tmp_path)] == ["quick", "quick"]


def test_options_that_do_not_go_together_are_one_sentence(chain, tmp_path, capsys):
    there = ["--scheduler", "tcp://127.0.0.1:1"]

    def refused(*arguments):
        assert main(arguments) == 2
        error = capsys.readouterr().err
        assert error.count("\n") == 1, error
        return error

    campaign = campaign_of(tmp_path / "r", "--instance", chain.path, "--solver", "quick", *there)
    refused(*campaign, "--executor", "dask", "--limits", "posix")
    refused(*campaign, "--executor", "local")
    with Claims(there[1]) as others:
        others.take(usable_cpus(), 1)
        error = refused("worker", *there, "--cores", str(len(usable_cpus())))
    assert "CPUs that no other worker of this scheduler uses" in error
