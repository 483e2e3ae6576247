"""The queue of a campaign: jobs go to an executor; each record is stored on arrival, so that a campaign can resume."""

from __future__ import annotations

import signal
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, replace
from queue import Empty, SimpleQueue
from typing import Any, Protocol

from shardmark.harness.campaign.eta import Eta
from shardmark.harness.campaign.jobs import Job, utc_now
from shardmark.harness.results.database import Store
from shardmark.harness.results.records import Record
from shardmark.harness.sandbox.contract import KILLED
from shardmark.harness.sandbox.outside import UNSENT

WAIT_S = 0.5  # seconds after which the queue checks whether the executor can take more jobs
END_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)  # signals that end a campaign or a worker


class Executor(Protocol):
    """Carries out the jobs of a campaign; all methods raise InputError if the user must act.

    ``hosts()`` returns facts of each other machine that took part, by its name. ``disturbances(killed)`` returns
    sentences on disturbances per machine; ``killed`` counts the runs on each that the system may have killed for lack
    of memory.
    ``close()`` ends all runs, whose futures raise Cancelled.
    """

    name: str  # as stored in the database

    @property
    def capacity(self) -> int:
        """Number of jobs that may be under way now."""

    def submit(self, job: Job) -> Future[Record]:
        """Begin to carry out and judge a job."""

    def hosts(self) -> Mapping[str, Mapping[str, Any]]: ...

    def disturbances(self, killed: Mapping[str, int]) -> Mapping[str, Sequence[str]]: ...

    def close(self) -> None: ...


@dataclass(frozen=True)
class CampaignProgress:
    """Progress of a campaign: jobs done, in all, under way and possible at once; seconds since its start and left."""

    done: int
    total: int
    running: int
    capacity: int
    elapsed_s: float
    left_s: float


Ended = SimpleQueue[Future[Record] | int]  # jobs that end, and signals that end the campaign
ProgressCallback = Callable[[CampaignProgress, Job, Record], None]  # called for each job that has ended and is stored


def campaign(
    store: Store, number: int, jobs: Sequence[Job], executor: Executor, progress: ProgressCallback | None
) -> int:
    """Carry out jobs, store each as it ends, and close the executor; return 0, or the signal that ended the campaign.

    Jobs of one instance should be adjacent: an instance is kept in memory only while its jobs are under way.
    """
    ended: Ended = SimpleQueue()
    with _end_signals(ended.put):
        try:
            loop = CampaignLoop(store, number, jobs, executor, ended)
            number_of_signal = loop.run(progress)
            store.end_campaign(number, utc_now(), loop.disturbances())
            return number_of_signal
        finally:
            executor.close()


class CampaignLoop:
    """Submits the jobs of a campaign and stores their records as they end."""

    def __init__(self, store: Store, number: int, jobs: Sequence[Job], executor: Executor, ended: Ended) -> None:
        self.store, self.number, self.executor, self.ended = store, number, executor, ended
        self.waiting = deque(jobs)
        self.running: dict[Future[Record], tuple[Job, float]] = {}  # with its start time
        self.users = Counter(job.problem.checksum for job in jobs)
        self.eta = Eta(jobs)
        self.total = len(jobs)
        self.began = time.monotonic()
        self.hosts: set[str] = set()
        self.repeated = {run for run, status in store.finished().items() if status in (KILLED, "crash")}
        self.killed: Counter[str] = Counter()  # runs ended for lack of memory or from outside, by machine
        self.outside: Counter[str] = Counter()  # runs killed from outside, by machine

    def run(self, progress: ProgressCallback | None) -> int:
        """Run until all jobs are done and return 0, or until a signal and return its number."""
        self._submit()
        while self.waiting or self.running:
            try:
                future = self.ended.get(timeout=WAIT_S)
            except Empty:
                self._submit()
                continue
            if isinstance(future, int):
                while not self.ended.empty():  # keep the records of jobs that have ended meanwhile
                    if not isinstance(done := self.ended.get(), int):
                        self._finish(done)
                return future
            job, row = self._finish(future)
            self._submit()
            if progress:
                progress(self.progress(), job, row)
        return 0

    def progress(self) -> CampaignProgress:
        now, slots = time.monotonic(), self.executor.capacity
        left = self.eta.seconds_left([(job, now - began) for job, began in self.running.values()], slots)
        return CampaignProgress(
            self.total - self.eta.left, self.total, len(self.running), slots, now - self.began, left
        )

    def disturbances(self) -> dict[str, list[str]]:
        """Return sentences on disturbances per machine: those of the executor, and the runs killed from outside."""
        found = {name: list(words) for name, words in self.executor.disturbances(self.killed).items()}
        for name, number in self.outside.items():
            found.setdefault(name, []).append(f"Runs that were killed from outside, and are not scored: {number}.")
        return found

    def _submit(self) -> None:
        while self.waiting and len(self.running) < self.executor.capacity:
            job = self.waiting.popleft()
            future = self.executor.submit(job)
            self.running[future] = job, time.monotonic()
            future.add_done_callback(self.ended.put)

    def _finish(self, future: Future[Record]) -> tuple[Job, Record]:
        """Store a job that has ended; repeat it once, as the last, if only its signal says that it was killed."""
        job, began = self.running.pop(future)
        row = blamed(future.result()) if job.id in self.repeated else future.result()
        again = ended_by_signal(row)
        for name, facts in self.executor.hosts().items():
            if name not in self.hosts:
                self.store.add_host(self.number, name, facts)
                self.hosts.add(name)
        store_record(self.store, self.number, job, row)
        self.killed[row.host] += row.stop in ("memory", KILLED)
        if again:
            self.repeated.add(job.id)
            self.waiting.append(job)
            return job, row
        self.eta.ended(job, time.monotonic() - began)
        if row.status == KILLED:
            self.outside[row.host] += 1
        self.users[job.problem.checksum] -= 1
        if not self.users[job.problem.checksum]:
            job.problem.forget()
        return job, row


def ended_by_signal(row: Record) -> bool:
    """Return True if a run was killed from outside and only its signal says so."""
    return row.status == KILLED and row.reason.endswith(UNSENT)


def blamed(row: Record) -> Record:
    """Return the record of a repeated run, a crash if only its signal says again that it was killed from outside.

    Otherwise a solver that sends itself a signal wherever it does badly would be scored on its other runs only.
    """
    if not ended_by_signal(row):
        return row
    return replace(row, stop="crash", status="crash", reason=f"{row.reason}, also when the run was repeated")


@contextmanager
def _end_signals(receive: Callable[[int], None]) -> Iterator[None]:
    """Let Ctrl-C, SIGTERM and SIGHUP call ``receive`` instead of interrupting, however often they come.

    A signal that is ignored, such as SIGHUP under nohup, stays ignored. Outside the main thread nothing changes.
    """
    numbers = END_SIGNALS if threading.current_thread() is threading.main_thread() else ()
    taken = [number for number in numbers if signal.getsignal(number) not in (signal.SIG_IGN, None)]
    before = {number: signal.signal(number, lambda number, _: receive(number)) for number in taken}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def store_record(store: Store, campaign_number: int, job: Job, row: Record) -> None:
    """Store a run, and the facts about its instance and solver that pages show."""
    problem, solver = job.problem, job.solver
    with store.transaction():
        store.add_instance(problem.checksum, problem.id, row.track, problem.summary, problem.published)
        store.add_solver(
            solver.hash, solver.track, solver.name, solver.kind, solver.source, solver.description, dict(solver.params)
        )
        store.add_run(campaign_number, row)
