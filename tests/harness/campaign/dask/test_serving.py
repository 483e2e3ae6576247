"""A worker that is told to leave, that its scheduler removes, or whose scheduler goes."""

from __future__ import annotations

import asyncio
import socket
import time

import pytest
from distributed import Scheduler

from shardmark.harness.campaign.dask import scheduler as addresses
from shardmark.harness.campaign.dask import serving
from shardmark.instances import InputError


class Served:
    """A worker of our own process, served until `end`."""

    def __init__(self, grid, address):
        self.messages = []
        self.plugin = grid.plugin("here")
        self.grid, self.address = grid, address

    async def begin(self):
        self.interrupted = asyncio.Event()
        ending = asyncio.create_task(self.interrupted.wait())
        self.task = asyncio.create_task(serving.stay(ending, self.address, self.plugin, self.messages.append))

    async def heard(self, words):
        async with asyncio.timeout(20):
            while not any(words in sentence for sentence in self.messages):
                await asyncio.sleep(0.01)


def test_a_worker_that_was_removed_joins_again_and_leaves_when_told(grid):
    served = Served(grid, grid.address)

    async def story():
        await served.begin()
        await served.heard("carries out runs for")
        first = served.plugin.worker
        await grid.scheduler.remove_worker(first.address, stimulus_id="test")
        await served.heard("was removed by the scheduler")
        assert served.plugin.worker is not first
        assert served.plugin.worker.address in grid.scheduler.workers
        served.interrupted.set()
        await asyncio.wait_for(served.task, 10)
        assert not grid.scheduler.workers

    grid.sync(story)
    assert len(served.messages) == 2


@pytest.mark.parametrize("later", [False, True])
def test_a_worker_that_is_told_to_leave_as_it_is_removed_ends(grid, later):
    served = Served(grid, grid.address)

    async def story():
        await served.begin()
        await served.heard("carries out runs for")
        worker = served.plugin.worker
        if later:  # it is told to close while it asks to retire
            served.interrupted.set()
            await asyncio.sleep(0)
            await grid.scheduler.remove_worker(worker.address, stimulus_id="test")
        else:
            await grid.scheduler.remove_worker(worker.address, stimulus_id="test")
            served.interrupted.set()
        await asyncio.wait_for(served.task, 10)
        assert worker.status.name == "closed"

    grid.sync(story)
    assert not any("gone" in words for words in served.messages)


def test_a_worker_says_so_if_its_scheduler_has_gone(grid, monkeypatch):
    monkeypatch.setattr(addresses, "CONNECT_S", 0.3)

    async def story():
        async with Scheduler(host="127.0.0.1", port=0, dashboard_address="127.0.0.1:0") as scheduler:
            served = Served(grid, scheduler.address)
            await served.begin()
            await served.heard("carries out runs for")
        await asyncio.wait_for(served.task, 10)
        return served.messages[1:]

    (words,) = grid.sync(story)
    assert words.startswith("lost the scheduler and cannot join it again: scheduler: tcp://127.0.0.1:")


@pytest.mark.parametrize("told", [True, False])
def test_a_worker_waiting_for_a_silent_scheduler_ends(grid, monkeypatch, told):
    monkeypatch.setattr(addresses, "CONNECT_S", 5.0 if told else 0.3)
    monkeypatch.setattr(addresses, "ANSWER_S", 0.3)

    async def story():
        served = Served(grid, f"tcp://127.0.0.1:{silent.getsockname()[1]}")
        await served.begin()
        await asyncio.sleep(0.1)
        if told:
            served.interrupted.set()
        await served.task

    with socket.create_server(("127.0.0.1", 0)) as silent:
        begin = time.monotonic()
        if told:
            grid.sync(story)
        else:
            with pytest.raises(InputError, match="expected a Dask scheduler that answers by tcp within"):
                grid.sync(story)
        assert time.monotonic() - begin < 2.0
