"""Runs: one under limits, or the matrix of solvers, instances and seeds with a queue that resumes."""

from __future__ import annotations

import hashlib
import json
import signal
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import astuple, dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, Protocol

from harness.campaign.discover import SolverInfo
from harness.campaign.eta import Pace
from harness.results.database import Record, Store
from harness.results.judgement import judge
from harness.sandbox.contract import Limits, Order, Outcome
from harness.sandbox.supervisor import Warden
from instances import load_hashed
from instances.catalog import Entry
from instances.jsonfile import read_bytes, sha256

WAIT_S = 0.5
ENDING = ("SIGINT", "SIGTERM", "SIGHUP")


@dataclass(frozen=True)
class Problem:
    """An instance as the matrix names it: where it lies, its options, what was published about it."""

    id: str
    path: Path
    track: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    published: Mapping[str, Any] = field(default_factory=dict)
    timeout_s: float = 60.0
    _loading: threading.Lock = field(default_factory=threading.Lock, init=False, repr=False, compare=False)

    @classmethod
    def of(cls, entry: Entry, path: Path) -> Problem:
        """The instance of an entry of the catalog, whose file lies at a path."""
        return cls(entry.id, path, entry.track, entry.options, entry.published, entry.time_limit_s)

    @property
    def instance(self) -> Any:
        """The parsed instance; read once, also if two threads want it at once."""
        with self._loading:
            return self._instance

    @cached_property
    def _instance(self) -> Any:
        return load_hashed(self.path, self.track, **self.options)[0]  # and what is kept knows its checksum for the runs

    @cached_property
    def summary(self) -> Mapping[str, Any]:
        """Facts of the instance; kept when the instance is forgotten."""
        return dict(self.instance.summary())

    @cached_property
    def content_hash(self) -> str:
        """SHA-256 of the decompressed file."""
        return sha256(read_bytes(self.path))

    @cached_property
    def checksum(self) -> str:
        """Identity of content and options together."""
        given = {key: value for key, value in self.options.items() if value is not None}
        return sha256(f"{self.content_hash} {json.dumps(given, sort_keys=True)}".encode())

    def forget(self) -> None:
        """Drop the parsed instance from memory."""
        self.__dict__.pop("_instance", None)


@dataclass(frozen=True)
class Job:
    """One cell of the matrix; ``hidden`` is a folder that an isolated run does not see, None for none."""

    solver: SolverInfo
    problem: Problem
    seed: int
    limits: Limits
    hidden: Path | None = None

    @cached_property
    def id(self) -> str:
        """SHA-256 of the definition: the same definition is the same run, whatever anything is called."""
        definition = {
            "checksum": self.problem.checksum,
            "solver": [self.solver.track, self.solver.name, self.solver.hash, dict(self.solver.params)],
            "seed": self.seed,
            "limits": [
                float(value)
                for value in (*astuple(self.limits)[:3], self.limits.cpu_limit_s, *astuple(self.limits)[4:])
            ],
        }
        return hashlib.sha256(json.dumps(definition, sort_keys=True).encode()).hexdigest()

    def order(self, cpus: Sequence[int] = ()) -> Order:
        """What a warden needs to carry it out on these CPUs."""
        return Order(
            track=self.solver.track,
            instance=str(self.problem.path.resolve()),
            checksum=self.problem.content_hash,
            options=dict(self.problem.options),
            solver=self.solver.declared,
            file=self.solver.file,
            seed=self.seed,
            limits=self.limits,
            cpus=tuple(cpus),
            command=self.solver.command,
            hidden="" if self.hidden is None else str(self.hidden.resolve()),
            settings=dict(self.solver.settings),
        )


def perform(job: Job, warden: Warden, cpus: Sequence[int] = (), cancel: threading.Event | None = None) -> Record:
    """Carry out one run and judge it; raises Cancelled, and InputError if the instance cannot be read."""
    instance, started = job.problem.instance, utc_now("milliseconds")
    return judge(job, instance, started, not_importable(job) or warden.run(job.order(cpus), cancel))


def not_importable(job: Job) -> Outcome | None:
    """The outcome of a job whose solver cannot even be imported, None for any other."""
    return Outcome("import", f"its file cannot be imported: {job.solver.error}") if job.solver.error else None


def utc_now(precision: str = "seconds") -> str:
    """The time as it is stored: UTC, ISO 8601."""
    return datetime.now(UTC).isoformat(timespec=precision)


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
class Standing:
    """How far a campaign is: jobs done, in all and under way, how many may be, seconds since it began and left."""

    done: int
    total: int
    running: int
    capacity: int
    elapsed_s: float
    left_s: float


#: Told of each job that has ended and is stored.
Progress = Callable[[Standing, Job, Record], None]


def campaign(store: Store, number: int, jobs: Sequence[Job], executor: Executor, progress: Progress | None) -> int:
    """Carry out jobs and store each as it ends; 0, or which of `ENDING` ended it before all were. Closes the executor.

    Jobs of one instance should stand together: an instance is kept in memory only while its jobs are under way.
    """
    ended: SimpleQueue[Future[Record] | int] = SimpleQueue()
    with _told_to_end(ended.put):
        try:
            course = Course(store, number, jobs, executor, ended)
            number_of_signal = course.run(progress)
            store.end_campaign(number, utc_now(), executor.disturbances(course.killed))
            return number_of_signal
        finally:
            executor.close()


class Course:
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
        self.pace = Pace(jobs)
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

    def standing(self) -> Standing:
        """How far it is."""
        now, slots = time.monotonic(), self.executor.capacity
        left = self.pace.seconds_left([(job, now - began) for job, began in self.running.values()], slots)
        return Standing(self.total - self.pace.left, self.total, len(self.running), slots, now - self.began, left)

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
