"""Jobs sent to workers: the files they need, refusals, and the end of the scheduler."""

from __future__ import annotations

import dataclasses
import errno
import os
from pathlib import Path

import pytest
from marked import until

from shardmark.harness.campaign.dask import files
from shardmark.harness.campaign.dask.worker import RemoteReply
from shardmark.harness.campaign.problems import Problem
from shardmark.instances import InputError
from shardmark.instances.files.jsonfile import read_bytes
from shardmark.solvers.registry import FOLDER


def test_a_worker_is_sent_an_instance_and_a_solver_that_only_the_campaign_can_read(grid, job, chain):
    one = grid.worker("one")
    grid.runs[one].released.set()
    hidden = os.memfd_create("hidden")  # a file without a name
    os.write(hidden, read_bytes(chain.path))
    problem = Problem("hidden", Path(f"/proc/self/fd/{hidden}"), "pipeline")
    executor = grid.executor()
    for seed in (0, 1):
        assert executor.submit(dataclasses.replace(job(seed), problem=problem)).result(20).host == "one"
    os.close(hidden)
    assert {Path(order.instance).is_relative_to(one.local_directory) for order in grid.runs[one].orders} == {True}
    changed = dataclasses.replace(job(), solver=dataclasses.replace(job().solver, hash="0" * 64))
    with pytest.raises(InputError, match="expected the content that was first read, but the file has changed"):
        executor.submit(changed).result(20)


def test_a_file_that_two_runs_send_to_a_worker_at_the_same_time_arrives_whole(grid, job, chain, monkeypatch):
    content = read_bytes(chain.path)
    monkeypatch.setattr(files, "PIECE", -(-len(content) // 2))
    one, executor = grid.worker("one"), grid.executor()
    reply = RemoteReply(one.address, missing="instances/checksum/chain.json")
    call, sent = executor.pool.call, []

    def interrupted(*values, workers):
        answer = call(*values, workers=workers)
        sent.append(values)
        if len(sent) == 1:
            assert executor._send_files(job(), reply) == ""
        return answer

    executor.pool.call = interrupted
    assert executor._send_files(job(), reply) == ""
    assert len(sent) == 4
    assert one.plugins["shardmark"].files.find(reply.missing).read_bytes() == content


def test_a_run_goes_to_a_worker_that_does_not_refuse_its_solver(grid, job, monkeypatch):
    one, two = grid.worker("one"), grid.worker("two")
    stale = dataclasses.replace(job().solver, file=str(Path(FOLDER, "pipeline", "brkga.py")))
    executor = grid.executor()
    executor.refused[stale.hash, one.address] = "as an earlier run found"
    with pytest.raises(InputError, match=rf"worker {two.name} .*: expected the version of pipeline/brkga.py"):
        executor.submit(dataclasses.replace(job(), solver=stale)).result(20)
    assert [words for words in grid.messages if "expected" in words] == [executor.refused[stale.hash, two.address]]
    grid.runs[one].released.set()
    executor.refused[job().solver.hash, two.address] = "as an earlier run found"
    assert executor.submit(job()).result(20).host == "one"


def test_a_refusal_of_the_last_worker_that_has_gone_since_ends_no_campaign(grid, job):
    one, executor = grid.worker("one"), grid.executor()
    executor.ending.set()
    executor.watcher.join()
    executor.pool.members.clear()
    executor._note_refusal(job(), one.address, "expected another program")
    assert grid.messages[-1] == "expected another program"


def test_a_worker_whose_disk_is_full_is_named_and_its_run_goes_to_another(grid, job, tmp_path, chain):
    one, two = grid.worker("one"), grid.worker("two")
    for worker in (one, two):
        grid.runs[worker].released.set()

    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    one.plugins["shardmark"].files.add = full
    hidden = os.memfd_create("hidden")
    os.write(hidden, read_bytes(chain.path))
    problem = Problem("hidden", Path(f"/proc/self/fd/{hidden}"), "pipeline")
    executor = grid.executor()
    rows = [executor.submit(dataclasses.replace(job(seed), problem=problem)) for seed in range(4)]
    assert {row.result(20).host for row in rows} == {"two"}
    grid.heard(f"worker {one.name} ({one.address}): could not store")
    os.close(hidden)


def test_a_campaign_whose_scheduler_goes_is_told_so(mortal, job):
    one = mortal.worker("one")
    executor = mortal.executor()
    row = executor.submit(job())
    until(lambda: mortal.runs[one].orders)
    mortal.sync(mortal.scheduler.close)
    with pytest.raises(InputError, match="expected the scheduler to keep running, but it is gone; the same command"):
        row.result(20)
    until(lambda: mortal.runs[one].cancelled)
