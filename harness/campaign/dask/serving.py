"""``shardmark worker``: the process that joins a scheduler as a Dask worker, again if it was removed, and leaves it."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import dask
from distributed import Worker
from distributed.comm import unparse_host_port

from shardmark.harness.campaign.dask.scheduler import ANSWER_S, CONNECT_S, check_scheduler, reaching, silence_dask
from shardmark.harness.campaign.dask.worker import ShardmarkPlugin, cores_resource
from shardmark.harness.campaign.queue import END_SIGNALS
from shardmark.instances import InputError

#: Settings that keep a Dask worker from other work during its task, which would take time from the run.
QUIET = {"distributed.worker.profile.enabled": False, "distributed.admin.tick.interval": "1s"}


def serve(scheduler: str, plugin: ShardmarkPlugin, say: Callable[[str], None]) -> None:
    """Serve until Ctrl-C, SIGTERM or SIGHUP, or until the scheduler ends; InputError if it cannot be reached."""
    silence_dask()
    os.sched_setaffinity(0, plugin.cpus)
    with dask.config.set(QUIET):
        asyncio.run(_serve(scheduler, plugin, say))


async def _serve(scheduler: str, plugin: ShardmarkPlugin, say: Callable[[str], None]) -> None:
    interrupted = asyncio.Event()
    for number in END_SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            asyncio.get_running_loop().add_signal_handler(number, interrupted.set)
    await stay(asyncio.create_task(interrupted.wait()), scheduler, plugin, say)


async def stay(ending: asyncio.Task[Any], scheduler: str, plugin: ShardmarkPlugin, say: Callable[[str], None]) -> None:
    """Serve until ``ending`` is done, or until the scheduler ends; InputError if it cannot be reached."""
    worker = await _unless(ending, join(scheduler, plugin))
    if worker is not None:
        say(f"{worker.name} carries out runs for {scheduler} on {plugin.description}")
    while worker is not None:
        await _unless(ending, worker.finished())
        if ending.done():
            await leave(worker)
            return
        try:
            worker = await _unless(ending, join(scheduler, plugin))
        except InputError as error:
            say(f"lost the scheduler and cannot join it again: {error}")
            return
        if worker is not None:
            say(f"was removed by the scheduler {scheduler}, and has joined it again as {worker.name}")


async def _unless(ending: asyncio.Task[Any], awaited: Awaitable[Any]) -> Any:
    """Return a result, None if ``ending`` comes first."""
    task = asyncio.ensure_future(awaited)
    await asyncio.wait((ending, task), return_when=asyncio.FIRST_COMPLETED)
    if task.done():
        return task.result()
    task.cancel()
    return None


async def join(scheduler: str, plugin: ShardmarkPlugin) -> Worker:
    """Return a worker that the scheduler knows; it listens only on the network interface towards the scheduler."""
    here = await check_scheduler(scheduler, "worker")
    with reaching(scheduler):
        return await Worker(
            scheduler,
            name=f"{plugin.host}-{os.getpid()}",
            nthreads=1,
            host=unparse_host_port(here),
            resources={cores_resource(): len(plugin.cpus)},
            plugins=(plugin,),
            memory_limit=0,
            death_timeout=CONNECT_S,
        )


async def leave(worker: Worker) -> None:
    """End a worker; its run is killed and started again on another worker."""
    retired = worker.scheduler.retire_workers(
        workers=[worker.address], close_workers=False, remove=True, stimulus_id=f"leave-{worker.name}"
    )
    with suppress(TimeoutError):  # if the scheduler is busy, it notices later
        # It fails if the scheduler has gone, and is cancelled if the scheduler removes the worker at the same time.
        await asyncio.wait_for(asyncio.gather(retired, return_exceptions=True), ANSWER_S)
    await worker.close(timeout=ANSWER_S)
