"""``shardmark worker``: a Dask worker that carries out one run at a time on its own CPUs, under its own supervisor."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import dask
from distributed import Reschedule, Worker, WorkerPlugin, get_worker
from distributed.comm import get_address_host, parse_address, parse_host_port
from distributed.comm.registry import get_backend
from distributed.utils import get_ip

from harness.campaign import host
from harness.campaign.cpus import pin
from harness.campaign.jobs import utc_now
from harness.campaign.queue import ENDING
from harness.sandbox.contract import Cancelled, Order, Outcome
from harness.sandbox.supervisor import Supervisor
from instances import InputError
from instances.files.jsonfile import read_bytes, sha256
from solvers.registry import FOLDER, PACKAGE, hash_of, source_hash

NAME = "shardmark"
CORES = "shardmark-cores"  # the resource that keeps runs away from workers of another kind, and from those too small
CONNECT_S = 10.0
#: What a worker of Dask does beside its work; on the cores of a run it would cost time.
QUIET = {"distributed.worker.profile.enabled": False, "distributed.admin.tick.interval": "1s"}


@dataclass(frozen=True)
class RemoteOrder:
    """A run as it is sent to a worker.

    ``code`` is `code_version` of the sender, ``solver_hash`` what the solver's source must have, ``programs`` the
    SHA-256 of each file that an external command names, ``topic`` where the sender listens for runs that begin.
    """

    order: Order
    code: str
    solver_hash: str
    programs: Mapping[str, str]
    topic: str


@dataclass(frozen=True)
class RemoteReply:
    """What comes back: an outcome; or ``lacks``, the name of a file to send; or ``refused``, why not on this worker."""

    host: str
    worker: str
    outcome: Outcome = field(default_factory=Outcome)
    started: str = ""
    lacks: str = ""
    refused: str = ""


@cache
def code_version() -> str:
    """SHA-256 of the referee's own code: workers and the campaign's process must have the same."""
    root = Path(host.__file__).parents[2]
    files = [file for room in ("harness", "instances") for file in sorted(root.glob(f"{room}/**/*.py"))]
    return hash_of((str(file.relative_to(root)), file) for file in [*files, *sorted(FOLDER.glob("*.py"))])


class FileCache:
    """Files that were sent to a worker, each under a name that says what is in it, and files that it had already."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.known: dict[Path, tuple[tuple[int, ...], str]] = {}  # SHA-256 of the content, as long as it is untouched
        self.kept: dict[str, tuple[int, ...]] = {}

    def digest(self, path: Path) -> str:
        """SHA-256 of a file's decompressed content, "" if there is no such file."""
        try:
            found = _signature(path)
            if self.known.get(path, ((), ""))[0] != found:
                self.known[path] = found, sha256(read_bytes(path))
        except (OSError, InputError):
            return ""
        return self.known[path][1]

    def find(self, name: str) -> Path | None:
        """A file that was sent, if it is as it was then: a solver can reach it where runs are not isolated."""
        path = self.folder / name
        try:
            return path if self.kept.get(name) == _signature(path) else None
        except OSError:
            return None

    def add(self, name: str, sender: str, piece: bytes, first: bool, last: bool) -> None:
        """Take a piece of a file; it is there once it is complete."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(f".{path.name}.{sender}")
        with part.open("wb" if first else "ab") as stream:
            stream.write(piece)
        if last:
            os.replace(part, path)
            self.kept[name] = _signature(path)


def _signature(path: Path) -> tuple[int, ...]:
    found = path.stat()
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


class MissingFile(Exception):
    """A file must be sent first; the text is its name."""


class Refused(Exception):
    """This worker cannot carry out the run; the text says why."""


class ShardmarkPlugin(WorkerPlugin):
    """What a worker of ours has beside a plain one: a name, CPUs, a supervisor, and the files that runs need."""

    name = NAME

    def __init__(self, host_name: str, cpus: Sequence[int], supervisor: Supervisor, limits: str) -> None:
        self.host = host_name
        self.cpus = tuple(cpus)
        self.supervisor = supervisor
        self.means = f"CPUs {', '.join(map(str, cpus))}; limits: {limits}"
        self.stopped = threading.Event()
        self.busy = False
        self.watched: dict[str, host.Disturbances] = {}

    def setup(self, worker: Worker) -> None:
        """The worker starts."""
        self.worker = worker
        self.library = FileCache(Path(worker.local_directory) / "library")

    def teardown(self, worker: Worker) -> None:
        """The worker ends, and so does its run."""
        self.stopped.set()

    def carry_out(self, remote_order: RemoteOrder) -> RemoteReply:
        """One run from its start to its end, in the thread of the worker."""
        reply = RemoteReply(self.host, self.worker.address)
        try:
            order = self._prepared(remote_order)
        except MissingFile as lacking:
            return replace(reply, lacks=str(lacking))
        except Refused as refused:
            return replace(reply, refused=f"worker {self.worker.name} ({self.worker.address}): {refused}")
        key = str(self.worker.get_current_task())
        self.worker.log_event(remote_order.topic, {"run": key, "host": self.host})
        started = utc_now("milliseconds")
        self.busy = True
        try:
            outcome = self.supervisor.run(order, TaskCancelled(self, key))
        except Cancelled:
            raise Reschedule from None  # for whoever still wants it
        finally:
            self.busy = False
        outcome.host = self.host
        return replace(reply, outcome=outcome, started=started)

    def _prepared(self, remote_order: RemoteOrder) -> Order:
        """The order with the paths of this machine."""
        if remote_order.code != code_version():
            raise Refused("expected the same version of Shardmark as that of the campaign")
        for path, digest in remote_order.programs.items():
            if self.library.digest(Path(path)) != digest:
                raise Refused(f"expected a file {path} with the content that the campaign's machine has")
        order = remote_order.order
        file = order.file if order.command else self._solver(order.file, remote_order.solver_hash)
        return replace(order, instance=str(self._instance(order)), file=file, cpus=self.cpus)

    def _instance(self, order: Order) -> Path:
        path = Path(order.instance)
        if self.library.digest(path) == order.checksum:
            return path
        name = f"instances/{order.checksum}/{path.name}"
        found = self.library.find(name)
        if found is None:
            raise MissingFile(name)
        return found

    def _solver(self, place: str, version: str) -> str:
        """Where the solver's code is here: in this project, in an installed package, at its own path, or sent."""
        own = place.startswith(PACKAGE) or not Path(place).is_absolute()
        here = str(FOLDER / place) if own and not place.startswith(PACKAGE) else place
        try:
            if source_hash(here) == version:
                return here
        except (OSError, ImportError, ValueError):
            pass
        if own:
            raise Refused(f"expected the version of {place} that the campaign's machine has")
        name = f"solvers/{version}/{Path(place).name}"
        found = self.library.find(name)
        if found is None or source_hash(found) != version:
            raise MissingFile(name)
        return str(found)


class TaskCancelled(threading.Event):
    """Set once nobody waits for a task any longer: it was cancelled, its client has gone, or the worker ends."""

    def __init__(self, plugin: ShardmarkPlugin, key: str) -> None:
        super().__init__()
        self.plugin, self.key = plugin, key

    def is_set(self) -> bool:
        """Whether to give up."""
        task = self.plugin.worker.state.tasks.get(self.key)
        return self.plugin.stopped.is_set() or task is None or task.state == "cancelled"


# ---------------------------------------------------------------- what the client calls on a worker


def plugin_of(worker: Worker) -> ShardmarkPlugin:
    """What makes a worker one of ours; LookupError for another."""
    plugin = worker.plugins[NAME]
    assert isinstance(plugin, ShardmarkPlugin)
    return plugin


def carry_out(remote_order: RemoteOrder) -> RemoteReply:
    """The task that a run is."""
    return plugin_of(get_worker()).carry_out(remote_order)


def register_campaign(topic: str, dask_worker: Worker) -> dict[str, Any]:
    """What a campaign keeps of a worker; its machine is watched from now on."""
    plugin = plugin_of(dask_worker)
    plugin.watched[topic] = host.Disturbances()
    known = {"host": plugin.host, "cores": len(plugin.cpus), "means": plugin.means, "facts": host.facts()}
    return {**known, "name": dask_worker.name}


def disturbances_since(topic: str, killed: Mapping[str, int], dask_worker: Worker) -> list[str]:
    """What disturbed the worker's machine since `register_campaign`."""
    plugin = plugin_of(dask_worker)
    return plugin.watched.pop(topic).found(killed.get(plugin.host, 0))


def receive_file(name: str, sender: str, piece: bytes, first: bool, last: bool, dask_worker: Worker) -> None:
    """Keep a piece of a file that the worker lacks."""
    plugin_of(dask_worker).library.add(name, sender, piece, first, last)


async def wait_until_idle(dask_worker: Worker) -> None:
    """Wait until no run is under way."""
    while plugin_of(dask_worker).busy:
        await asyncio.sleep(0.02)


# ---------------------------------------------------------------- the process of a worker


def serve(scheduler: str, plugin: ShardmarkPlugin, say: Callable[[str], None]) -> None:
    """Be a worker until Ctrl-C, SIGTERM or SIGHUP, or until the scheduler goes.

    Raises InputError if the scheduler cannot be reached.
    """
    silence_dask()
    pin(plugin.cpus)
    with dask.config.set(QUIET):
        asyncio.run(_serve(scheduler, plugin, say))


def silence_dask() -> None:
    """Keep Dask's own log away: what matters of it is said in one sentence."""
    for name in ("distributed", "distributed.client"):  # the levels that it sets itself
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)


async def _serve(scheduler: str, plugin: ShardmarkPlugin, say: Callable[[str], None]) -> None:
    told = asyncio.Event()
    for number in (getattr(signal, name) for name in ENDING if hasattr(signal, name)):
        if signal.getsignal(number) is not signal.SIG_IGN:
            asyncio.get_running_loop().add_signal_handler(number, told.set)
    ending, joining = asyncio.create_task(told.wait()), asyncio.create_task(connect(scheduler, plugin))
    await asyncio.wait((ending, joining), return_when=asyncio.FIRST_COMPLETED)
    if not joining.done():  # told to end before the scheduler has answered
        joining.cancel()
        return
    worker = await joining
    say(f"{worker.name} carries out runs for {scheduler} on {plugin.means}")
    gone = asyncio.create_task(worker.finished())
    await asyncio.wait((ending, gone), return_when=asyncio.FIRST_COMPLETED)
    if told.is_set():
        await leave(worker)
    else:
        say(f"the scheduler {scheduler} has gone")
    for task in (ending, gone):
        task.cancel()


def check_address(scheduler: str) -> None:
    """InputError unless it is the address of a scheduler as Dask reads it, without a scheme one of TCP."""
    try:
        scheme, place = parse_address(scheduler)
        get_backend(scheme)
        machine, port = parse_host_port(place)
        if not machine or not 0 < port < 1 << 16:
            raise ValueError("no host, or no port from 1 to 65535")
    except (ValueError, ImportError) as error:
        raise InputError("scheduler", repr(scheduler), f"expected an address as tcp://HOST:8786 ({error})") from None


async def connect(scheduler: str, plugin: ShardmarkPlugin) -> Worker:
    """A worker that the scheduler knows; it listens only where the scheduler can reach it."""
    check_address(scheduler)
    expected = f"expected a Dask scheduler that answers within {CONNECT_S:g} s"
    try:
        worker = Worker(
            scheduler,
            name=f"{plugin.host}-{os.getpid()}",
            nthreads=1,
            host=get_ip(get_address_host(scheduler)),
            resources={CORES: len(plugin.cpus)},
            plugins=(plugin,),
            memory_limit=0,
            death_timeout=CONNECT_S,
        )
        return await asyncio.wait_for(worker, CONNECT_S)
    except (OSError, TimeoutError, ValueError, TypeError, RuntimeError) as error:
        why = f" ({error})" if str(error) else ""
        raise InputError("scheduler", scheduler, expected + why) from None


async def leave(worker: Worker) -> None:
    """End a worker such that its run, which is killed, is begun again by another one."""
    try:
        retired = worker.scheduler.retire_workers(
            workers=[worker.address], close_workers=False, remove=True, stimulus_id=f"leave-{worker.name}"
        )
        await asyncio.wait_for(retired, CONNECT_S)
    except (OSError, TimeoutError):
        pass  # the scheduler has gone meanwhile, or is busy: it finds out
    await worker.close()
