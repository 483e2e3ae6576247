"""Workers that stop answering, go, come back, or have other versions; a scheduler that stops or goes."""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import CancelledError
from types import SimpleNamespace

import pytest
from distributed import Worker
from marked import until

from shardmark.harness.campaign.dask import pool, serving
from shardmark.harness.campaign.dask.pool import WorkerPool
from shardmark.instances import InputError


async def never(*_, **__):
    await asyncio.sleep(60)


def test_runs_of_a_worker_that_was_removed_go_to_another_and_are_recorded_once(grid, job):
    one, two = grid.worker("one"), grid.worker("two")
    executor = grid.executor()
    rows = [executor.submit(job(seed)) for seed in range(2)]
    until(lambda: grid.runs[one].orders and grid.runs[two].orders)
    grid.runs[one].hangs = True  # as a worker that was stopped: it ends its run once it goes on
    grid.remove(one)
    grid.heard("worker one-")
    grid.heard("has gone")
    grid.runs[two].released.set()
    found = [row.result(20) for row in rows]
    assert [(row.seed, row.host) for row in found] == [(0, "two"), (1, "two")]
    grid.runs[one].released.set()
    grid.runs[one].hangs = False
    assert executor.submit(job(2)).result(20).host == "two"
    assert len(grid.runs[two].orders) == 3


def test_a_run_that_takes_down_two_workers_is_lost_and_the_campaign_goes_on(grid, job):
    one = grid.worker("one")
    executor = grid.executor()
    row = executor.submit(job())
    until(lambda: grid.runs[one].orders)
    grid.remove(one)
    grid.heard("no worker is left; waiting for a new one")
    two = grid.worker("two")
    grid.heard("a worker has joined")
    until(lambda: grid.runs[two].orders)
    grid.remove(two)
    found = row.result(20)
    assert (found.status, found.stop) == ("lost", "lost")
    assert found.reason.startswith("took down 2 workers, the last was two-")
    three = grid.worker("three")
    grid.runs[three].released.set()
    assert executor.submit(job(1)).result(20).host == "three"


@pytest.mark.parametrize("stuck", ["run", "result"])
def test_a_campaign_ends_within_seconds_and_names_the_worker_that_does_not_answer(grid, job, monkeypatch, stuck):
    one, two = grid.worker("one"), grid.worker("two")
    executor = grid.executor()
    for seed in range(2):
        executor.submit(job(seed))
    until(lambda: grid.runs[one].orders and grid.runs[two].orders)
    if stuck == "run":
        grid.runs[one].hangs = True
    else:
        one.handlers["get_data"] = one.handlers["run"] = never
        grid.runs[one].released.set()
        until(lambda: executor.client.futures and any(found.done() for found in executor.replies))
    monkeypatch.setattr(pool, "ANSWER_S", 1.0)
    begin = time.monotonic()
    executor.disturbances({})
    executor.close()
    assert time.monotonic() - begin < 8 * pool.ANSWER_S
    assert [words for words in grid.messages if "has not answered since" in words] == [
        words
        for words in grid.messages
        if words.startswith(f"worker {one.name} ({one.address}) has not answered since")
    ]
    assert any("has not answered since" in words for words in grid.messages)
    assert grid.runs[two].cancelled == 1


def checked(answers, messages):
    """Check a pool whose scheduler gives these answers, one a check, and whose workers answer every call."""

    def sync(function, *values, **_):
        if function is not None:
            return {address: {"host": "h", "facts": {}, "description": "CPUs 0"} for address in values[2]}
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return {"workers": answer}

    client = SimpleNamespace(sync=sync, scheduler=SimpleNamespace(identity=None))
    workers = WorkerPool(client, "tcp://s:1", "topic", messages.append)
    while answers:
        workers.check()
    return workers


def test_a_worker_without_a_sign_of_life_is_named_until_it_answers_again():
    def facts(seen):
        return {"tcp://w:1": {"name": "w", "last_seen": seen, "resources": {pool.cores_resource(): 2}}}

    messages = []
    silence = [facts(7.0)] * (pool.CHECKS + 1)
    assert checked([facts(5.0), facts(6.0), *silence], messages).silent == set()
    assert checked([*silence, facts(7.0)], messages).silent == {"tcp://w:1"}
    assert checked([*silence, facts(7.0)], messages).cores == [2]  # its run may yet end
    assert checked([*silence, facts(7.0), facts(8.0)], messages).silent == set()
    seven = time.strftime("%H:%M:%S", time.localtime(7.0))
    assert messages[-3:] == [
        "worker w (tcp://w:1): CPUs 0",
        f"worker w (tcp://w:1) has not answered since {seven}",
        "worker w (tcp://w:1) answers again",
    ]
    assert checked([*silence, facts(7.0), {}], messages).silent == set()
    assert messages[-1] == "worker w (tcp://w:1) has gone"


def test_a_scheduler_that_does_not_answer_is_named_until_it_does():
    messages = []
    checked([TimeoutError(), TimeoutError(), {}, OSError(), CancelledError()], messages)
    assert [words.partition(" since")[0] for words in messages] == [
        "the scheduler tcp://s:1 has not answered",
        "the scheduler tcp://s:1 answers again",
    ]


@pytest.mark.parametrize("culprit", ["scheduler", "worker"])
def test_workers_are_not_blamed_for_a_scheduler_that_does_not_answer(culprit):
    def sync(function, *_, **__):
        if function is not None:
            return {"tcp://w:1": TimeoutError()}
        if culprit == "scheduler":
            raise TimeoutError
        return {"workers": {}}

    messages = []
    client = SimpleNamespace(sync=sync, scheduler=SimpleNamespace(identity=None))
    workers = WorkerPool(client, "tcp://s:1", "topic", messages.append)
    assert workers.call(never, workers=["tcp://w:1"]) == {}
    assert [words.partition(" has")[0] for words in messages] == [
        "the scheduler tcp://s:1" if culprit == "scheduler" else "worker tcp://w:1"
    ]


def test_a_campaign_that_is_closed_waits_for_no_run_of_another_campaign(grid, job):
    one = grid.worker("one")
    first, second = grid.executor(), grid.executor()
    row = first.submit(job())
    until(lambda: grid.runs[one].orders)
    second.close()
    assert not any("answer" in words for words in grid.messages)
    grid.runs[one].released.set()
    assert row.result(20).host == "one"


def test_a_campaign_whose_process_was_killed_loses_its_runs_on_the_workers(grid, job):
    one = grid.worker("one")
    executor = grid.executor()
    executor.submit(job())
    until(lambda: grid.runs[one].orders)
    executor.client.close()  # as the scheduler notices it
    until(lambda: grid.runs[one].cancelled)


def test_a_worker_that_comes_later_takes_part(grid, job):
    one = grid.worker("one")
    executor = grid.executor()
    rows = [executor.submit(job())]
    two = grid.worker("two")
    until(lambda: executor.capacity == 2)
    rows.append(executor.submit(job(1)))
    until(lambda: grid.runs[one].orders and grid.runs[two].orders)
    grid.runs[one].released.set()
    grid.runs[two].released.set()
    assert {row.result(20).host for row in rows} == {"one", "two"}


def test_workers_of_other_versions_and_of_other_users_take_no_part(grid, monkeypatch):
    async def plain():
        return await Worker(grid.address, nthreads=1, resources={"GPU": 1}, dashboard=False)

    grid.workers.append(grid.sync(plain))
    monkeypatch.setattr(serving, "cores_resource", lambda: "shardmark-cores-of-yesterday")
    other = grid.worker("other")
    with pytest.raises(InputError, match="expected at least one worker: start some with `shardmark worker --scheduler"):
        grid.executor()
    assert grid.messages == [
        f"worker {other.name} ({other.address}) takes no part: it has another version of Shardmark"
    ]
    monkeypatch.undo()
    grid.worker("ours")
    assert grid.executor().capacity == 1
    with pytest.raises(InputError, match="--cores: 64: expected at most 1: no worker has more"):
        grid.executor(cores=64)
