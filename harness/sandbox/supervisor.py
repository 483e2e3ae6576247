"""The supervisor: a process that carries out one run at a time, and the client that starts it and sends it orders.

The referee verifies in its own process; the supervisor keeps the time of a run and does nothing else, so that reading
a large instance in the referee never delays the time stamp of a message.
``python -m shardmark.harness.sandbox.supervisor BACKEND ISOLATION SOCKET`` serves orders on a socket until it closes.
"""

from __future__ import annotations

import contextlib
import gc
import os
import re
import select
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, NoReturn
from uuid import uuid4

import psutil

from shardmark.harness.sandbox.backends import control_groups
from shardmark.harness.sandbox.contract import (
    SUPERVISOR_VARIABLE,
    THREAD_VARIABLES,
    BackendError,
    Cancelled,
    Order,
    Outcome,
)
from shardmark.harness.sandbox.link import Relay, Watch, receive, send
from shardmark.harness.sandbox.memory import resident_bytes
from shardmark.instances.catalog import CACHE_VARIABLE, cache_folder
from shardmark.instances.errors import InputError

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

    def run(self, order: Order, cancel: threading.Event | None = None, watch: Watch | None = None) -> Outcome:
        """Carry out one run; raise Cancelled once ``cancel`` is set. A ``watch`` gets news of it, and may end it."""
        failed = "no supervisor could be started"
        try:
            link = self._connect(order.limits.cores, cancel)
            failed = "its supervisor ended"
            send(link, asdict(order) | {"watched": watch is not None})
            reply, payloads = self._receive(link, order.limits.timeout_s, cancel, watch)
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
        module = ["-P", "-m", "shardmark.harness.sandbox.supervisor", self.backend, self.isolation]
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
        link: socket.socket, seconds: float, cancel: threading.Event | None, watch: Watch | None = None
    ) -> tuple[dict[str, Any], list[bytes]]:
        """Return a reply due within ``seconds``; raise Cancelled once ``cancel`` is set, or one of `REPLY_ERRORS`."""
        end = time.monotonic() + seconds + GRACE_S
        asked = halted = False
        while True:
            if watch is not None and not halted:
                wanted, halt = watch.tick()
                if halt or (wanted and not asked):
                    asked, halted = True, bool(halt)
                    with contextlib.suppress(OSError):  # a supervisor that has ended: the reply says so, or its lack
                        send(link, {"halt": halt} if halt else {"news": True})
            while not select.select([link], [], [], 0.1)[0]:
                if cancel is not None and cancel.is_set():
                    raise Cancelled
                if time.monotonic() > end:
                    raise TimeoutError("no reply")
                if watch is not None:
                    break
            else:
                with reply_checked():
                    header, payloads = receive(link)
                    if watch is None or not asked or "news" not in header:
                        return header, payloads
                    news = list(zip(map(float, header["news"]), payloads, strict=True))
                watch.take(news)
                asked = False


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
        if "track" not in header:  # a request about a run that has ended meanwhile
            continue
        relay = Relay(link) if header.pop("watched") else None
        try:
            outcome = carry_out(Order.from_json(header), backend, folder, link.fileno(), relay)
        except BackendError as error:
            outcome = Outcome("error", str(error), backend=backend.name)
        reply = {key: value for key, value in vars(outcome).items() if key != "messages"}
        reply["arrivals"] = [arrival for arrival, _ in outcome.messages]
        reply["retire"] = outcome.stop == "error" or resident_bytes() > at_start + MAX_GROWTH
        send(link, reply, tuple(payload for _, payload in outcome.messages))


def backend_of(name: str, isolation: str) -> Any:
    """Return the named backend; ImportError if a package it needs is missing."""
    if name == "benchexec":
        from shardmark.harness.sandbox.backends.benchexec_backend import BenchexecBackend

        return BenchexecBackend(isolation)
    from shardmark.harness.sandbox.backends.posix_backend import ForkBackend

    return ForkBackend(isolation)


def carry_out(order: Order, backend: Any, folder: Path, control: int, relay: Relay | None = None) -> Outcome:
    """Carry out one run; ``folder`` is the supervisor's.

    ``control`` is a file that becomes readable to cancel the run; with a ``relay``, which is on the same socket, when
    the client has a request, or has gone.
    """
    from shardmark.harness.sandbox.monitor import Monitor, Pipes

    external = bool(order.command)
    with run_folders(folder, keep=not external and backend.isolated) as (outside, scratch):
        try:
            command, order = prepare(order, outside, scratch, backend)
        except (InputError, OSError) as error:
            return Outcome("error", str(error), backend=backend.name)
        pipes = Pipes(external=external)
        start = time.monotonic()
        with Monitor(pipes, order.limits, start, control, external=external, relay=relay) as monitor:
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
    from shardmark.harness.sandbox.external_input import fill_command, write_instance

    if order.command:
        return fill_command(order, write_instance(order, outside)), order
    if backend.isolated:
        return [], order
    return [], replace(order, instance=str(shutil.copyfile(order.instance, scratch / Path(order.instance).name)))


if __name__ == "__main__":
    os._exit(main(sys.argv[1:]))  # a thread that waits for a run that cannot be ended does not keep the process
