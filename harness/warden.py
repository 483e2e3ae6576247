"""The process of one slot, which carries out one run at a time, and the client that speaks to it.

The referee judges in its own process; what keeps a run's time must do nothing else, so that reading a large instance
here never delays a stamp there. ``python -m harness.warden BACKEND ISOLATION SOCKET`` serves orders on a socket until
it closes. A message is the length of a JSON header (unsigned 32-bit, big-endian), the header, and the bytes that it
announces.
"""

from __future__ import annotations

import json
import os
import select
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from harness.limits import THREAD_VARIABLES, Cancelled, Limits, Order, Outcome, Unable
from instances.errors import InputError

LENGTH = struct.Struct(">I")
GRACE_S = 30.0  # beyond a run's limit, for a warden to answer


class Warden:
    """A client's hold on one warden process, which is started when it is needed."""

    def __init__(self, backend: str = "posix", isolation: str = "auto") -> None:
        self.backend = backend
        self.isolation = isolation
        self.process: subprocess.Popen[bytes] | None = None
        self.socket: socket.socket | None = None
        self.cores = 0

    def __enter__(self) -> Warden:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def run(self, order: Order, cancel: threading.Event | None = None) -> Outcome:
        """Carry out one run; raises Cancelled once ``cancel`` is set."""
        try:
            if self.process is None or self.cores != order.limits.cores:
                self.close()
                self._start(order.limits.cores)
            assert self.socket is not None
            send(self.socket, asdict(order))
            self._wait(self.socket, time.monotonic() + order.limits.timeout_s + GRACE_S, cancel)
            answer, payloads = receive(self.socket)
        except Unable as error:
            return Outcome("error", str(error), backend=self.backend)
        except (OSError, EOFError) as error:
            self.close()
            return Outcome("lost", f"the process that watched it ended ({error})", backend=self.backend)
        except BaseException:
            self.close()
            raise
        grown = answer.pop("grown")
        arrivals = answer.pop("arrivals")
        if grown:
            self.close()
        return Outcome(**answer, messages=list(zip(arrivals, payloads, strict=True)))

    def close(self) -> None:
        """End the warden and whatever it runs."""
        if self.socket is not None:
            self.socket.close()
            self.socket = None
        if self.process is not None:
            try:
                self.process.wait(timeout=GRACE_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
            self.process = None

    def _start(self, cores: int) -> None:
        self.socket, theirs = socket.socketpair()
        self.cores = cores
        with theirs:
            self.process = subprocess.Popen(
                [sys.executable, "-P", "-m", "harness.warden", self.backend, self.isolation, str(theirs.fileno())],
                env={**os.environ, **dict.fromkeys(THREAD_VARIABLES, str(cores)), "PYTHONUNBUFFERED": "1"},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )
        ready, _ = receive(self.socket)
        if ready["unable"]:
            self.close()
            raise Unable(ready["unable"])

    def _wait(self, link: socket.socket, end: float, cancel: threading.Event | None) -> None:
        """Wait for an answer; Cancelled if that is no longer wanted, TimeoutError if none comes."""
        while not select.select([link], [], [], 0.1)[0]:
            if cancel is not None and cancel.is_set():
                raise Cancelled
            if time.monotonic() > end:
                assert self.process is not None
                self.process.kill()
                raise TimeoutError("no answer")


def send(link: socket.socket, header: Mapping[str, Any], payloads: tuple[bytes, ...] = ()) -> None:
    """Write one message."""
    text = json.dumps({**header, "sizes": [len(payload) for payload in payloads]}).encode()
    link.sendall(LENGTH.pack(len(text)) + text)
    for payload in payloads:
        link.sendall(payload)


def receive(link: socket.socket) -> tuple[dict[str, Any], list[bytes]]:
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


# ---------------------------------------------------------------- the warden's side


def main(arguments: list[str]) -> int:
    """Serve orders until the referee closes the socket."""
    name, isolation, number = arguments
    link = socket.socket(fileno=int(number))
    try:
        backend = backend_of(name, isolation)
    except ImportError as error:
        send(link, {"unable": str(error)})
        return 1
    send(link, {"unable": ""})
    while True:
        try:
            header, _ = receive(link)
        except (EOFError, ConnectionError):
            return 0
        limits = Limits(**header.pop("limits"))
        order = Order(**{**header, "cpus": tuple(header["cpus"]), "command": tuple(header["command"])}, limits=limits)
        try:
            outcome = carry_out(order, backend, link.fileno())
        except Cancelled:
            return 0
        except Unable as error:
            outcome = Outcome("error", str(error), backend=name)
        answer = {key: value for key, value in vars(outcome).items() if key != "messages"}
        answer["arrivals"] = [arrival for arrival, _ in outcome.messages]
        send(link, {**answer, "grown": False}, tuple(payload for _, payload in outcome.messages))


def backend_of(name: str, isolation: str) -> Any:
    """The backend of that name; ImportError if what it needs is not there."""
    if name == "benchexec":
        from harness.cgroup import Benchexec

        return Benchexec(isolation)
    from harness.posix import Posix

    return Posix()


def carry_out(order: Order, backend: Any, control: int) -> Outcome:
    """One run from its start to its end."""
    from harness.handover import filled_in, hand_over
    from harness.watch import Pipes, Watch

    external = bool(order.command)
    with tempfile.TemporaryDirectory(prefix="shardmark-", ignore_cleanup_errors=True) as folder:
        scratch = Path(folder, "scratch")
        scratch.mkdir()
        try:
            command = filled_in(order, hand_over(order, Path(folder))) if external else []
        except InputError as error:
            return Outcome("error", str(error))
        pipes = Pipes(external=external)
        start = time.monotonic()
        with Watch(pipes, order.limits, start, control, external=external) as watch:
            try:
                job = job_of(order, start + order.limits.timeout_s - order.limits.margin_s())
                run = backend.start(order, job, command, scratch, pipes)
            finally:
                pipes.started()
            outcome = watch.until_end(run)
    outcome.backend, outcome.enforced = backend.name, dict(run.enforced)
    return outcome


def job_of(order: Order, deadline: float) -> dict[str, Any]:
    """What the child side of a run gets, see `harness.worker`."""
    given = ("instance", "checksum", "track", "options", "solver", "file", "seed")
    job = {name: getattr(order, name) for name in given}
    return {**job, "cores": order.limits.cores, "memory": order.limits.memory_mib, "deadline": deadline}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
