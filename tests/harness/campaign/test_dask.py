"""Campaigns on workers of Dask: a scheduler and workers of our own on the loopback interface, killed at will."""

from __future__ import annotations

import dataclasses
import itertools
import json
import os
import signal
import socket
import sqlite3
import subprocess
import time
import uuid
from concurrent.futures import Future
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest
from marked import Marked, ended, until

from harness.campaign import dask_executor, dask_worker
from harness.campaign.cpus import Claims, usable_cpus
from harness.campaign.dask_executor import DaskExecutor
from harness.campaign.dask_worker import FileCache, MissingFile, Refused, RemoteOrder, ShardmarkPlugin, code_version
from harness.campaign.discover import declared_in
from harness.campaign.jobs import Job
from harness.campaign.problems import Problem
from harness.campaign.settings import with_settings
from harness.sandbox.contract import Limits
from instances import InputError
from shardmark.cli.arguments import main
from solvers.registry import source_hash

pytestmark = pytest.mark.gate(cases=1)

SOLVERS = Path(__file__).parent / "campaign_solvers.py"
TABLE = "SELECT solver, instance, seed, status, cost, lower_bound FROM runs ORDER BY solver, seed"


class Cluster(Marked):
    """A scheduler and workers."""

    def __init__(self, folder: Path) -> None:
        # a task that takes down two workers is abandoned
        super().__init__(folder, DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES="1")
        file = folder / "scheduler.json"
        options = ["--host", "127.0.0.1", "--port", "0", "--scheduler-file", str(file)]
        options += ["--no-dashboard", "--dashboard-address", "127.0.0.1:0"]
        self.scheduler = self.start("-m", "distributed.cli.dask_scheduler", *options)
        self.address = until(lambda: file.exists() and file.read_text() and json.loads(file.read_text())["address"])

    def worker(self, name, *options):
        command = ["worker", "--scheduler", self.address, "--name", name, "--limits", "posix", *options]
        process = self.start("-m", "harness", *command, stderr=subprocess.PIPE)
        line = process.stderr.readline()
        assert "carries out runs" in line, line + process.stderr.read()
        return process

    def campaign(self, results, *options):
        command = campaign_of(results, *options, "--executor", "dask", "--scheduler", self.address)
        return self.start("-m", "harness", *command, stderr=subprocess.PIPE, stdout=subprocess.PIPE)

    def end(self):
        """End the scheduler: the workers end by themselves."""
        self.scheduler.terminate()
        super().end()


def campaign_of(results, *options):
    """Return the arguments of a campaign of `SOLVERS`."""
    return ["run", "--solver-path", str(SOLVERS), "--results", str(results), *map(str, options)]


def runs_under(process):
    """Return the processes of the run under way at a worker; none while its supervisor has at most a fork server."""
    try:
        supervisors = psutil.Process(process.pid).children()
        started = [run for supervisor in supervisors for run in supervisor.children(recursive=True)]
        return started if len(started) > 1 else []
    except psutil.NoSuchProcess:
        return []


def table(results, query=TABLE):
    with closing(sqlite3.connect(results / "results.sqlite")) as database:
        return database.execute(query).fetchall()


@pytest.fixture(scope="module")
def scheduler(tmp_path_factory):
    """A cluster for all tests but the one that ends its scheduler."""
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


@pytest.fixture
def mortal(tmp_path):
    """A cluster of a test that ends its scheduler."""
    cluster = Cluster(tmp_path)
    yield cluster
    cluster.end()


@pytest.fixture(scope="module")
def matrix(chain):
    """Return the options of a campaign."""
    names = [word for name in ("quick", "naps", "fails", "limit") for word in ("--solver", name)]
    return ["--instance", str(chain.path), *names, "--seeds", "3", "--timeout", "20"]


@pytest.fixture(scope="module")
def local_table(matrix, tmp_path_factory):
    """Return the rows of the same campaign on this machine alone."""
    results = tmp_path_factory.mktemp("local")
    assert main([*campaign_of(results, *matrix), "--limits", "posix", "--quiet"]) == 3  # some of its runs fail
    return table(results)


@pytest.mark.gate
@pytest.mark.skipif(len(usable_cpus()) < 2, reason="two workers need two CPUs")
@pytest.mark.parametrize("number", [signal.SIGKILL, pytest.param(signal.SIGTERM, marks=pytest.mark.gate)])
def test_a_campaign_that_loses_a_worker_stores_the_same_rows_as_a_local_one(
    cluster, matrix, local_table, tmp_path, number
):
    one, two = cluster.worker("one"), cluster.worker("two")
    campaign = cluster.campaign(tmp_path / "dask", *matrix)
    lost = until(lambda: runs_under(one))
    one.send_signal(number)
    assert ended(one)[0] == (-number if number == signal.SIGKILL else 0)
    assert psutil.wait_procs(lost, timeout=30)[1] == []
    status, _, errors = ended(campaign)
    assert status == 3, errors
    assert "has gone" in errors
    assert len(local_table) == 10
    assert table(tmp_path / "dask") == local_table
    assert {host for (host,) in table(tmp_path / "dask", "SELECT host FROM runs")} <= {"one", "two"}
    assert table(tmp_path / "dask", "SELECT executor, jobs, ended IS NULL FROM campaigns") == [("dask", 2, 0)]
    hosts = table(tmp_path / "dask", "SELECT name, facts, disturbances IS NULL FROM hosts ORDER BY name")
    assert [(name, silent) for name, _, silent in hosts] == [("", 1), ("one", 1), ("two", 0)]
    assert all(json.loads(facts)["cpu"] for _, facts, _ in hosts)
    assert two.poll() is None


@pytest.mark.gate
def test_a_run_that_takes_down_two_workers_is_lost_and_the_campaign_goes_on(cluster, chain, tmp_path):
    options = ["--instance", str(chain.path), "--solver", "fells", "--solver", "quick", "--timeout", "20"]
    worker = cluster.worker("only", "--isolation", "none")
    campaign = cluster.campaign(tmp_path / "r", *options, "--jobs", "1")
    assert ended(worker)[0] == -signal.SIGKILL
    assert any("no worker is left, waiting for one to come" in line for line in campaign.stderr)
    assert ended(cluster.worker("only", "--isolation", "none"))[0] == -signal.SIGKILL
    cluster.worker("only", "--isolation", "none")
    status, _, errors = ended(campaign)
    assert status == 3, errors
    rows = table(tmp_path / "r", "SELECT solver, status, stop, reason FROM runs ORDER BY solver")
    assert [row[:3] for row in rows] == [("fells", "lost", "lost"), ("quick", "ok", "exit")]
    assert rows[0][3].startswith("took down 2 workers, the last was only-")


@pytest.mark.gate
def test_ctrl_c_kills_remote_runs_and_keeps_finished_ones(cluster, chain, tmp_path):
    options = ["--instance", str(chain.path), "--solver", "quick", "--solver", "sleeps", "--timeout", "300"]
    worker = cluster.worker("only")
    # A campaign that was killed cannot cancel anything itself.
    for finish, number, status in (("interrupt", signal.SIGINT, 130), ("kill", signal.SIGKILL, -signal.SIGKILL)):
        campaign = cluster.campaign(tmp_path / finish, *options)
        until(lambda: "[1/2]" in campaign.stderr.readline())  # noqa: B023
        runs = until(lambda: runs_under(worker))
        campaign.send_signal(number)
        assert ended(campaign)[0] == status
        until(lambda: not any(map(psutil.Process.is_running, runs)))  # noqa: B023
    assert table(tmp_path / "interrupt", "SELECT solver, status FROM runs") == [("quick", "ok")]
    assert worker.poll() is None


@pytest.mark.gate
def test_the_end_of_the_scheduler_ends_workers_and_campaign(mortal, chain, tmp_path):
    options = ["--instance", str(chain.path), "--solver", "quick", "--solver", "sleeps", "--timeout", "300"]
    worker = mortal.worker("only")
    campaign = mortal.campaign(tmp_path / "r", *options)
    until(lambda: "[1/2]" in campaign.stderr.readline())
    runs = until(lambda: runs_under(worker))
    mortal.scheduler.kill()
    status, _, errors = ended(campaign)
    assert (status, errors.count("\n")) == (2, 1)
    assert "expected the scheduler to keep running, it has gone; the same command resumes" in errors
    assert table(tmp_path / "r", "SELECT solver, status FROM runs") == [("quick", "ok")]
    assert ended(worker)[0] == 0
    assert psutil.wait_procs(runs, timeout=30)[1] == []


@pytest.mark.gate
def test_a_worker_waiting_for_its_scheduler_ends_on_sigterm(tmp_path):
    patience = dask_worker.CONNECT_S
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.settimeout(60)
        address = f"tcp://127.0.0.1:{silent.getsockname()[1]}"
        command = ["-m", "harness", "worker", "--scheduler", address, "--limits", "posix"]
        marked = Marked(tmp_path)
        worker = marked.start(*command, stderr=subprocess.PIPE)
        connection, _ = silent.accept()
        begin = time.monotonic()
        worker.terminate()
        status, _, errors = ended(worker)
        connection.close()
    marked.end()
    assert (status, errors) == (0, "") or time.monotonic() - begin > patience


@pytest.mark.gate
def test_a_campaign_that_cannot_begin_is_refused_in_one_sentence(cluster, chain, tmp_path, capsys):
    there = ["--scheduler", cluster.address]

    def refused(*arguments, lines=1):
        """Return the standard error of a command that ends at once."""
        assert main(arguments) == 2
        error = capsys.readouterr().err
        assert error.count("\n") == lines, error
        return error

    campaign = campaign_of(tmp_path / "r", "--instance", chain.path, "--solver", "quick", *there)
    refused(*campaign, "--executor", "dask", "--limits", "posix")
    refused(*campaign, "--executor", "local")
    campaign += ["--executor", "dask"]
    assert "expected at least one worker, start some with `shardmark worker --scheduler" in refused(*campaign)
    cluster.worker("small")
    error = refused(*campaign, "--cores", "64", lines=2)  # the first line names the worker
    assert "expected at most 1, no worker has more" in error
    error = refused("worker", *there, "--cores", str(len(usable_cpus())))
    assert "CPUs that no other worker of this scheduler has" in error


def test_a_scheduler_that_cannot_be_reached_is_one_sentence(monkeypatch):
    monkeypatch.setattr(dask_executor, "CONNECT_S", 0.3)
    with pytest.raises(InputError, match="expected a Dask scheduler that answers within"):
        DaskExecutor("tcp://127.0.0.1:1", 1, None, print)


@pytest.mark.parametrize(
    "address",
    [
        *("nonsense", "", "127.0.0.1", "tcp://127.0.0.1"),
        *("http://127.0.0.1:18999", "ftp://x:1", "tcp://:1", "tcp://x:99999"),
    ],
)
def test_an_invalid_address_is_one_sentence_and_leaves_no_folder(chain, tmp_path, capsys, address):
    results = tmp_path / "results"
    command = ["run", "--instance", str(chain.path), "--solver", "simple", "--results", str(results)]
    assert main([*command, "--executor", "dask", "--scheduler", address]) == 2
    error = capsys.readouterr().err
    assert f"scheduler: {address!r}: expected an address like tcp://HOST:8786" in error
    assert error.count("\n") == 1
    assert not results.exists()


@pytest.mark.gate
def test_a_worker_is_sent_an_instance_that_only_the_campaign_can_read(cluster, chain):
    worker = cluster.worker("only", "--cpus", str(usable_cpus()[-1]))
    hidden = os.memfd_create("hidden")  # a file without a name
    os.write(hidden, chain.path.read_bytes())
    problem = Problem("hidden", Path(f"/proc/self/fd/{hidden}"), "pipeline")
    quick, cuts = (next(i for i in declared_in(SOLVERS) if i.name == name) for name in ("quick", "cuts"))
    messages = []
    with closing(DaskExecutor(cluster.address, 1, None, messages.append)) as executor:
        rows = [executor.submit(Job(quick, problem, seed, Limits(20.0, 512.0))).result(30) for seed in (0, 1)]
        assert [(row.status, row.host) for row in rows] == [("ok", "only")] * 2
        row = executor.submit(Job(with_settings(cuts, {"at": "3"}), problem, 0, Limits(20.0, 512.0))).result(30)
        assert (row.solver, sum(row.solution)) == ("cuts[at=3]", problem.instance.nodes - 3)
        changed = dataclasses.replace(quick, hash="0" * 64)
        with pytest.raises(InputError, match="expected the content that was first read, but the file has changed"):
            executor.submit(Job(changed, problem, 0, Limits(20.0, 512.0))).result(30)
        stale = dataclasses.replace(quick, file=str(Path(dask_worker.FOLDER, "pipeline", "brkga.py")))
        with pytest.raises(InputError, match=r"worker only-\d+ .*: expected the version of pipeline/brkga.py"):
            executor.submit(Job(stale, problem, 0, Limits(20.0, 512.0))).result(30)
    os.close(hidden)
    assert [words.split(": ")[1] for words in messages[:1]] == [f"CPUs {usable_cpus()[-1]}; limits"]
    assert len(messages) == 2  # the worker, and its refusal
    worker.send_signal(signal.SIGINT)
    assert ended(worker)[0] == 0
    assert list(cluster.scratch.rglob("library")) == []


# ---------------------------------------------------------------- without a cluster


@pytest.fixture
def plugin(tmp_path):
    plugin = ShardmarkPlugin("here", [0], SimpleNamespace(), "none")
    plugin.setup(SimpleNamespace(local_directory=str(tmp_path / "local"), name="w", address="a"))
    return plugin


def remote_order(job, **changes):
    return dataclasses.replace(RemoteOrder(job.order(), code_version(), job.solver.hash, {}, "topic"), **changes)


def test_a_worker_asks_for_a_solver_s_files_and_refuses_other_versions(plugin, chain, tmp_path):
    there = tmp_path / "there"
    there.mkdir()
    (there / "mine.py").write_bytes(SOLVERS.read_bytes())
    (there / "helper.py").write_text("X = 1\n")
    mine = {"file": str(there / "mine.py"), "hash": source_hash(there / "mine.py")}
    info = dataclasses.replace(declared_in(SOLVERS)[0], **mine)
    sent = remote_order(Job(info, chain, 0, Limits(1.0, 64.0)))
    assert plugin._prepared(sent).file == str(there / "mine.py")
    moved = dataclasses.replace(sent, order=dataclasses.replace(sent.order, file="/nowhere/mine.py"))
    with pytest.raises(MissingFile) as missing:
        plugin._prepared(moved)
    for name in ("mine.py", "helper.py"):
        for first, piece, last in dask_executor.pieces(there / name):
            plugin.files.add(f"{Path(str(missing.value)).parent}/{name}", "me", piece, first, last)
    found = Path(plugin._prepared(moved).file)
    assert source_hash(found) == info.hash
    found.with_name("helper.py").write_text("X = 2\n")  # as a solver could
    with pytest.raises(MissingFile):
        plugin._prepared(moved)


def test_a_worker_refuses_other_code_and_other_programs(plugin, chain, tmp_path):
    sent = remote_order(Job(declared_in(SOLVERS)[0], chain, 0, Limits(1.0, 64.0)))
    with pytest.raises(Refused, match="expected the same version of Shardmark"):
        plugin._prepared(dataclasses.replace(sent, code="other"))
    program = tmp_path / "program"
    program.write_text("one")
    with pytest.raises(Refused, match=f"expected a file {program} with the content"):
        plugin._prepared(dataclasses.replace(sent, programs={str(program): "0" * 64}))


def test_a_job_goes_to_workers_that_have_not_refused_its_solver():
    sent = []

    def submit(*_, workers, **options):
        sent.append(workers)
        return Future()

    executor = SimpleNamespace(
        client=SimpleNamespace(submit=submit),
        refused={("old", "tcp://a"): "it has another version"},
        workers={"tcp://a": {}, "tcp://b": {}},
        topic="campaign",
        numbers=itertools.count(),
        tasks=set(),
        _remote_order=lambda job: None,
    )
    for version in ("old", "new"):
        job = SimpleNamespace(solver=SimpleNamespace(hash=version), limits=Limits(1.0, 1.0))
        DaskExecutor._send(executor, job, None)
    assert sent == [["tcp://b"], None]  # None: any worker


def test_files_are_sent_in_pieces_and_noticed_when_they_change(tmp_path, monkeypatch):
    monkeypatch.setattr(dask_executor, "PIECE", 4)
    original = tmp_path / "original"
    library = FileCache(tmp_path / "library")
    for content in (b"", b"abc", b"abcd", b"abcdefghi"):
        original.write_bytes(content)
        sent = list(dask_executor.pieces(original))
        assert [first for first, _, _ in sent] == [True] + [False] * (len(sent) - 1)
        assert [last for _, _, last in sent] == [False] * (len(sent) - 1) + [True]
        for first, piece, last in sent:
            assert library.find("a/b") is None or not first
            library.add("a/b", "me", piece, first, last)
        found = library.find("a/b")
        assert found.read_bytes() == content
        found.write_bytes(b"changed")
        assert library.find("a/b") is None


def test_a_cpu_is_claimed_once():
    purpose = uuid.uuid4().hex
    with Claims(purpose) as mine, Claims(purpose) as theirs, Claims(uuid.uuid4().hex) as elsewhere:
        assert mine.take([3, 5, 7], 2) == [3, 5]
        assert theirs.take([3, 5, 7], 2) == [7]
        assert elsewhere.take([3, 5, 7], 2) == [3, 5]
    with Claims(purpose) as theirs:
        assert theirs.take([3, 5, 7], 3) == [3, 5, 7]
