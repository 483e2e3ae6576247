"""The queue resumes, survives everything and stops cleanly."""

from __future__ import annotations

import dataclasses
import fcntl
import os
import re
import signal
import subprocess
import sys
import threading
import time
from contextlib import closing

import psutil
import pytest
from referee import ZOO

from shardmark.cli.matrix import missing
from shardmark.cli.terminal import Progress
from shardmark.harness.campaign.cpus import core_sets, usable_cpus
from shardmark.harness.campaign.jobs import Job, judge
from shardmark.harness.campaign.local_executor import CoRunners, LocalExecutor
from shardmark.harness.campaign.queue import blamed, campaign
from shardmark.harness.results.database import LOCK_NAME, Store, exclusive
from shardmark.harness.sandbox.contract import Limits, Outcome
from shardmark.harness.sandbox.outside import UNSENT, out_of_memory, stalled
from shardmark.harness.sandbox.supervisor import Supervisor
from shardmark.instances import InputError

pytestmark = pytest.mark.gate(cases=1)


@pytest.fixture
def store(tmp_path):
    store = Store.open(tmp_path / "results", create=True)
    store.add_campaign("now", ["test"], "0", {})
    yield store
    store.close()


def jobs_of(zoo, chain, *names, seeds=1, timeout=60.0):
    return [Job(zoo[name], chain, seed, Limits(timeout, 1024.0)) for name in names for seed in range(seeds)]


class ProgressLog:
    """Records the progress of a campaign."""

    def __init__(self, then=lambda: None):
        self.seen = []
        self.then = then

    def __call__(self, progress, job, row):
        self.seen.append(progress)
        self.then()


@pytest.mark.gate
def test_bad_solvers_are_rows_and_the_campaign_goes_on(store, zoo, chain):
    jobs = jobs_of(zoo, chain, "raises", "leaves", "broken-import", "nonsense", "good")
    log = ProgressLog()
    assert not campaign(store, 1, jobs, LocalExecutor(2, 1), log)
    assert [store.finished()[job.id] for job in jobs] == ["error", "crash", "import", "infeasible", "ok"]
    assert [progress.done for progress in log.seen] == [1, 2, 3, 4, 5]
    assert all(progress.total == 5 and progress.capacity == 2 for progress in log.seen)
    assert [progress.running for progress in log.seen] == [2, 2, 2, 1, 0]
    assert all(progress.left_s > 0 for progress in log.seen[:-1])
    assert log.seen[-1].left_s == 0
    assert len(store.rows("instances")[1]) == 1
    assert len(store.rows("solvers")[1]) == 5


def test_a_run_killed_from_outside_is_a_warning_and_runs_again(store, zoo, chain, monkeypatch):
    killed = iter([Outcome("killed", out_of_memory(Limits(60.0, 100.0), 36.0)), Outcome("exit")])
    jobs, executor = jobs_of(zoo, chain, "raises", "good"), LocalExecutor(1, 1)
    monkeypatch.setattr(Supervisor, "run", lambda *_: next(killed))
    assert not campaign(store, 1, jobs, executor, None)
    assert ("", "Runs that were killed from outside, and are not scored: 1.") in store.disturbances(1)
    assert missing(jobs, store.finished(), retry=False) == jobs[:1]
    assert missing(jobs, {jobs[0].id: "crash"}, retry=False) == jobs[1:]
    assert missing(jobs, {jobs[0].id: "crash", jobs[1].id: "ok"}, retry=True) == jobs[:1]


@pytest.mark.parametrize(
    ("second", "status"),
    [(Outcome("killed", f"killed by SIGKILL, {UNSENT}"), "crash"), (Outcome("timeout", "ran for 20 s"), "timeout")],
)
def test_a_run_that_only_its_signal_says_was_killed_is_repeated_once(store, zoo, chain, monkeypatch, second, status):
    """Otherwise a solver that sends itself a signal wherever it does badly would be scored on its other runs only."""
    outcomes = [Outcome("killed", f"killed by SIGKILL, {UNSENT}"), second]
    job, executor, log = jobs_of(zoo, chain, "good"), LocalExecutor(1, 1), ProgressLog()
    monkeypatch.setattr(Supervisor, "run", lambda *_: outcomes.pop(0))
    assert not campaign(store, 1, job, executor, log)
    assert (store.finished()[job[0].id], outcomes) == (status, [])
    assert [progress.done for progress in log.seen] == [0, 1]
    assert not [words for _, words in store.disturbances(1) if "killed from outside" in words]


@pytest.mark.parametrize(
    ("stop", "reason"),
    [
        ("killed", out_of_memory(Limits(60.0, 100.0), 36.0)),  # the system's word, which no solver can give itself
        ("killed", stalled(2.0, Limits(60.0, 100.0))),
        ("memory", Limits(60.0, 100.0).memory_reason(200.0)),
    ],
)
def test_a_repeated_run_with_evidence_of_its_end_keeps_its_status(stop, reason, zoo, chain):
    job = jobs_of(zoo, chain, "good")[0]
    row = judge(job, chain.instance, "now", Outcome(stop=stop, reason=reason))
    assert row.status == stop
    assert blamed(row) == row


def test_the_id_of_a_run_is_its_definition(zoo, chain, tmp_path):
    job = Job(zoo["good"], chain, 0, Limits(1.0, 64.0))
    moved = tmp_path / "moved.json"
    moved.write_bytes(chain.path.read_bytes())
    assert dataclasses.replace(job, problem=dataclasses.replace(chain, id="other", path=moved)).id == job.id
    others = [
        {"seed": 1},
        {"limits": Limits(2.0, 64.0)},
        {"problem": dataclasses.replace(chain, options={"stages": 3})},
        *(
            {"solver": dataclasses.replace(job.solver, **changes)}
            for changes in ({"hash": "changed"}, {"params": {"x": 1}})
        ),
    ]
    assert len({job.id, *(dataclasses.replace(job, **other).id for other in others)}) == 6


def test_parallel_runs_have_cores_of_their_own():
    usable = len(os.sched_getaffinity(0))
    cpus = [cpu for (cpu,) in core_sets(usable, 1)]
    assert sorted(cpus) == sorted(os.sched_getaffinity(0))
    expected = rf"expected a product of at most {usable}, the usable cores, found 1 \* {usable + 1}"
    with pytest.raises(InputError, match=expected):
        core_sets(1, usable + 1)


@pytest.mark.gate
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_a_campaign_kills_its_runs_and_keeps_finished_ones(store, zoo, chain, number):
    jobs = jobs_of(zoo, chain, "good", "hangs", timeout=60.0)
    before = signal.getsignal(number)
    me = psutil.Process()
    others = me.children(recursive=True)  # supervisors that tests share

    def interrupt():
        for _ in range(3):  # repeated signals leave nothing behind either
            os.kill(me.pid, number)

    began = time.monotonic()
    log = ProgressLog(lambda: threading.Timer(0.5, interrupt).start())
    assert campaign(store, 1, jobs, LocalExecutor(1, 1), log) == number
    assert time.monotonic() - began < 30
    assert store.finished() == {jobs[0].id: "ok"}
    assert signal.getsignal(number) is before
    assert me.children(recursive=True) == others
    ((ended,),) = store.connection.execute("SELECT ended FROM campaigns")
    assert ended is not None


def test_an_ignored_signal_stays_ignored(store, zoo, chain):
    jobs = jobs_of(zoo, chain, "good", "silent")
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup does
    try:
        assert not campaign(
            store, 1, jobs, LocalExecutor(1, 1), ProgressLog(lambda: os.kill(os.getpid(), signal.SIGHUP))
        )
    finally:
        signal.signal(signal.SIGHUP, before)
    assert len(store.finished()) == 2


def test_co_runners_are_the_most_simultaneous_runs_on_the_same_machine():
    co_runners = CoRunners()
    for run, host in (("a", ""), ("b", ""), ("elsewhere", "other"), ("c", "")):
        co_runners.begin(run, host)
    assert co_runners.end("b") == 2
    co_runners.begin("d")
    assert co_runners.end("c") == 2
    assert co_runners.end("elsewhere") == 0
    co_runners.begin("d", "other")  # lost, and begun again
    assert (co_runners.end("a"), co_runners.end("d")) == (2, 0)
    assert co_runners.end("never begun") == 0


@pytest.mark.gate
@pytest.mark.skipif(len(usable_cpus()) < 2, reason="two slots need two CPUs")
def test_co_runners_are_recorded(store, zoo, chain):
    jobs = jobs_of(zoo, chain, "hangs", seeds=2, timeout=1.5)
    assert not campaign(store, 1, jobs, LocalExecutor(2, 1), None)
    assert not campaign(store, 1, jobs_of(zoo, chain, "good"), LocalExecutor(1, 1), None)
    rows = store.connection.execute("SELECT solver, co_runners, host FROM runs ORDER BY solver DESC").fetchall()
    assert rows == [("hangs", 1, ""), ("hangs", 1, ""), ("good", 0, "")]


def test_a_slot_stays_off_the_cores_of_other_slots():
    before, usable = os.sched_getaffinity(0), usable_cpus()
    with closing(LocalExecutor(1, 1)) as executor:
        assert executor.pool.submit(os.sched_getaffinity, 0).result() == set(usable)
    with closing(LocalExecutor(len(usable), 1)) as executor:
        pinned = executor.pool.submit(os.sched_getaffinity, 0).result()
        assert len(pinned) == 1
    assert os.sched_getaffinity(0) == before


def test_progress_counts_jobs_and_time(store, zoo, chain, capsys):
    jobs = jobs_of(zoo, chain, "good", "raises")
    assert not campaign(store, 1, jobs, LocalExecutor(1, 1), Progress(3, 1))
    first, second, third = capsys.readouterr().err.splitlines()
    assert first == "1 of 3 runs are done already"
    assert re.fullmatch(
        r"\[1/2\] pipeline chain good: cost 6 \(\d\.\d s; 1 running, \d+ s elapsed, about \d+ s left\)", second
    )
    assert re.fullmatch(r"\[2/2\] pipeline chain raises: error, cost 10: .* \(\d\.\d s; done after \d+ s\)", third)


@pytest.mark.gate
def test_the_command_line_resumes(tmp_path, chain):
    zoo_file = str(ZOO / "zoo.py")
    command = [sys.executable, "-m", "shardmark", "run", "--instance", str(chain.path), "--solver-path", zoo_file]
    command += ["--solver", "good", "--solver", "bounds", "--seeds", "2", "--timeout", "10", "--limits", "posix"]
    command += ["--results", str(tmp_path / "r")]
    first = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "[3/3]" in first.stderr  # two seeds of the solver, one of the bound
    again = subprocess.run([*command, "--json"], capture_output=True, text=True, check=True)
    assert '"started": 0' in again.stdout
    assert "3 of 3 runs are done already" in again.stderr


def test_a_run_that_cannot_be_judged_or_stored_is_a_row(store, zoo, chain):
    jobs = jobs_of(zoo, chain, "huge-bound", "stray-bytes", "good")
    assert not campaign(store, 1, jobs, LocalExecutor(1, 1), None)
    assert [store.finished()[job.id] for job in jobs] == ["error", "error", "ok"]


@pytest.mark.gate
def test_one_campaign_at_a_time_in_a_folder(tmp_path):
    with exclusive(tmp_path), pytest.raises(InputError, match="expected no other `shardmark run`"), exclusive(tmp_path):
        pass
    with exclusive(tmp_path):
        pass


def test_a_lock_that_is_released_soon_is_waited_for(tmp_path):
    with (tmp_path / LOCK_NAME).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        threading.Timer(0.2, fcntl.flock, (lock, fcntl.LOCK_UN)).start()
        with exclusive(tmp_path):
            pass


@pytest.mark.gate
def test_a_run_and_its_supervisor_die_with_their_referee(chain, tmp_path):
    zoo_file = str(ZOO / "zoo.py")
    command = [sys.executable, "-m", "shardmark", "solve", str(chain.path), "--solver-path", zoo_file]
    with subprocess.Popen([*command, "--solver", "hangs", "--timeout", "300"], stdout=subprocess.DEVNULL) as referee:
        while len(family := descendants(referee.pid)) < 2:  # the supervisor and the run
            time.sleep(0.05)
        referee.kill()
    _, alive = psutil.wait_procs(family, timeout=20)
    assert alive == []


def descendants(pid: int) -> list[psutil.Process]:
    try:
        return psutil.Process(pid).children(recursive=True)
    except psutil.Error:
        return []
