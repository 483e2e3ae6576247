"""Executor on several machines: Dask sends each job to a worker, its outcome is verified here."""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

from distributed import Client, KilledWorker
from distributed import Future as Task

from harness.campaign.dask_worker import (
    CONNECT_S,
    CORES,
    RemoteOrder,
    RemoteReply,
    carry_out,
    check_address,
    code_version,
    disturbances_since,
    receive_file,
    register_campaign,
    silence_dask,
    wait_until_idle,
)
from harness.campaign.jobs import Job, judge, not_importable, utc_now
from harness.campaign.local_executor import CoRunners
from harness.results.records import Record
from harness.sandbox.contract import Cancelled, Outcome
from instances import InputError
from instances.files.jsonfile import read_bytes, sha256
from solvers.registry import FOLDER, source_hash

CHECK_S = 1.0  # seconds between two updates of the list of workers
PIECE = 16 << 20  # bytes of a file that are sent at once
JUDGES = 2  # threads that verify outcomes


class DaskExecutor:
    """Carries out jobs on workers, one at a time on each; see `harness.campaign.queue.Executor`.

    ``cores`` is the largest number of cores of a job; smaller workers take no part. At most ``parallel`` workers are
    used, None for all. ``say`` prints a sentence when a worker comes or goes. InputError if there is no scheduler, or
    no worker that is large enough.
    """

    name = "dask"

    def __init__(self, scheduler: str, cores: int, parallel: int | None, say: Callable[[str], None]) -> None:
        silence_dask()
        self.scheduler, self.cores, self.parallel, self.say = scheduler, cores, parallel, say
        self.topic = f"shardmark-{uuid4().hex}"
        self.numbers = itertools.count()
        self.co_runners = CoRunners()
        self.workers: dict[str, dict[str, Any]] = {}  # by address, as `register_campaign` returns them
        self.checking = threading.Lock()
        self.foreign: set[str] = set()  # addresses of Dask workers that are not ours
        self.facts: dict[str, Mapping[str, Any]] = {}
        self.refused: dict[tuple[str, str], str] = {}  # reasons by solver hash and worker address
        self.tasks: set[Task] = set()
        self.ending = threading.Event()
        self.client = connect(scheduler)
        self.judges = ThreadPoolExecutor(JUDGES, "judge")
        self.watcher = threading.Thread(target=self._watch_workers, name="workers", daemon=True)
        try:
            self.client.subscribe_topic(self.topic, lambda event: self.co_runners.begin(**event[1]))
            self._check_workers()
            self._expect_workers()
        except BaseException:
            self.close()
            raise
        self.watcher.start()

    @property
    def capacity(self) -> int:
        fit = sum(worker["cores"] >= self.cores for worker in list(self.workers.values()))
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
        return dict(self.facts)

    def disturbances(self, killed: Mapping[str, int]) -> Mapping[str, Sequence[str]]:
        """Return the disturbances of each machine that still has a worker."""
        self._check_workers()
        found: dict[str, dict[str, None]] = {}
        answers = self._call(disturbances_since, self.topic, dict(killed), workers=list(self.workers))
        for address, sentences in answers.items():
            if isinstance(sentences, list):
                found.setdefault(self.workers[address]["host"], {}).update(dict.fromkeys(sentences))
        return {name: list(sentences) for name, sentences in found.items()}

    def close(self) -> None:
        """Cancel all runs, wait until the workers have killed them, and leave the scheduler."""
        self.ending.set()
        if self.watcher.is_alive():
            self.watcher.join(CONNECT_S)
        if self.client.status == "running":
            with suppress(OSError, TimeoutError, CancelledError):
                self.client.cancel(list(self.tasks), force=True)
            self._call(wait_until_idle, workers=list(self.workers))
        self.judges.shutdown(cancel_futures=True)
        self.client.close(timeout=CONNECT_S)

    # ------------------------------------------------------------ workers

    def _expect_workers(self) -> None:
        if not self.workers:
            expected = f"expected at least one worker, start some with `shardmark worker --scheduler {self.scheduler}`"
            raise InputError("scheduler", self.scheduler, expected)
        if not self.capacity:
            most = max(worker["cores"] for worker in self.workers.values())
            raise InputError("--cores", str(self.cores), f"expected at most {most}, no worker has more")

    def _watch_workers(self) -> None:
        stranded = False
        while not self.ending.wait(CHECK_S):
            self._check_workers()
            if stranded != (self.capacity == 0) and not self.ending.is_set():
                stranded = not stranded
                self.say("no worker is left, waiting for one to come" if stranded else "there is a worker again")

    def _check_workers(self) -> None:
        """Update the list of workers; do nothing if the scheduler has gone."""
        with self.checking:
            try:
                there = set(self.client.nthreads())
            except (OSError, TimeoutError, CancelledError, RuntimeError):
                return
            for address in self.workers.keys() - there:
                self.say(f"worker {self._name(address)} has gone")
                del self.workers[address]
            self._add_workers(sorted(there - self.workers.keys() - self.foreign))

    def _add_workers(self, addresses: Sequence[str]) -> None:
        """Add the workers that are ours."""
        for address, answer in self._call(register_campaign, self.topic, workers=addresses).items():
            if isinstance(answer, dict):
                self.facts[answer["host"]] = answer.pop("facts")
                self.workers[address] = answer
                self.say(f"worker {self._name(address)}: {answer['description']}")
            else:
                self.foreign.add(address)

    def _call(self, function: Callable[..., Any], *values: Any, workers: Sequence[str]) -> dict[str, Any]:
        """Call a function on workers; return the result or error of each that answers, by address."""
        if not workers:
            return {}
        with suppress(OSError, TimeoutError, CancelledError):
            return dict(
                self.client.run(function, *values, workers=list(workers), on_error="return", asynchronous=False)
            )
        return {}

    # ------------------------------------------------------------ jobs

    def _send(self, job: Job, result: Future[Record], preferred: str = "") -> None:
        refused = {address for version, address in self.refused if version == job.solver.hash}
        fit = [address for address in list(self.workers) if address not in refused]
        given = [preferred] if preferred else fit if refused else None
        task = self.client.submit(
            carry_out,
            self._remote_order(job),
            key=f"{self.topic}-{next(self.numbers)}",
            resources={CORES: job.limits.cores},
            workers=given or None,
            allow_other_workers=bool(given),
        )
        self.tasks.add(task)
        task.add_done_callback(lambda task: self._task_ended(job, result, task))

    def _remote_order(self, job: Job) -> RemoteOrder:
        order, place = job.order(), Path(job.solver.file)
        if place.is_relative_to(FOLDER):
            order = replace(order, file=str(place.relative_to(FOLDER)))
        named = filter(os.path.isfile, filter(os.path.isabs, order.command))
        programs = {word: sha256(read_bytes(word)) for word in named}
        return RemoteOrder(order, code_version(), job.solver.hash, programs, self.topic)

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
        self.tasks.discard(task)
        try:
            reply: RemoteReply = task.result()
        except CancelledError:
            if self.ending.is_set():
                raise Cancelled from None
            expected = "expected the scheduler to keep running, it has gone; the same command resumes"
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
        if all((job.solver.hash, address) in self.refused for address in list(self.workers)):
            expected = f"expected a worker that can carry out {job.solver.name} ({refused})"
            raise InputError("scheduler", self.scheduler, expected)

    def _send_files(self, job: Job, reply: RemoteReply) -> str:
        """Send a worker its missing files; return why it could not store them, "" if it could or has gone."""
        place = Path(job.solver.file)
        if reply.missing.startswith("instances/"):
            files = {reply.missing: job.problem.path}
        elif source_hash(place) != job.solver.hash:
            raise InputError(place, "", "expected the content that was first read, but the file has changed")
        else:
            files = {f"{Path(reply.missing).parent}/{file.name}": file for file in {place, *place.parent.glob("*.py")}}
        for name, path in files.items():
            for first, piece, last in pieces(path):
                answer = self._call(receive_file, name, self.topic, piece, first, last, workers=[reply.worker])
                if error := answer.get(reply.worker):
                    return f"worker {self._name(reply.worker)}: could not store {path.name} ({error})"
        return ""

    def _name(self, address: str) -> str:
        return f"{self.workers.get(address, {}).get('name', '')} ({address})".strip()


def connect(scheduler: str) -> Client:
    """Return a client of the scheduler; InputError if it cannot be reached."""
    check_address(scheduler)
    try:
        return Client(scheduler, timeout=CONNECT_S, set_as_default=False, name="shardmark")
    except (OSError, TimeoutError, ValueError, TypeError) as error:
        expected = f"expected a Dask scheduler that answers within {CONNECT_S:g} s ({error})"
        raise InputError("scheduler", scheduler, expected) from None


def pieces(path: Path) -> Iterator[tuple[bool, bytes, bool]]:
    """Yield a file in pieces as (is the first, bytes, is the last)."""
    with path.open("rb") as stream:
        first, after = True, stream.read(PIECE)
        while first or after:
            piece, after = after, stream.read(PIECE)
            yield first, piece, not after
            first = False
