"""``shardmark worker``: a Dask worker that carries out one run at a time on its own CPUs, under its own supervisor."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
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
from harness.campaign.jobs import utc_now
from harness.campaign.queue import END_SIGNALS
from harness.sandbox.contract import Cancelled, Order, Outcome
from harness.sandbox.supervisor import Supervisor
from instances import InputError
from instances.files.jsonfile import read_bytes, sha256
from solvers.registry import FOLDER, PACKAGE, hash_of, source_hash

NAME = "shardmark"  # name of the plugin that makes a Dask worker one of ours
CORES = "shardmark-cores"  # resource that keeps runs away from other Dask workers, and from workers with too few cores
CONNECT_S = 10.0  # seconds within which a scheduler must answer
#: Settings that keep a Dask worker from other work during its task, which would take time from the run.
QUIET = {"distributed.worker.profile.enabled": False, "distributed.admin.tick.interval": "1s"}


@dataclass(frozen=True)
class RemoteOrder:
    """An order as it is sent to a worker.

    ``code`` is `code_version` of the sender, ``solver_hash`` the hash that the solver's source must have, ``programs``
    the SHA-256 of each file that an external command names, ``topic`` the Dask topic to which the worker reports the
    start of the run.
    """

    order: Order
    code: str
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
    root = Path(host.__file__).parents[2]
    files = [file for room in ("harness", "instances") for file in sorted(root.glob(f"{room}/**/*.py"))]
    return hash_of((str(file.relative_to(root)), file) for file in [*files, *sorted(FOLDER.glob("*.py"))])


class FileCache:
    """Files that were sent to a worker, each under a name that depends on its content, and files it already had."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.digests: dict[Path, tuple[tuple[int, ...], str]] = {}  # stamp and SHA-256 per path
        self.sent: dict[str, tuple[int, ...]] = {}  # stamp per name

    def digest(self, path: Path) -> str:
        """Return the SHA-256 of a file's decompressed content, "" if there is no such file."""
        try:
            found = _stamp(path)
            if self.digests.get(path, ((), ""))[0] != found:
                self.digests[path] = found, sha256(read_bytes(path))
        except (OSError, InputError):
            return ""
        return self.digests[path][1]

    def find(self, name: str) -> Path | None:
        """Return a file that was sent, None if it has changed since: a run that is not isolated can change it."""
        path = self.folder / name
        try:
            return path if self.sent.get(name) == _stamp(path) else None
        except OSError:
            return None

    def add(self, name: str, sender: str, piece: bytes, first: bool, last: bool) -> None:
        """Add a piece of a file, which is found once it is complete."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(f".{path.name}.{sender}")
        with part.open("wb" if first else "ab") as stream:
            stream.write(piece)
        if last:
            os.replace(part, path)
            self.sent[name] = _stamp(path)


def _stamp(path: Path) -> tuple[int, ...]:
    found = path.stat()
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


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
        self.stopped = threading.Event()
        self.busy = False
        self.disturbances: dict[str, host.Disturbances] = {}

    def setup(self, worker: Worker) -> None:
        self.worker = worker
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
        self.busy = True
        try:
            outcome = self.supervisor.run(order, TaskCancelled(self, key))
        except Cancelled:
            raise Reschedule from None  # to another worker, if the campaign still wants it
        finally:
            self.busy = False
        outcome.host = self.host
        return replace(reply, outcome=outcome, started=started)

    def _prepared(self, remote_order: RemoteOrder) -> Order:
        """Return the order with the paths of this machine; raise MissingFile or Refused."""
        if remote_order.code != code_version():
            raise Refused("expected the same version of Shardmark as that of the campaign")
        for path, digest in remote_order.programs.items():
            if self.files.digest(Path(path)) != digest:
                raise Refused(f"expected a file {path} with the content that the campaign's machine has")
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
            raise Refused(f"expected the version of {place} that the campaign's machine has")
        name = f"solvers/{version}/{Path(place).name}"
        found = self.files.find(name)
        if found is None or source_hash(found) != version:
            raise MissingFile(name)
        return str(found)


class TaskCancelled(threading.Event):
    """Event that is set once a task is cancelled, its client has gone, or the worker ends."""

    def __init__(self, plugin: ShardmarkPlugin, key: str) -> None:
        super().__init__()
        self.plugin, self.key = plugin, key

    def is_set(self) -> bool:
        task = self.plugin.worker.state.tasks.get(self.key)
        return self.plugin.stopped.is_set() or task is None or task.state == "cancelled"


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
    known = {"host": plugin.host, "cores": len(plugin.cpus), "description": plugin.description, "facts": host.facts()}
    return known | {"name": dask_worker.name}


def disturbances_since(topic: str, killed: Mapping[str, int], dask_worker: Worker) -> list[str]:
    """Return the disturbances of the worker's machine since `register_campaign`."""
    plugin = plugin_of(dask_worker)
    return plugin.disturbances.pop(topic).found(killed.get(plugin.host, 0))


def receive_file(name: str, sender: str, piece: bytes, first: bool, last: bool, dask_worker: Worker) -> None:
    plugin_of(dask_worker).files.add(name, sender, piece, first, last)


async def wait_until_idle(dask_worker: Worker) -> None:
    while plugin_of(dask_worker).busy:
        await asyncio.sleep(0.02)


# ---------------------------------------------------------------- the process of a worker


def serve(scheduler: str, plugin: ShardmarkPlugin, say: Callable[[str], None]) -> None:
    """Serve until Ctrl-C, SIGTERM or SIGHUP, or until the scheduler ends; InputError if it cannot be reached."""
    silence_dask()
    os.sched_setaffinity(0, plugin.cpus)
    with dask.config.set(QUIET):
        asyncio.run(_serve(scheduler, plugin, say))


def silence_dask() -> None:
    """Silence Dask's own log: our messages report the parts that matter."""
    for name in ("distributed", "distributed.client"):  # the loggers whose level Dask sets
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)


async def _serve(scheduler: str, plugin: ShardmarkPlugin, say: Callable[[str], None]) -> None:
    interrupted = asyncio.Event()
    for number in END_SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            asyncio.get_running_loop().add_signal_handler(number, interrupted.set)
    ending, joining = asyncio.create_task(interrupted.wait()), asyncio.create_task(connect(scheduler, plugin))
    await asyncio.wait((ending, joining), return_when=asyncio.FIRST_COMPLETED)
    if not joining.done():  # interrupted before the scheduler answered
        joining.cancel()
        return
    worker = await joining
    say(f"{worker.name} carries out runs for {scheduler} on {plugin.description}")
    gone = asyncio.create_task(worker.finished())
    await asyncio.wait((ending, gone), return_when=asyncio.FIRST_COMPLETED)
    if interrupted.is_set():
        await leave(worker)
    else:
        say(f"the scheduler {scheduler} has gone")
    for task in (ending, gone):
        task.cancel()


def check_address(scheduler: str) -> None:
    """Raise InputError unless Dask can read it as the address of a scheduler, by TCP if it has no scheme."""
    try:
        scheme, place = parse_address(scheduler)
        get_backend(scheme)
        machine, port = parse_host_port(place)
        if not machine or not 0 < port < 1 << 16:
            raise ValueError("no host, or no port from 1 to 65535")
    except (ValueError, ImportError) as error:
        raise InputError("scheduler", repr(scheduler), f"expected an address like tcp://HOST:8786 ({error})") from None


async def connect(scheduler: str, plugin: ShardmarkPlugin) -> Worker:
    """Return a worker that the scheduler knows; it listens only on the network interface towards the scheduler."""
    check_address(scheduler)
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
        expected = f"expected a Dask scheduler that answers within {CONNECT_S:g} s{why}"
        raise InputError("scheduler", scheduler, expected) from None


async def leave(worker: Worker) -> None:
    """End a worker; its run is killed and started again on another worker."""
    with suppress(OSError, TimeoutError):  # the scheduler has gone, or is busy and will notice
        retired = worker.scheduler.retire_workers(
            workers=[worker.address], close_workers=False, remove=True, stimulus_id=f"leave-{worker.name}"
        )
        await asyncio.wait_for(retired, CONNECT_S)
    await worker.close()
