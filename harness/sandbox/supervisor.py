"""The process of one slot, which carries out one run at a time, and the client that speaks to it.

The referee judges in its own process; what keeps a run's time must do nothing else, so that reading a large instance
here never delays a stamp there.
``python -m harness.sandbox.supervisor BACKEND ISOLATION SOCKET`` serves orders on a socket until it closes. A
message is the length of a JSON header (unsigned 32-bit, big-endian), the header, and the bytes that it announces.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import re
import select
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, NoReturn
from uuid import uuid4

import psutil

from harness.sandbox.backends import control_groups
from harness.sandbox.contract import (
    SUPERVISOR_VARIABLE,
    THREAD_VARIABLES,
    BackendError,
    Cancelled,
    Limits,
    Order,
    Outcome,
)
from harness.sandbox.memory import resident_bytes
from instances.catalog import CACHE_VARIABLE, cache_folder
from instances.errors import InputError

Message = tuple[dict[str, Any], list[bytes]]
LENGTH = struct.Struct(">I")
GRACE_S = 30.0  # beyond a run's limit, for a supervisor to answer
#: Variables of the environment that a run gets: where programs are, how texts are written, and the project's own.
PASSED_ON = re.compile(
    "PATH|HOME|USER|LOGNAME|TMPDIR|TZ|LANG|LANGUAGE|LC_.+|PYTHON.+|VIRTUAL_ENV|LD_LIBRARY_PATH|DYLD_.+|SHARDMARK_.+"
    "|XDG_RUNTIME_DIR|DBUS_SESSION_BUS_ADDRESS"  # by these two an ordinary user asks for control groups
)
GROWTH = 8 << 20  # bytes that a supervisor may grow: its forks begin with what it has, and that counts as theirs


class Garbled(Exception):
    """A supervisor said something that is no answer."""


NO_ANSWER = (OSError, EOFError, Garbled)


class Supervisor:
    """A client's hold on one supervisor process, which is started when it is needed."""

    def __init__(self, backend: str = "posix", isolation: str = "auto") -> None:
        self.backend = backend
        self.isolation = isolation
        self.process: subprocess.Popen[bytes] | None = None
        self.socket: socket.socket | None = None
        self.folder = ""
        self.cores = 0

    def __enter__(self) -> Supervisor:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def run(self, order: Order, cancel: threading.Event | None = None) -> Outcome:
        """Carry out one run; raises Cancelled once ``cancel`` is set."""
        failed = "no process to watch it could be started"
        try:
            link = self._waiting(order.limits.cores, cancel)
            failed = "the process that watched it ended"
            send(link, asdict(order))
            answer, payloads = self._answer(link, order.limits.timeout_s, cancel)
            with understood():
                spent, arrivals = answer.pop("spent"), answer.pop("arrivals")
                outcome = Outcome(**answer, messages=list(zip(arrivals, payloads, strict=True)))
        except BackendError as error:
            return Outcome("error", str(error), backend=self.backend)
        except NO_ANSWER as error:
            self._abandon()
            return Outcome("lost", f"{failed} ({error})", backend=self.backend)
        except BaseException:
            self.close()
            raise
        if spent:
            self.close()
        return outcome

    def close(self) -> None:
        """End the supervisor and whatever it runs."""
        if self.socket is not None:
            self.socket.close()
            self.socket = None
        if self.process is not None:
            try:
                self.process.wait(timeout=GRACE_S)
            except subprocess.TimeoutExpired:
                self._abandon()
        self.process = None
        if self.folder:
            control_groups.remove_recorded(Path(self.folder))
        remove(self.folder)

    def _abandon(self) -> None:
        """End a supervisor that no longer answers, and what is left of its run: whatever has its folder's name."""
        if self.process is not None:
            self.process.kill()
            for process in psutil.process_iter():
                with contextlib.suppress(psutil.Error, OSError):
                    if process.environ().get(SUPERVISOR_VARIABLE) == self.folder and process.pid != os.getpid():
                        process.kill()
            self.process.wait()
        self.close()

    def _waiting(self, cores: int, cancel: threading.Event | None) -> socket.socket:
        """The link to a supervisor that waits for an order.

        One that has ended since its last run, or says something unasked, is not used again; where one does not start,
        another is tried, once. No run had begun, and what became of an earlier one is not the fault of the next.
        """
        if self.process is not None and self.socket is not None:
            if self.process.poll() is not None or select.select([self.socket], [], [], 0.0)[0]:
                self._abandon()
            elif self.cores == cores:
                return self.socket
        self.close()
        try:
            return self._start(cores, cancel)
        except NO_ANSWER:
            self._abandon()
            return self._start(cores, cancel)

    def _start(self, cores: int, cancel: threading.Event | None = None) -> socket.socket:
        self.socket, theirs = socket.socketpair()
        self.socket.settimeout(GRACE_S)
        self.cores = cores
        self.folder = str(Path(tempfile.gettempdir(), f"shardmark-{uuid4().hex}"))
        with theirs:
            self.process = subprocess.Popen(
                [
                    sys.executable,
                    "-P",
                    "-m",
                    "harness.sandbox.supervisor",
                    self.backend,
                    self.isolation,
                    str(theirs.fileno()),
                ],
                env=environment(1 if self.backend == "benchexec" else cores) | {SUPERVISOR_VARIABLE: self.folder},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )
        ready, _ = self._answer(self.socket, 0.0, cancel)
        with understood():
            unable = ready["unable"]
        if unable:
            self.close()
            raise BackendError(unable)
        return self.socket

    @staticmethod
    def _answer(
        link: socket.socket, seconds: float, cancel: threading.Event | None
    ) -> tuple[dict[str, Any], list[bytes]]:
        """An answer that takes so many seconds; raises Cancelled once it is not wanted, or one of `NO_ANSWER`."""
        end = time.monotonic() + seconds + GRACE_S
        while not select.select([link], [], [], 0.1)[0]:
            if cancel is not None and cancel.is_set():
                raise Cancelled
            if time.monotonic() > end:
                raise TimeoutError("no answer")
        with understood():
            return receive(link)


@contextlib.contextmanager
def understood() -> Iterator[None]:
    """Raise Garbled if a supervisor's reply is malformed: a run without isolation may have written into its memory."""
    try:
        yield
    except (AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        raise Garbled(f"it answered with what is no answer: {error!r}") from None


def remove(folder: str | Path) -> None:
    """Delete a folder and what can be deleted in it, also where it is nested deeper than Python can follow."""
    with contextlib.suppress(RecursionError):
        shutil.rmtree(folder, ignore_errors=True)
    if os.path.lexists(folder):
        with contextlib.suppress(OSError):
            subprocess.run(["rm", "-rf", "--", folder], stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def environment(cores: int) -> dict[str, str]:
    """The environment of a supervisor and its runs: nothing of the referee's that could be a secret.

    The number of cores is that of threads in the supervisor, which its forks inherit with the libraries it has loaded.
    BenchExec clones the supervisor without the hooks of a fork: threads that a library believes to have would be waited
    for in vain, so a supervisor of BenchExec's has one, and a run gets its own number when it begins.

    What is named in ``SHARDMARK_ENVIRONMENT``, words apart by spaces, is passed on as well, such as the place of a
    licence. The text of a set has the same hash in every run. A run has a home of its own, so SHARDMARK_CACHE tells it
    where the user's cache is, in which it finds the arrays of its instance.
    """
    more = os.environ.get("SHARDMARK_ENVIRONMENT", "").split()
    given = {name: value for name, value in os.environ.items() if PASSED_ON.fullmatch(name) or name in more}
    given = {"PATH": os.defpath} | given
    with contextlib.suppress(InputError):  # a user without a cache
        given[CACHE_VARIABLE] = str(cache_folder())
    return given | dict.fromkeys(THREAD_VARIABLES, str(cores)) | {"PYTHONHASHSEED": "0"}


def send(link: socket.socket, header: Mapping[str, Any], payloads: tuple[bytes, ...] = ()) -> None:
    """Write one message."""
    text = json.dumps({**header, "sizes": [len(payload) for payload in payloads]}).encode()
    link.sendall(LENGTH.pack(len(text)) + text)
    for payload in payloads:
        link.sendall(payload)


def receive(link: socket.socket) -> Message:
    """Read one message; EOFError if the other side has gone."""
    header = json.loads(_exactly(link, LENGTH.unpack(_exactly(link, LENGTH.size))[0]))
    return header, [_exactly(link, size) for size in header.pop("sizes")]


def _exactly(link: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        part = link.recv(min(size - len(data), 1 << 20))
        if not part:
            raise EOFError("connection closed")
        data += part
    return bytes(data)


# ---------------------------------------------------------------- the supervisor's side


def main(arguments: list[str]) -> int:
    """Serve orders until the referee closes the socket."""
    name, isolation, number = arguments
    link = socket.socket(fileno=int(number))
    base = Path(os.environ[SUPERVISOR_VARIABLE])  # made here: a referee that is killed meanwhile leaves none behind
    try:
        base.mkdir(mode=0o700)
        with (
            contextlib.closing(backend_of(name, isolation)) as backend,
            contextlib.suppress(EOFError, ConnectionError, Cancelled),
        ):
            serve(link, backend, base)
    except ImportError as error:
        send(link, {"unable": str(error)})
        return 1
    finally:
        control_groups.remove_recorded(base)
        remove(base)
    return 0


def serve(link: socket.socket, backend: Any, base: Path) -> NoReturn:
    """Carry out orders; raises EOFError, ConnectionError or Cancelled once nobody is left to give any."""
    gc.collect()
    gc.freeze()  # what stands now is never looked at again, neither here nor in a fork
    at_start = resident_bytes()
    send(link, {"unable": ""})
    while True:
        header, _ = receive(link)
        limits = Limits(**header.pop("limits"))
        order = Order(**{**header, "cpus": tuple(header["cpus"]), "command": tuple(header["command"])}, limits=limits)
        try:
            outcome = carry_out(order, backend, base, link.fileno())
        except BackendError as error:
            outcome = Outcome("error", str(error), backend=backend.name)
        answer = {key: value for key, value in vars(outcome).items() if key != "messages"}
        answer["arrivals"] = [arrival for arrival, _ in outcome.messages]
        answer["spent"] = outcome.stop == "error" or resident_bytes() > at_start + GROWTH
        send(link, answer, tuple(payload for _, payload in outcome.messages))


def backend_of(name: str, isolation: str) -> Any:
    """The backend of that name; ImportError if what it needs is not there."""
    if name == "benchexec":
        from harness.sandbox.backends.benchexec_backend import BenchexecBackend

        return BenchexecBackend(isolation)
    from harness.sandbox.backends.fork_backend import ForkBackend

    return ForkBackend(isolation)


def carry_out(order: Order, backend: Any, base: Path, control: int) -> Outcome:
    """One run from its start to its end; ``base`` is the supervisor's folder."""
    from harness.sandbox.monitor import Monitor, Pipes

    external = bool(order.command)
    with places(base, leaves_files=external or not backend.isolated) as (folder, scratch):
        try:
            command, instance = prepare(order, folder, scratch, backend)
        except (InputError, OSError) as error:
            return Outcome("error", str(error), backend=backend.name)
        pipes = Pipes(external=external)
        start = time.monotonic()
        with Monitor(pipes, order.limits, start, control, external=external) as watch:
            try:
                job = job_of(order, instance, start + order.limits.timeout_s - order.limits.margin_s())
                run = backend.start(order, job, command, scratch, pipes)
            except (OSError, LookupError) as error:
                raise BackendError(f"{backend.name}: the run cannot be started ({error!r})") from None
            finally:
                pipes.started()
            outcome = watch.wait(run)
    outcome.backend, outcome.enforced = backend.name, dict(run.enforced)
    return outcome


@contextlib.contextmanager
def places(base: Path, *, leaves_files: bool) -> Iterator[tuple[Path, Path]]:
    """Folders for the copy of an instance and for a run's own files; new ones where something would be left in them."""
    if not leaves_files:
        base.joinpath("scratch").mkdir(exist_ok=True)
        yield base, base / "scratch"
        return
    folder = Path(tempfile.mkdtemp(dir=base))
    try:
        scratch = folder / "scratch"
        scratch.mkdir()
        yield folder, scratch
    finally:
        remove(folder)


def prepare(order: Order, folder: Path, scratch: Path, backend: Any) -> tuple[list[str], Path]:
    """The command of an external solver, and where the instance is; a copy of it for whoever could write to it."""
    from harness.sandbox.external_input import fill_command, write_instance

    instance = Path(order.instance)
    if order.command:
        return fill_command(order, write_instance(order, folder)), instance
    return [], instance if backend.isolated else shutil.copyfile(instance, scratch / instance.name)


def job_of(order: Order, instance: Path, deadline: float) -> dict[str, Any]:
    """What the child side of a run gets, see `harness.sandbox.worker`."""
    given = ("checksum", "track", "options", "solver", "file", "seed", "settings")
    job = {name: getattr(order, name) for name in given} | {"instance": str(instance), "deadline": deadline}
    return {**job, "cores": order.limits.cores, "memory": order.limits.memory_mib}


if __name__ == "__main__":
    os._exit(main(sys.argv[1:]))  # a thread that waits for a run without end does not hold it up
