"""Executor on this machine: slots of disjoint cores, each a thread with its own supervisor."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from queue import SimpleQueue

from shardmark.harness.campaign.cpus import core_sets, usable_cpus
from shardmark.harness.campaign.host import Disturbances
from shardmark.harness.campaign.jobs import Job, judge, perform, utc_now
from shardmark.harness.results.records import Record
from shardmark.harness.sandbox.supervisor import Supervisor


class CoRunners:
    """Keeps, for each run under way, the largest number of other runs under way on its machine at the same time."""

    def __init__(self) -> None:
        self.most: dict[str, int] = {}
        self.host: dict[str, str] = {}
        self.lock = threading.Lock()

    def begin(self, run: str, host: str = "") -> None:
        """Note that a run begins, or begins again."""
        with self.lock:
            self.most.pop(run, None)
            others = [other for other in self.most if self.host[other] == host]
            for other in others:
                self.most[other] = max(self.most[other], len(others))
            self.most[run], self.host[run] = len(others), host

    def end(self, run: str) -> int:
        """Note that a run ends; return the largest number of others under way at the same time."""
        with self.lock:
            self.host.pop(run, None)
            return self.most.pop(run, 0)


class LocalExecutor:
    """Carries out ``parallel`` jobs at once with ``cores`` each; see `shardmark.harness.campaign.queue.Executor`."""

    name = "local"

    def __init__(self, parallel: int, cores: int, supervisor: Callable[[], Supervisor] = Supervisor) -> None:
        sets = core_sets(parallel, cores)
        spare = set(usable_cpus()).difference(*sets)
        self.capacity = parallel
        self.free: SimpleQueue[tuple[list[int], set[int]]] = SimpleQueue()
        for cpus in sets:
            self.free.put((cpus, spare))
        self.supervisor = supervisor
        self.supervisors: list[Supervisor] = []
        self.slot = threading.local()
        self.pool = ThreadPoolExecutor(parallel, "slot", self._take_slot)
        self.co_runners = CoRunners()
        self.cancel = threading.Event()
        self.machine = Disturbances()

    def submit(self, job: Job) -> Future[Record]:
        return self.pool.submit(self._carry_out, job)

    def hosts(self) -> Mapping[str, Mapping[str, object]]:
        """Return nothing: the campaign already has the facts of this machine."""
        return {}

    def disturbances(self, killed: Mapping[str, int]) -> Mapping[str, Sequence[str]]:
        return {"": self.machine.found(killed.get("", 0))}

    def close(self) -> None:
        self.cancel.set()
        self.pool.shutdown(cancel_futures=True)
        for supervisor in self.supervisors:
            supervisor.close()

    def _take_slot(self) -> None:
        """Give the calling thread a slot.

        The thread and its supervisor stay off the cores of other slots: they use their own cores and those of no slot.
        """
        cpus, spare = self.free.get()
        os.sched_setaffinity(0, {*cpus, *spare})
        self.slot.cpus, self.slot.supervisor = cpus, self.supervisor()
        self.supervisors.append(self.slot.supervisor)

    def _carry_out(self, job: Job) -> Record:
        if job.solver.error:
            return perform(job, self.slot.supervisor)
        instance, started = job.problem.instance, utc_now("milliseconds")
        self.co_runners.begin(job.id)
        try:
            outcome = self.slot.supervisor.run(job.order(self.slot.cpus), self.cancel)
        finally:
            most = self.co_runners.end(job.id)
        return judge(job, instance, started, outcome, most)
