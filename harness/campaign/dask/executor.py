"""Executor on several machines: Dask sends each job to a worker, its outcome is verified here."""

from __future__ import annotations

import asyncio
import itertools
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

from distributed import Client, KilledWorker
from distributed import Future as Task

from shardmark.harness.campaign.dask.files import pieces
from shardmark.harness.campaign.dask.pool import GONE, WorkerPool
from shardmark.harness.campaign.dask.scheduler import ANSWER_S, CONNECT_S, check_scheduler, reaching, silence_dask
from shardmark.harness.campaign.dask.worker import (
    RemoteOrder,
    RemoteReply,
    carry_out,
    cores_resource,
    disturbances_since,
    receive_file,
    wait_until_idle,
)
from shardmark.harness.campaign.jobs import Job, judge, not_importable, utc_now
from shardmark.harness.campaign.local_executor import CoRunners
from shardmark.harness.results.records import Record
from shardmark.harness.sandbox.contract import Cancelled, Outcome
from shardmark.instances import InputError
from shardmark.instances.files.jsonfile import read_bytes, sha256
from shardmark.solvers.registry import FOLDER, source_hash

CHECK_S = 1.0  # seconds between two updates of the list of workers
JUDGES = 2  # threads that verify outcomes


class DaskExecutor:
    """Carries out jobs on workers, one at a time on each; see `shardmark.harness.campaign.queue.Executor`.

    ``cores`` is the largest number of cores of a job; smaller workers take no part. At most ``parallel`` workers are
    used, None for all. ``say`` prints a sentence when a worker comes, goes, or stops answering. InputError if there is
    no scheduler, or no worker that is large enough.
    """

    name = "dask"

    def __init__(self, scheduler: str, cores: int, parallel: int | None, say: Callable[[str], None]) -> None:
        silence_dask()
        self.scheduler, self.cores, self.parallel, self.say = scheduler, cores, parallel, say
        self.topic = f"shardmark-{uuid4().hex}"
        self.numbers = itertools.count()
        self.co_runners = CoRunners()
        self.refused: dict[tuple[str, str], str] = {}  # reasons by solver hash and worker address
        self.replies: dict[Task, Future[RemoteReply]] = {}  # of the runs that are under way
        self.ending = threading.Event()
        self.client = connect(scheduler)
        self.pool = WorkerPool(self.client, scheduler, self.topic, say)
        self.judges = ThreadPoolExecutor(JUDGES, "judge")
        self.watcher = threading.Thread(target=self._watch_workers, name="workers", daemon=True)
        try:
            self.client.subscribe_topic(self.topic, lambda event: self.co_runners.begin(**event[1]))
            self.pool.check()
            self._expect_workers()
        except BaseException:
            self.close()
            raise
        self.watcher.start()

    @property
    def capacity(self) -> int:
        fit = sum(cores >= self.cores for cores in self.pool.cores)
        return fit if self.parallel is None else min(fit, self.parallel)

    def submit(self, job: Job) -> Future[Record]:
        result: Future[Record] = Future()
        outcome, started = not_importable(job), utc_now("milliseconds")
        if outcome is None:
            self._send(job, result)
        else:
            self.judges.submit(self._settle, result, lambda: judge(job, job.problem.instance, started, outcome))
        return result

    def hosts(self) -> Mapping[str, Mapping[str, Any]]:
        return dict(self.pool.facts)

    def disturbances(self, killed: Mapping[str, int]) -> Mapping[str, Sequence[str]]:
        """Return the disturbances of each machine that still has a worker."""
        found: dict[str, dict[str, None]] = {}
        members = dict(self.pool.members)
        answers = self.pool.call(disturbances_since, self.topic, dict(killed), workers=members)
        for address, sentences in answers.items():
            if isinstance(sentences, list):
                found.setdefault(members[address].host, {}).update(dict.fromkeys(sentences))
        return {name: list(sentences) for name, sentences in found.items()}

    def close(self) -> None:
        """Cancel all runs, wait until the workers that answer have killed them, and leave the scheduler."""
        self.ending.set()
        if self.watcher.is_alive():
            self.watcher.join()
        if self.client.status == "running":
            with suppress(*GONE):
                self.client.cancel(list(self.replies), force=True)
            self.pool.call(wait_until_idle, self.topic, workers=list(self.pool.members))
        for reply in list(self.replies.values()):  # of a worker that has stopped after its run
            reply.cancel()
        self.judges.shutdown(cancel_futures=True)
        with suppress(TimeoutError):
            self.client.close(timeout=ANSWER_S)

    # ------------------------------------------------------------ workers

    def _expect_workers(self) -> None:
        if not self.pool.cores:
            expected = f"expected at least one worker: start some with `shardmark worker --scheduler {self.scheduler}`"
            raise InputError("scheduler", self.scheduler, expected)
        if not self.capacity:
            raise InputError("--cores", str(self.cores), f"expected at most {max(self.pool.cores)}: no worker has more")

    def _watch_workers(self) -> None:
        stranded = False
        while not self.ending.wait(CHECK_S):
            self.pool.check()
            if stranded != (self.capacity == 0) and not self.ending.is_set():
                stranded = not stranded
                self.say("no worker is left; waiting for a new one" if stranded else "a worker has joined")

    # ------------------------------------------------------------ jobs

    def _send(self, job: Job, result: Future[Record], preferred: str = "") -> None:
        unfit = self.pool.silent | {address for version, address in list(self.refused) if version == job.solver.hash}
        fit = [address for address in list(self.pool.members) if address not in unfit]
        given = [preferred] if preferred in fit else fit if unfit else None
        task = self.client.submit(
            carry_out,
            self._remote_order(job),
            key=f"{self.topic}-{next(self.numbers)}",
            resources={cores_resource(): job.limits.cores},
            workers=given or None,
            allow_other_workers=bool(given),
        )
        self.replies[task] = reply = asyncio.run_coroutine_threadsafe(_reply(task), self.client.loop.asyncio_loop)
        reply.add_done_callback(lambda _: self._task_ended(job, result, task))

    def _remote_order(self, job: Job) -> RemoteOrder:
        order, place = job.order(), Path(job.solver.file)
        if place.is_relative_to(FOLDER):
            order = replace(order, file=str(place.relative_to(FOLDER)))
        named = filter(os.path.isfile, filter(os.path.isabs, order.command))
        programs = {word: sha256(read_bytes(word)) for word in named}
        return RemoteOrder(order, job.solver.hash, programs, self.topic)

    def _task_ended(self, job: Job, result: Future[Record], task: Task) -> None:
        with suppress(RuntimeError):  # the executor was closed
            self.judges.submit(self._settle, result, lambda: self._judged(job, result, task))

    @staticmethod
    def _settle(result: Future[Record], judging: Callable[[], Record | None]) -> None:
        try:
            row = judging()
        except BaseException as error:
            result.set_exception(error)
        else:
            if row is not None:
                result.set_result(row)

    def _judged(self, job: Job, result: Future[Record], task: Task) -> Record | None:
        """Return the record of a task that has ended; None if it was sent again."""
        co_runners = self.co_runners.end(str(task.key))
        try:
            reply = self.replies.pop(task).result()
        except CancelledError:
            if self.ending.is_set():
                raise Cancelled from None
            expected = "expected the scheduler to keep running, but it is gone; the same command resumes"
            raise InputError("scheduler", self.scheduler, expected) from None
        except Exception as error:
            reason = f"its worker failed: {type(error).__name__}: {error}"
            if isinstance(error, KilledWorker):
                reason = f"took down {error.allowed_failures + 1} workers, the last was {error.last_worker.name}"
            reply = RemoteReply("", Outcome("lost", reason), utc_now("milliseconds"))
        if not reply.missing and not reply.refused:
            return judge(job, job.problem.instance, reply.started, reply.outcome, co_runners)
        refused = reply.refused or self._send_files(job, reply)
        if refused:
            self._note_refusal(job, reply.worker, refused)
        self._send(job, result, preferred="" if refused else reply.worker)
        return None

    def _note_refusal(self, job: Job, worker: str, refused: str) -> None:
        """Record a worker's refusal; InputError if all workers have refused the solver."""
        if refused not in self.refused.values():
            self.say(refused)
        self.refused[job.solver.hash, worker] = refused
        members = list(self.pool.members)  # none if the last one has gone: another may come
        if members and all((job.solver.hash, address) in self.refused for address in members):
            expected = f"expected a worker that can carry out {job.solver.name} ({refused})"
            raise InputError("scheduler", self.scheduler, expected)

    def _send_files(self, job: Job, reply: RemoteReply) -> str:
        """Send a worker its missing files; return why it could not store them, "" if it could or does not answer."""
        place = Path(job.solver.file)
        if reply.missing.startswith("instances/"):
            files = {reply.missing: job.problem.path}
        elif source_hash(place) != job.solver.hash:
            raise InputError(place, "", "expected the content that was first read, but the file has changed")
        else:
            files = {f"{Path(reply.missing).parent}/{file.name}": file for file in {place, *place.parent.glob("*.py")}}
        sender = f"{self.topic}-{next(self.numbers)}"  # for another run, the same file may be sent at the same time
        for name, path in files.items():
            for first, piece, last in pieces(path):
                answer = self.pool.call(receive_file, name, sender, piece, first, last, workers=[reply.worker])
                if reply.worker not in answer:
                    return ""
                if error := answer[reply.worker]:
                    return f"{self.pool.name(reply.worker)}: could not store {path.name} ({error})"
        return ""


def connect(scheduler: str) -> Client:
    """Return a client of the scheduler; InputError if it cannot be reached."""
    asyncio.run(check_scheduler(scheduler, "client"))
    with reaching(scheduler):
        return Client(scheduler, timeout=CONNECT_S, set_as_default=False, name="shardmark")


async def _reply(task: Task) -> RemoteReply:
    """Wait for the end of a task and fetch its result, while no thread waits."""
    reply: RemoteReply = await task
    return reply
