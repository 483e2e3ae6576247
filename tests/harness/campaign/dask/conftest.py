"""A Dask scheduler and workers of ours in threads of the tests' process, with runs that end when a test says so."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from distributed import Scheduler, Worker
from distributed.utils import LoopRunner, sync
from marked import until

from shardmark.harness.campaign.dask import executor, pool, serving
from shardmark.harness.campaign.dask.executor import DaskExecutor
from shardmark.harness.campaign.dask.scheduler import silence_dask
from shardmark.harness.campaign.dask.worker import ShardmarkPlugin
from shardmark.harness.campaign.discover import SolverInfo, declared_in
from shardmark.harness.campaign.jobs import Job
from shardmark.harness.campaign.problems import Problem
from shardmark.harness.sandbox.contract import Cancelled, Limits, Order, Outcome

SOLVERS = Path(__file__).parents[1] / "campaign_solvers.py"


class HeldRuns:
    """A supervisor whose runs wait until they are released or cancelled; one that hangs is deaf to both."""

    def __init__(self) -> None:
        self.orders: list[Order] = []
        self.released = threading.Event()
        self.cancelled = 0
        self.hangs = False

    def run(self, order: Order, cancel: threading.Event) -> Outcome:
        self.orders.append(order)
        while not self.released.wait(0.01) or self.hangs:
            if cancel.is_set() and not self.hangs:
                self.cancelled += 1
                raise Cancelled
        return Outcome(backend="posix")


class Grid:
    """A scheduler in a thread, workers that join it, and executors of campaigns on it."""

    def __init__(self) -> None:
        silence_dask()
        self.runner = LoopRunner(asynchronous=False)
        self.runner.start()
        self.scheduler: Scheduler = self.sync(started_scheduler)
        self.address: str = self.scheduler.address
        self.workers: list[Worker] = []
        self.runs: dict[Worker, HeldRuns] = {}
        self.executors: list[DaskExecutor] = []
        self.messages: list[str] = []

    def sync(self, function: Callable[..., Awaitable[Any]], *values: Any, **options: Any) -> Any:
        """Call a coroutine in the thread of scheduler and workers."""
        return sync(self.runner.loop, function, *values, **options)

    def plugin(self, name: str) -> ShardmarkPlugin:
        return ShardmarkPlugin(name, [0], HeldRuns(), "none")  # type: ignore[arg-type]

    def worker(self, name: str = "one") -> Worker:
        """Let a worker join, whose machine has the given name."""
        plugin = self.plugin(name)
        worker: Worker = self.sync(serving.join, self.address, plugin)
        self.workers.append(worker)
        self.runs[worker] = plugin.supervisor  # type: ignore[assignment]
        return worker

    def executor(self, cores: int = 1, parallel: int | None = None) -> DaskExecutor:
        self.executors.append(DaskExecutor(self.address, cores, parallel, self.messages.append))
        return self.executors[-1]

    def remove(self, worker: Worker) -> None:
        """Let the scheduler remove a worker, as it does with one that gives no sign of life."""
        self.sync(self.scheduler.remove_worker, worker.address, stimulus_id="test")

    def heard(self, words: str) -> None:
        """Wait until a message contains these words."""
        until(lambda: any(words in sentence for sentence in self.messages), 20)

    def close(self) -> None:
        self.sync(self.scheduler.close)
        self.runner.stop()

    def end(self) -> None:
        """End workers and campaigns."""
        for held in self.runs.values():
            held.hangs = False
            held.released.set()
        for found in self.executors:
            found.close()
        for worker in self.workers:
            self.sync(worker.close)
        self.workers, self.runs, self.executors, self.messages = [], {}, [], []


async def started_scheduler(host: str = "127.0.0.1") -> Scheduler:
    """Return a scheduler that abandons a task that takes down two workers."""
    return await Scheduler(host=host, port=0, dashboard_address="127.0.0.1:0", dashboard=False, allowed_failures=1)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look at the workers often, and judge none by its heartbeats."""
    monkeypatch.setattr(executor, "CHECK_S", 0.05)
    monkeypatch.setattr(pool, "ANSWER_S", 2.0)
    monkeypatch.setattr(pool, "CHECKS", 1000)  # workers give a sign of life twice a second


@pytest.fixture(scope="module")  # of longer life, the loop of other tests' clients may end before it
def shared_grid() -> Iterator[Grid]:
    grid = Grid()
    yield grid
    grid.close()


@pytest.fixture
def grid(shared_grid: Grid, impatient: None) -> Iterator[Grid]:
    """The scheduler, whose workers and campaigns end with the test."""
    yield shared_grid
    shared_grid.end()


@pytest.fixture
def mortal(impatient: None) -> Iterator[Grid]:
    """A scheduler of a test that ends it."""
    grid = Grid()
    yield grid
    grid.end()
    grid.close()


@pytest.fixture(scope="package")
def quick() -> SolverInfo:
    return next(info for info in declared_in(SOLVERS) if info.name == "quick")


@pytest.fixture
def job(quick: SolverInfo, chain: Problem) -> Callable[..., Job]:
    """Return a run of a solver, by its seed."""
    return lambda seed=0: Job(quick, chain, seed, Limits(20.0, 512.0))
