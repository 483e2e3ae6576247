"""Runs: one under limits, or the matrix of solvers, instances and seeds with a queue that resumes."""

from __future__ import annotations

import hashlib
import json
import os
import queue
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import astuple, dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

from harness.discover import SolverInfo
from harness.judge import judge
from harness.limits import Cancelled, Limits, Order, Outcome
from harness.store import Record, Store
from harness.warden import Warden
from instances import InputError, parse
from instances.jsonfile import read_bytes, sha256

WAIT_S = 0.5
_loading = threading.Lock()  # two threads that want one large instance read it once


@dataclass(frozen=True)
class Problem:
    """An instance as the matrix names it: where it lies, its options, what was published about it."""

    id: str
    path: Path
    track: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    published: Mapping[str, Any] = field(default_factory=dict)
    timeout_s: float = 60.0

    @property
    def instance(self) -> Any:
        """The parsed instance; read once."""
        with _loading:
            return self._instance

    @cached_property
    def _instance(self) -> Any:
        return parse(read_bytes(self.path), str(self.path), self.track, **self.options)

    @cached_property
    def summary(self) -> Mapping[str, Any]:
        """Facts of the instance; kept when the instance is forgotten."""
        return dict(self.instance.summary())

    @cached_property
    def content_hash(self) -> str:
        """SHA-256 of the decompressed file."""
        return sha256(read_bytes(self.path))

    @property
    def checksum(self) -> str:
        """Identity of content and options together."""
        given = {key: value for key, value in self.options.items() if value is not None}
        return sha256(f"{self.content_hash} {json.dumps(given, sort_keys=True)}".encode())

    def forget(self) -> None:
        """Drop the parsed instance from memory."""
        self.__dict__.pop("_instance", None)


@dataclass(frozen=True)
class Job:
    """One cell of the matrix."""

    solver: SolverInfo
    problem: Problem
    seed: int
    limits: Limits

    @property
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
            solver=self.solver.name,
            file=self.solver.file,
            seed=self.seed,
            limits=self.limits,
            cpus=tuple(cpus),
            command=getattr(self.solver, "command", ()),
        )


def perform(job: Job, warden: Warden, cpus: Sequence[int] = (), cancel: threading.Event | None = None) -> Record:
    """Carry out one run and judge it; raises Cancelled, and InputError if the instance cannot be read."""
    instance = job.problem.instance
    started = datetime.now(UTC).isoformat(timespec="milliseconds")
    if job.solver.error:
        outcome = Outcome("import", f"its file cannot be imported: {job.solver.error}")
    else:
        outcome = warden.run(job.order(cpus), cancel)
    return judge(job, instance, started, outcome)


Progress = Callable[[int, int, Job, Record, float], None]


def campaign(
    store: Store,
    number: int,
    jobs: Sequence[Job],
    parallel: int = 1,
    progress: Progress | None = None,
) -> bool:
    """Carry out jobs in slots of disjoint cores and store each run as it ends; False if it was interrupted.

    ``progress(done, total, job, record, seconds_left)`` is called after every run. Jobs of one instance should
    stand together: an instance is kept in memory only while its jobs are under way.
    """
    slots = warden_slots(parallel, max((job.limits.cores for job in jobs), default=1))
    cancel = threading.Event()
    left = sum(job.limits.timeout_s for job in jobs)
    began, spent_limit, done = time.monotonic(), 0.0, 0
    waiting, running = iter(jobs), dict[Future[Record], Job]()
    users = count_users(jobs)
    with ThreadPoolExecutor(parallel) as pool:
        try:
            while True:
                while len(running) < parallel and (job := next(waiting, None)) is not None:
                    running[pool.submit(_in_slot, slots, job, cancel)] = job
                if not running:
                    return True
                # A signal that comes just before a wait does not end it: wait in short turns.
                for future in wait(running, timeout=WAIT_S, return_when=FIRST_COMPLETED).done:
                    job = running.pop(future)
                    row = future.result()
                    keep(store, number, job, row)
                    users[job.problem.id] -= 1
                    if not users[job.problem.id]:
                        job.problem.forget()
                    done, spent_limit = done + 1, spent_limit + job.limits.timeout_s
                    pace = (time.monotonic() - began) / max(spent_limit, 1e-9)
                    if progress:
                        progress(done, len(jobs), job, row, (left - spent_limit) * pace)
        except (KeyboardInterrupt, Cancelled):
            cancel.set()
            return False
        except BaseException:
            cancel.set()
            raise
        finally:
            pool.shutdown(cancel_futures=True)
            while not slots.empty():
                slots.get()[0].close()


def keep(store: Store, campaign_number: int, job: Job, row: Record) -> None:
    """Store a run with what pages need to know of its instance and its solver."""
    problem, solver = job.problem, job.solver
    with store.transaction():
        store.add_instance(problem.checksum, problem.id, row.track, problem.summary, problem.published)
        store.add_solver(
            solver.hash, solver.track, solver.name, solver.kind, solver.source, solver.description, dict(solver.params)
        )
        store.add_run(campaign_number, row)


def count_users(jobs: Iterable[Job]) -> dict[str, int]:
    """How many jobs each instance has."""
    users: dict[str, int] = {}
    for job in jobs:
        users[job.problem.id] = users.get(job.problem.id, 0) + 1
    return users


def usable_cpus() -> list[int]:
    """Numbers of the CPUs that this process may use; without a system that pins, one number each."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def core_slots(parallel: int, cores: int) -> queue.SimpleQueue[list[int]]:
    """One set of CPU numbers for each run that is under way at once; InputError if there are too few CPUs."""
    usable = usable_cpus()
    if parallel * cores > len(usable):
        expected = f"expected at most {len(usable)} cores in use at once, {parallel} runs of {cores} are more"
        raise InputError("run", "--jobs and --cores", expected)
    slots: queue.SimpleQueue[list[int]] = queue.SimpleQueue()
    for i in range(parallel):
        slots.put(usable[i * cores : (i + 1) * cores])
    return slots


Slot = tuple[Warden, list[int]]


def warden_slots(parallel: int, cores: int) -> queue.SimpleQueue[Slot]:
    """A warden for each set of CPUs."""
    slots: queue.SimpleQueue[Slot] = queue.SimpleQueue()
    sets = core_slots(parallel, cores)
    while not sets.empty():
        slots.put((Warden(), sets.get()))
    return slots


def _in_slot(slots: queue.SimpleQueue[Slot], job: Job, cancel: threading.Event) -> Record:
    warden, cpus = slots.get()
    try:
        return perform(job, warden, cpus, cancel)
    finally:
        slots.put((warden, cpus))
