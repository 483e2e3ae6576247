"""The matrix: resumes, survives everything, stops cleanly."""

from __future__ import annotations

import dataclasses
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest

from harness.cpus import core_sets
from harness.executors import LocalExecutor
from harness.limits import Limits
from harness.run import Job, campaign
from harness.store import Store, exclusive
from instances import InputError


@pytest.fixture
def store(tmp_path):
    store = Store.open(tmp_path / "results", create=True)
    store.add_campaign("now", ["test"], "0", {})
    yield store
    store.close()


def jobs_of(zoo, chain, *names, seeds=1, timeout=10.0):
    return [Job(zoo[name], chain, seed, Limits(timeout, 1024.0)) for name in names for seed in range(seeds)]


class Told:
    """What a campaign tells of itself."""

    def __init__(self, then=lambda: None):
        self.standings = []
        self.then = then

    def __call__(self, standing, job, row):
        self.standings.append(standing)
        self.then()


def test_bad_solvers_are_rows_and_the_campaign_goes_on(store, zoo, chain):
    jobs = jobs_of(zoo, chain, "raises", "leaves", "broken-import", "nonsense", "good")
    told = Told()
    assert campaign(store, 1, jobs, LocalExecutor(2, 1), told)
    assert store.finished() == {
        job.id: status for job, status in zip(jobs, ("error", "crash", "import", "infeasible", "ok"), strict=True)
    }
    assert [standing.done for standing in told.standings] == [1, 2, 3, 4, 5]
    assert all(standing.total == 5 and standing.capacity == 2 for standing in told.standings)
    assert [standing.running for standing in told.standings] == [2, 2, 2, 1, 0]
    assert all(standing.left_s > 0 for standing in told.standings[:-1])
    assert told.standings[-1].left_s == 0
    assert len(store.rows("instances")[1]) == 1
    assert len(store.rows("solvers")[1]) == 5


def test_the_id_of_a_run_is_its_definition(zoo, chain, tmp_path):
    job = Job(zoo["good"], chain, 0, Limits(1.0, 64.0))
    moved = tmp_path / "moved.json"
    moved.write_bytes(chain.path.read_bytes())
    assert dataclasses.replace(job, problem=dataclasses.replace(chain, id="other", path=moved)).id == job.id
    others = [
        dataclasses.replace(job, seed=1),
        dataclasses.replace(job, limits=Limits(2.0, 64.0)),
        dataclasses.replace(job, problem=dataclasses.replace(chain, options={"stages": 3})),
        dataclasses.replace(job, solver=dataclasses.replace(job.solver, hash="changed")),
        dataclasses.replace(job, solver=dataclasses.replace(job.solver, params={"x": 1})),
    ]
    assert len({job.id, *(other.id for other in others)}) == 6


def test_parallel_runs_have_cores_of_their_own():
    usable = len(os.sched_getaffinity(0))
    cpus = [cpu for (cpu,) in core_sets(usable, 1)]
    assert sorted(cpus) == sorted(os.sched_getaffinity(0))
    with pytest.raises(
        InputError, match=f"expected at most {usable} cores in use at once, 1 runs of {usable + 1} are more"
    ):
        core_sets(1, usable + 1)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_a_campaign_whose_runs_are_killed_and_keeps_what_is_done(store, zoo, chain, number):
    jobs = jobs_of(zoo, chain, "good", "hangs", timeout=60.0)
    before = signal.getsignal(number)
    me = psutil.Process()

    def interrupt():
        for _ in range(3):  # whoever is impatient leaves nothing behind either
            os.kill(me.pid, number)

    began = time.monotonic()
    told = Told(lambda: threading.Timer(0.5, interrupt).start())
    assert not campaign(store, 1, jobs, LocalExecutor(1, 1), told)
    assert time.monotonic() - began < 30
    assert store.finished() == {jobs[0].id: "ok"}
    assert signal.getsignal(number) is before
    assert me.children(recursive=True) == []
    ((ended,),) = store.connection.execute("SELECT ended FROM campaigns")
    assert ended is not None


def test_the_command_line_resumes(tmp_path, chain):
    zoo_file = str(Path(__file__).parent / "zoo" / "zoo.py")
    command = [sys.executable, "-m", "harness", "run", "--instance", str(chain.path), "--solver-path", zoo_file]
    command += [
        "--solver",
        "good",
        "--solver",
        "bounds",
        "--seeds",
        "2",
        "--timeout",
        "10",
        "--results",
        str(tmp_path / "r"),
    ]
    first = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "[3/3]" in first.stderr  # two seeds of the solver, one of the bound
    again = subprocess.run([*command, "--json"], capture_output=True, text=True, check=True)
    assert '"started": 0' in again.stdout
    assert "3 of 3 runs are there already" in again.stderr


def test_what_the_referee_cannot_judge_or_store_is_a_row(store, zoo, chain):
    jobs = jobs_of(zoo, chain, "huge-bound", "stray-bytes", "good")
    assert campaign(store, 1, jobs, LocalExecutor(1, 1), None)
    assert [store.finished()[job.id] for job in jobs] == ["error", "error", "ok"]


def test_one_campaign_at_a_time_in_a_folder(tmp_path):
    with exclusive(tmp_path), pytest.raises(InputError, match="expected no other `shardmark run`"), exclusive(tmp_path):
        pass
    with exclusive(tmp_path):
        pass


def test_a_run_and_its_warden_die_with_their_referee(chain, tmp_path):
    zoo_file = str(Path(__file__).parent / "zoo" / "zoo.py")
    command = [sys.executable, "-m", "harness", "solve", str(chain.path), "--solver-path", zoo_file]
    with subprocess.Popen([*command, "--solver", "hangs", "--timeout", "300"], stdout=subprocess.DEVNULL) as referee:
        while len(family := descendants(referee.pid)) < 2:  # the warden and the run
            time.sleep(0.05)
        referee.kill()
    _, alive = psutil.wait_procs(family, timeout=20)
    assert alive == []


def descendants(pid: int) -> list[psutil.Process]:
    try:
        return psutil.Process(pid).children(recursive=True)
    except psutil.Error:
        return []
