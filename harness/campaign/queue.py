"""A campaign: jobs go to an executor, each result is stored as it comes, and what is left can be resumed."""

from __future__ import annotations

import signal
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Any, Protocol

from harness.campaign.eta import Eta
from harness.campaign.jobs import Job, utc_now
from harness.results.database import Store
from harness.results.records import Record

WAIT_S = 0.5
ENDING = ("SIGINT", "SIGTERM", "SIGHUP")


class Executor(Protocol):
    """What carries out the jobs of a campaign.

    ``hosts()`` has the facts of each machine beside this one that took part, by its name. ``disturbances(killed)``
    looks for what disturbed the machines that runs were on; ``killed`` counts the runs on each that were ended for
    lack of memory. ``close()`` ends everything that is under way: its futures raise Cancelled. They raise InputError
    for what the user must mend.
    """

    name: str  # as the database has it

    @property
    def capacity(self) -> int:
        """How many jobs may be under way now."""

    def submit(self, job: Job) -> Future[Record]:
        """Begin a job: carry it out and judge it."""

    def hosts(self) -> Mapping[str, Mapping[str, Any]]: ...

    def disturbances(self, killed: Mapping[str, int]) -> Mapping[str, Sequence[str]]: ...

    def close(self) -> None: ...


@dataclass(frozen=True)
class CampaignProgress:
    """How far a campaign is: jobs done, in all and under way, how many may be, seconds since it began and left."""

    done: int
    total: int
    running: int
    capacity: int
    elapsed_s: float
    left_s: float


#: Told of each job that has ended and is stored.
Progress = Callable[[CampaignProgress, Job, Record], None]


def campaign(store: Store, number: int, jobs: Sequence[Job], executor: Executor, progress: Progress | None) -> int:
    """Carry out jobs and store each as it ends; 0, or which of `ENDING` ended it before all were. Closes the executor.

    Jobs of one instance should stand together: an instance is kept in memory only while its jobs are under way.
    """
    ended: SimpleQueue[Future[Record] | int] = SimpleQueue()
    with _told_to_end(ended.put):
        try:
            loop = CampaignLoop(store, number, jobs, executor, ended)
            number_of_signal = loop.run(progress)
            store.end_campaign(number, utc_now(), executor.disturbances(loop.killed))
            return number_of_signal
        finally:
            executor.close()


class CampaignLoop:
    """A campaign under way; ``ended`` is where jobs that end arrive, and signals that are to end it."""

    def __init__(
        self,
        store: Store,
        number: int,
        jobs: Sequence[Job],
        executor: Executor,
        ended: SimpleQueue[Future[Record] | int],
    ) -> None:
        self.store, self.number, self.executor, self.ended = store, number, executor, ended
        self.waiting = deque(jobs)
        self.running: dict[Future[Record], tuple[Job, float]] = {}  # and when each began
        self.users = Counter(job.problem.checksum for job in jobs)
        self.pace = Eta(jobs)
        self.total = len(jobs)
        self.began = time.monotonic()
        self.hosts: set[str] = set()
        self.killed: Counter[str] = Counter()

    def run(self, progress: Progress | None) -> int:
        """Go on until all is done, then 0, or until a signal is to end it, then its number."""
        self._submit()
        while self.waiting or self.running:
            try:
                future = self.ended.get(timeout=WAIT_S)
            except Empty:
                self._submit()
                continue
            if isinstance(future, int):
                self._keep_ended()
                return future
            job, row = self._finish(future)
            self._submit()
            if progress:
                progress(self.standing(), job, row)
        return 0

    def standing(self) -> CampaignProgress:
        """How far it is."""
        now, slots = time.monotonic(), self.executor.capacity
        left = self.pace.seconds_left([(job, now - began) for job, began in self.running.values()], slots)
        return CampaignProgress(
            self.total - self.pace.left, self.total, len(self.running), slots, now - self.began, left
        )

    def _keep_ended(self) -> None:
        """Store what has ended meanwhile."""
        while not self.ended.empty():
            if not isinstance(future := self.ended.get(), int):
                self._finish(future)

    def _submit(self) -> None:
        while self.waiting and len(self.running) < self.executor.capacity:
            job = self.waiting.popleft()
            future = self.executor.submit(job)
            self.running[future] = job, time.monotonic()
            future.add_done_callback(self.ended.put)

    def _finish(self, future: Future[Record]) -> tuple[Job, Record]:
        """Store a job that has ended."""
        job, began = self.running.pop(future)
        row = future.result()
        for name, facts in self.executor.hosts().items():
            if name not in self.hosts:
                self.store.add_host(self.number, name, facts)
                self.hosts.add(name)
        keep(self.store, self.number, job, row)
        self.pace.ended(job, time.monotonic() - began)
        self.killed[row.host] += row.stop == "memory"
        self.users[job.problem.checksum] -= 1
        if not self.users[job.problem.checksum]:
            job.problem.forget()
        return job, row


@contextmanager
def _told_to_end(tell: Callable[[int], None]) -> Iterator[None]:
    """Meanwhile Ctrl-C, SIGTERM and SIGHUP interrupt nothing, however often they come: they only ``tell`` their number.

    A signal that is ignored, as SIGHUP under nohup, stays so. Outside the main thread nothing changes.
    """
    numbers = [getattr(signal, name) for name in ENDING if hasattr(signal, name)]
    if threading.current_thread() is not threading.main_thread():
        numbers = []
    before = {number: signal.getsignal(number) for number in numbers}
    before = {number: handler for number, handler in before.items() if handler not in (signal.SIG_IGN, None)}
    for number in before:
        signal.signal(number, lambda number, _: tell(number))
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def keep(store: Store, campaign_number: int, job: Job, row: Record) -> None:
    """Store a run with what pages need to know of its instance and its solver."""
    problem, solver = job.problem, job.solver
    with store.transaction():
        store.add_instance(problem.checksum, problem.id, row.track, problem.summary, problem.published)
        store.add_solver(
            solver.hash, solver.track, solver.name, solver.kind, solver.source, solver.description, dict(solver.params)
        )
        store.add_run(campaign_number, row)
