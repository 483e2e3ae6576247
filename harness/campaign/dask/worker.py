"""A Dask worker of ours: the plugin that carries out one run at a time, and the functions that campaigns call on it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from distributed import Reschedule, Worker, WorkerPlugin, get_worker

from shardmark.harness.campaign import host
from shardmark.harness.campaign.dask.files import FileCache
from shardmark.harness.campaign.jobs import utc_now
from shardmark.harness.sandbox.contract import Cancelled, Order, Outcome
from shardmark.harness.sandbox.supervisor import Supervisor
from shardmark.solvers.registry import FOLDER, PACKAGE, hash_of, source_hash

NAME = "shardmark"  # name of the plugin that makes a Dask worker one of ours
CORES = "shardmark-cores-"  # prefix of `cores_resource`


@dataclass(frozen=True)
class RemoteOrder:
    """An order as it is sent to a worker.

    ``solver_hash`` is the hash that the solver's source must have, ``programs`` the SHA-256 of each file that an
    external command names, ``topic`` the Dask topic of the campaign, to which the worker reports the start of the run.
    """

    order: Order
    solver_hash: str
    programs: Mapping[str, str]
    topic: str


@dataclass(frozen=True)
class RemoteReply:
    """Reply of a worker: an outcome, or the name of a ``missing`` file to send, or why the run was ``refused``."""

    worker: str
    outcome: Outcome = field(default_factory=Outcome)
    started: str = ""
    missing: str = ""
    refused: str = ""


@cache
def code_version() -> str:
    """Return the SHA-256 of the referee's code, which must be the same in workers and in the campaign's process."""
    root = host.CHECKOUT
    files = [file for room in ("harness", "instances") for file in sorted(root.glob(f"{room}/**/*.py"))]
    return hash_of((str(file.relative_to(root)), file) for file in [*files, *sorted(FOLDER.glob("*.py"))])


def cores_resource() -> str:
    """Return the name of the Dask resource that counts the cores of our workers.

    Dask sends a run only to workers that have it: none of other Dask users, and none with another version of our code.
    """
    return CORES + code_version()[:16]


class MissingFile(Exception):
    """A file must be sent first; the text is its name."""


class Refused(Exception):
    """This worker cannot carry out the run; the text gives the reason."""


class ShardmarkPlugin(WorkerPlugin):
    """Plugin of a Dask worker that carries out runs: its host name, CPUs, supervisor, and the files that runs need."""

    name = NAME

    def __init__(self, host_name: str, cpus: Sequence[int], supervisor: Supervisor, limits: str) -> None:
        self.host, self.cpus, self.supervisor = host_name, tuple(cpus), supervisor
        self.description = f"CPUs {', '.join(map(str, cpus))}; limits: {limits}"
        self.running = ""  # topic of the campaign whose run is under way
        self.disturbances: dict[str, host.Disturbances] = {}

    def setup(self, worker: Worker) -> None:
        self.worker, self.stopped = worker, threading.Event()
        self.files = FileCache(Path(worker.local_directory) / "files")

    def teardown(self, worker: Worker) -> None:
        """Cancel the run, as the worker ends."""
        self.stopped.set()

    def carry_out(self, remote_order: RemoteOrder) -> RemoteReply:
        """Carry out one run in the thread of the worker."""
        reply = RemoteReply(self.worker.address)
        try:
            order = self._prepared(remote_order)
        except MissingFile as missing:
            return replace(reply, missing=str(missing))
        except Refused as refused:
            return replace(reply, refused=f"worker {self.worker.name} ({self.worker.address}): {refused}")
        key = str(self.worker.get_current_task())
        self.worker.log_event(remote_order.topic, {"run": key, "host": self.host})
        started = utc_now("milliseconds")
        self.running = remote_order.topic
        try:
            outcome = self.supervisor.run(order, TaskCancelled(self.worker, key, self.stopped))
        except Cancelled:
            raise Reschedule from None  # to another worker, if the campaign still wants it
        finally:
            self.running = ""
        outcome.host = self.host
        return replace(reply, outcome=outcome, started=started)

    def _prepared(self, remote_order: RemoteOrder) -> Order:
        """Return the order with the paths of this machine; raise MissingFile or Refused."""
        for path, digest in remote_order.programs.items():
            if self.files.digest(Path(path)) != digest:
                raise Refused(f"expected a file {path} with the same content as on the campaign's machine")
        order = remote_order.order
        file = order.file if order.command else self._solver(order.file, remote_order.solver_hash)
        return replace(order, instance=str(self._instance(order)), file=file, cpus=self.cpus)

    def _instance(self, order: Order) -> Path:
        path = Path(order.instance)
        if self.files.digest(path) == order.checksum:
            return path
        name = f"instances/{order.checksum}/{path.name}"
        found = self.files.find(name)
        if found is None:
            raise MissingFile(name)
        return found

    def _solver(self, place: str, version: str) -> str:
        """Return the path of the solver's code here: in this project, in a package, at its own path, or sent."""
        own = place.startswith(PACKAGE) or not Path(place).is_absolute()
        here = str(FOLDER / place) if own and not place.startswith(PACKAGE) else place
        with suppress(OSError, ImportError, ValueError):
            if source_hash(here) == version:
                return here
        if own:
            raise Refused(f"expected the version of {place} that is on the campaign's machine")
        name = f"solvers/{version}/{Path(place).name}"
        found = self.files.find(name)
        if found is None or source_hash(found) != version:
            raise MissingFile(name)
        return str(found)


class TaskCancelled(threading.Event):
    """Event that is set once a task is cancelled, its client has gone, or the worker has ``stopped``."""

    def __init__(self, worker: Worker, key: str, stopped: threading.Event) -> None:
        super().__init__()
        self.worker, self.key, self.stopped = worker, key, stopped

    def is_set(self) -> bool:
        task = self.worker.state.tasks.get(self.key)
        return self.stopped.is_set() or task is None or task.state == "cancelled"


# ---------------------------------------------------------------- functions that the client calls on a worker


def plugin_of(worker: Worker) -> ShardmarkPlugin:
    """Return the plugin of a worker; LookupError if it is not one of ours."""
    plugin = worker.plugins[NAME]
    assert isinstance(plugin, ShardmarkPlugin)
    return plugin


def carry_out(remote_order: RemoteOrder) -> RemoteReply:
    """Carry out one run; this is the Dask task."""
    return plugin_of(get_worker()).carry_out(remote_order)


def register_campaign(topic: str, dask_worker: Worker) -> dict[str, Any]:
    """Return the facts about a worker that a campaign needs; record disturbances of its machine from now on."""
    plugin = plugin_of(dask_worker)
    plugin.disturbances[topic] = host.Disturbances()
    return {"host": plugin.host, "description": plugin.description, "facts": host.facts()}


def disturbances_since(topic: str, killed: Mapping[str, int], dask_worker: Worker) -> list[str]:
    """Return the disturbances of the worker's machine since `register_campaign`."""
    plugin = plugin_of(dask_worker)
    return plugin.disturbances.pop(topic).found(killed.get(plugin.host, 0))


def receive_file(name: str, sender: str, piece: bytes, first: bool, last: bool, dask_worker: Worker) -> None:
    plugin_of(dask_worker).files.add(name, sender, piece, first, last)


async def wait_until_idle(topic: str, dask_worker: Worker) -> None:
    """Wait until no run of a campaign is under way."""
    while plugin_of(dask_worker).running == topic:
        await asyncio.sleep(0.02)
