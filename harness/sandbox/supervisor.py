"""The supervisor: a process that carries out one run at a time, and the client that starts it and sends it orders.

The referee verifies in its own process; the supervisor keeps the time of a run and does nothing else, so that reading
a large instance in the referee never delays the time stamp of a message.
``python -m harness.sandbox.supervisor BACKEND ISOLATION SOCKET`` serves orders on a socket until it closes. A
message is the length of a JSON header (unsigned 32-bit, big-endian), the header, and the payloads whose sizes it lists.
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
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, NoReturn
from uuid import uuid4

import psutil

from harness.sandbox.backends import control_groups
from harness.sandbox.contract import SUPERVISOR_VARIABLE, THREAD_VARIABLES, BackendError, Cancelled, Order, Outcome
from harness.sandbox.memory import resident_bytes
from instances.catalog import CACHE_VARIABLE, cache_folder
from instances.errors import InputError

LENGTH = struct.Struct(">I")
#: Seconds beyond a run's time limit within which a supervisor must reply: BenchExec may take 20 s to clear up.
GRACE_S = 30.0
#: Bytes that a supervisor may grow before it is replaced: its forks start with its memory, which counts as theirs.
MAX_GROWTH = 8 << 20
#: Environment variables passed on to a run: search paths, locale, and those of this project.
PASSED_VARIABLES = re.compile(
    "PATH|HOME|USER|LOGNAME|TMPDIR|TZ|LANG|LANGUAGE|LC_.+|PYTHON.+|VIRTUAL_ENV|LD_LIBRARY_PATH|SHARDMARK_.+"
    "|XDG_RUNTIME_DIR|DBUS_SESSION_BUS_ADDRESS"  # an ordinary user requests control groups through these two
)


class InvalidReply(Exception):
    """A supervisor sent a malformed reply."""


REPLY_ERRORS = (OSError, EOFError, InvalidReply)


class Supervisor:
    """A client's handle on one supervisor process, which is started when it is first needed."""

    def __init__(self, backend: str = "posix", isolation: str = "auto") -> None:
        self.backend, self.isolation = backend, isolation
        self.process: subprocess.Popen[bytes] | None = None
        self.socket: socket.socket | None = None
        self.folder = ""
        self.cores = 0

    def __enter__(self) -> Supervisor:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def run(self, order: Order, cancel: threading.Event | None = None) -> Outcome:
        """Carry out one run; raise Cancelled once ``cancel`` is set."""
        failed = "no supervisor could be started"
        try:
            link = self._connect(order.limits.cores, cancel)
            failed = "its supervisor ended"
            send(link, asdict(order))
            reply, payloads = self._receive(link, order.limits.timeout_s, cancel)
            with reply_checked():
                retire, arrivals = reply.pop("retire"), reply.pop("arrivals")
                outcome = Outcome(**reply, messages=list(zip(arrivals, payloads, strict=True)))
        except BackendError as error:
            return Outcome("error", str(error), backend=self.backend)
        except REPLY_ERRORS as error:
            self._kill()
            return Outcome("lost", f"{failed} ({error})", backend=self.backend)
        except BaseException:
            self.close()
            raise
        if retire:
            self.close()
        return outcome

    def close(self) -> None:
        """End the supervisor and the run under way."""
        if self.socket is not None:
            self.socket.close()
            self.socket = None
        if self.process is not None:
            try:
                self.process.wait(timeout=GRACE_S)
            except subprocess.TimeoutExpired:
                self._kill()
        self.process = None
        if self.folder:
            control_groups.remove_recorded(Path(self.folder))
        remove(self.folder)

    def _kill(self) -> None:
        """Kill a supervisor that no longer replies, and every process whose environment names its folder."""
        if self.process is not None:
            self.process.kill()
            for process in psutil.process_iter():
                with contextlib.suppress(psutil.Error, OSError):
                    if process.environ().get(SUPERVISOR_VARIABLE) == self.folder and process.pid != os.getpid():
                        process.kill()
            self.process.wait()
        self.close()

    def _connect(self, cores: int, cancel: threading.Event | None) -> socket.socket:
        """Return the link to a supervisor that waits for an order.

        A supervisor that has ended or has sent anything since its last run is replaced. If one fails to start, a
        second is tried: no run has begun, and the next run is not to blame for damage by an earlier one.
        """
        if self.process is not None and self.socket is not None:
            if self.process.poll() is not None or select.select([self.socket], [], [], 0.0)[0]:
                self._kill()
            elif self.cores == cores:
                return self.socket
        self.close()
        try:
            return self._start(cores, cancel)
        except REPLY_ERRORS:
            self._kill()
            return self._start(cores, cancel)

    def _start(self, cores: int, cancel: threading.Event | None = None) -> socket.socket:
        self.socket, theirs = socket.socketpair()
        self.socket.settimeout(GRACE_S)
        self.cores = cores
        self.folder = str(Path(tempfile.gettempdir(), f"shardmark-{uuid4().hex}"))
        module = ["-P", "-m", "harness.sandbox.supervisor", self.backend, self.isolation]
        with theirs:
            self.process = subprocess.Popen(
                [sys.executable, *module, str(theirs.fileno())],
                env=environment(1 if self.backend == "benchexec" else cores) | {SUPERVISOR_VARIABLE: self.folder},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )
        ready, _ = self._receive(self.socket, 0.0, cancel)
        with reply_checked():
            error = ready["error"]
        if error:
            self.close()
            raise BackendError(error)
        return self.socket

    @staticmethod
    def _receive(
        link: socket.socket, seconds: float, cancel: threading.Event | None
    ) -> tuple[dict[str, Any], list[bytes]]:
        """Return a reply due within ``seconds``; raise Cancelled once ``cancel`` is set, or one of `REPLY_ERRORS`."""
        end = time.monotonic() + seconds + GRACE_S
        while not select.select([link], [], [], 0.1)[0]:
            if cancel is not None and cancel.is_set():
                raise Cancelled
            if time.monotonic() > end:
                raise TimeoutError("no reply")
        with reply_checked():
            return receive(link)


@contextlib.contextmanager
def reply_checked() -> Iterator[None]:
    """Raise InvalidReply if a reply is malformed: a run without isolation may have changed the supervisor's memory."""
    try:
        yield
    except (AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        raise InvalidReply(f"it sent a malformed reply: {error!r}") from None


def remove(folder: str | Path) -> None:
    """Delete a folder with whatever in it can be deleted, even if nested deeper than Python can follow."""
    with contextlib.suppress(RecursionError):
        shutil.rmtree(folder, ignore_errors=True)
    if os.path.lexists(folder):
        with contextlib.suppress(OSError):
            subprocess.run(["rm", "-rf", "--", folder], stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def environment(cores: int) -> dict[str, str]:
    """Return the environment of a supervisor and its runs; it holds no other variable of the referee's, no secret.

    ``cores`` is the number of threads of the libraries that the supervisor loads and its forks inherit. BenchExec
    clones the supervisor without the hooks of a fork: libraries would wait for threads that are not in the clone, so
    a supervisor of BenchExec has one thread, and a run gets its own number when it begins.

    ``SHARDMARK_ENVIRONMENT`` names further variables to pass on, separated by spaces, such as the place of a licence.
    PYTHONHASHSEED is 0: the same text has the same hash in every run. A run has its own HOME, so SHARDMARK_CACHE tells
    it where the user's cache with the arrays of its instance is.
    """
    extra = os.environ.get("SHARDMARK_ENVIRONMENT", "").split()
    passed = {name: value for name, value in os.environ.items() if PASSED_VARIABLES.fullmatch(name) or name in extra}
    passed = {"PATH": os.defpath} | passed
    with contextlib.suppress(InputError):  # the user has no cache
        passed[CACHE_VARIABLE] = str(cache_folder())
    return passed | dict.fromkeys(THREAD_VARIABLES, str(cores)) | {"PYTHONHASHSEED": "0"}


def send(link: socket.socket, header: Mapping[str, Any], payloads: tuple[bytes, ...] = ()) -> None:
    """Write one message."""
    text = json.dumps({**header, "sizes": [len(payload) for payload in payloads]}).encode()
    link.sendall(LENGTH.pack(len(text)) + text)
    for payload in payloads:
        link.sendall(payload)


def receive(link: socket.socket) -> tuple[dict[str, Any], list[bytes]]:
    """Read one message: its header and payloads; EOFError if the other side has closed the socket."""
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


# ---------------------------------------------------------------- in the supervisor process


def main(arguments: list[str]) -> int:
    """Serve orders until the client closes the socket."""
    name, isolation, number = arguments
    link = socket.socket(fileno=int(number))
    folder = Path(os.environ[SUPERVISOR_VARIABLE])  # made here, so that a client killed meanwhile leaves none behind
    try:
        folder.mkdir(mode=0o700)
        with (
            contextlib.closing(backend_of(name, isolation)) as backend,
            contextlib.suppress(EOFError, ConnectionError, Cancelled),
        ):
            serve(link, backend, folder)
    except (BackendError, ImportError) as error:
        send(link, {"error": str(error)})
        return 1
    finally:
        control_groups.remove_recorded(folder)
        remove(folder)
    return 0


def serve(link: socket.socket, backend: Any, folder: Path) -> NoReturn:
    """Carry out orders; raise EOFError, ConnectionError or Cancelled once the client has gone."""
    gc.collect()
    gc.freeze()  # keeps the collector from writing to pages that forks share with this process
    at_start = resident_bytes()
    send(link, {"error": ""})
    while True:
        header, _ = receive(link)
        try:
            outcome = carry_out(Order.from_json(header), backend, folder, link.fileno())
        except BackendError as error:
            outcome = Outcome("error", str(error), backend=backend.name)
        reply = {key: value for key, value in vars(outcome).items() if key != "messages"}
        reply["arrivals"] = [arrival for arrival, _ in outcome.messages]
        reply["retire"] = outcome.stop == "error" or resident_bytes() > at_start + MAX_GROWTH
        send(link, reply, tuple(payload for _, payload in outcome.messages))


def backend_of(name: str, isolation: str) -> Any:
    """Return the named backend; ImportError if a package it needs is missing."""
    if name == "benchexec":
        from harness.sandbox.backends.benchexec_backend import BenchexecBackend

        return BenchexecBackend(isolation)
    from harness.sandbox.backends.fork_backend import ForkBackend

    return ForkBackend(isolation)


def carry_out(order: Order, backend: Any, folder: Path, control: int) -> Outcome:
    """Carry out one run; ``folder`` is the supervisor's, ``control`` a file that becomes readable to cancel the run."""
    from harness.sandbox.monitor import Monitor, Pipes

    external = bool(order.command)
    with run_folders(folder, keep=not external and backend.isolated) as (outside, scratch):
        try:
            command, order = prepare(order, outside, scratch, backend)
        except (InputError, OSError) as error:
            return Outcome("error", str(error), backend=backend.name)
        pipes = Pipes(external=external)
        start = time.monotonic()
        with Monitor(pipes, order.limits, start, control, external=external) as monitor:
            try:
                deadline = start + order.limits.timeout_s - order.limits.margin_s()
                run = backend.start(order, deadline, command, scratch, pipes)
            except (OSError, LookupError) as error:
                raise BackendError(f"{backend.name}: the run cannot be started ({error!r})") from None
            finally:
                pipes.close_run_ends()
            outcome = monitor.wait(run)
    outcome.backend, outcome.enforced = backend.name, dict(run.enforced)
    return outcome


@contextlib.contextmanager
def run_folders(folder: Path, *, keep: bool) -> Iterator[tuple[Path, Path]]:
    """Yield a folder for the copy of an instance and a scratch folder; with ``keep`` the same ones for every run."""
    if keep:
        folder.joinpath("scratch").mkdir(exist_ok=True)
        yield folder, folder / "scratch"
        return
    outside = Path(tempfile.mkdtemp(dir=folder))
    try:
        scratch = outside / "scratch"
        scratch.mkdir()
        yield outside, scratch
    finally:
        remove(outside)


def prepare(order: Order, outside: Path, scratch: Path, backend: Any) -> tuple[list[str], Order]:
    """Return the command of an external solver ([] for a Python solver) and the order with the path the run reads.

    A run that could write to the instance gets a copy.
    """
    from harness.sandbox.external_input import fill_command, write_instance

    if order.command:
        return fill_command(order, write_instance(order, outside)), order
    if backend.isolated:
        return [], order
    return [], replace(order, instance=str(shutil.copyfile(order.instance, scratch / Path(order.instance).name)))


if __name__ == "__main__":
    os._exit(main(sys.argv[1:]))  # a thread that waits for a run that cannot be ended does not keep the process
