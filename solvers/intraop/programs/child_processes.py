"""Child processes that compute one array each: forked to share memory with the parent, and always reaped."""

from __future__ import annotations

import ctypes
import os
import select
import signal
import time
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, NoReturn

import numpy as np

from shardmark.instances.files.columns import Ints

#: Seconds between asking a child to stop and killing it.
GRACE = 0.5
#: Consecutive failures of children that were not asked to stop, from which on they count as a defect.
TOLERATED = 3

PR_SET_PDEATHSIG = 1
STOPPED_EARLY = 3


@dataclass(eq=False)
class _Child:
    tag: Any
    process: int
    pipe: int
    stop_at: float
    asked: bool = False
    received: bytearray = field(default_factory=bytearray)


class Workers:
    """Runs jobs in forked children; leaving the context kills and reaps the remaining ones."""

    def __init__(self) -> None:
        self._children: list[_Child] = []
        self._failures = 0

    def __enter__(self) -> Workers:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for child in self._children:
            os.kill(child.process, signal.SIGKILL)
            child.asked = True  # so its end does not count as a failure
        while self._children:
            self._reap(self._children[0])

    def __len__(self) -> int:
        return len(self._children)

    def launch(self, tag: Any, job: Callable[[], Ints | None], seconds: float) -> None:
        """Run ``job`` in a child, which gets SIGINT after ``seconds`` and is killed if it ignores that.

        ``job`` returns an int64 array or None; ``tag`` comes back with the result.
        """
        reading, writing = os.pipe()
        parent = os.getpid()
        before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])  # it waits until the child can take it
        try:
            with warnings.catch_warnings():  # about forks with threads: the child runs no code that waits for one
                warnings.simplefilter("ignore", DeprecationWarning)
                process = os.fork()
            if process == 0:
                _work(job, reading, writing, parent, before)
            os.close(writing)
            self._children.append(_Child(tag, process, reading, time.monotonic() + seconds))
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def collect(self, until: float) -> list[tuple[Any, Ints | None]]:
        """Wait until a child ends, at most until a time; ``(tag, array)`` of each ended child, array None if failed."""
        done: list[tuple[Any, Ints | None]] = []
        while self._children and not done and time.monotonic() < until:
            wake = min([until, *(child.stop_at for child in self._children)])
            pipes = {child.pipe: child for child in self._children}
            for pipe in select.select(list(pipes), [], [], max(0.0, wake - time.monotonic()))[0]:
                chunk = os.read(pipe, 1 << 20)
                pipes[pipe].received += chunk
                if not chunk:
                    done.append((pipes[pipe].tag, self._reap(pipes[pipe])))
            self._stop_late()
        return done

    def _stop_late(self) -> None:
        now = time.monotonic()
        for child in self._children:
            if child.stop_at <= now:
                os.kill(child.process, signal.SIGKILL if child.asked else signal.SIGINT)
                child.asked, child.stop_at = True, now + GRACE

    def _reap(self, child: _Child) -> Ints | None:
        """Reap a child and return what it sent."""
        self._children.remove(child)
        os.close(child.pipe)
        status = os.waitstatus_to_exitcode(os.waitpid(child.process, 0)[1])
        if status == 0 or child.asked:
            self._failures = 0
        else:
            self._failures += 1
        if self._failures > TOLERATED:
            raise RuntimeError(f"{self._failures} children in a row failed, the last with exit status {status}")
        return np.frombuffer(bytes(child.received), dtype=np.int64) if status == 0 and child.received else None


def in_child(job: Callable[[], Ints | None], seconds: float, until: float) -> Ints | None:
    """Run a job in one child, asked to stop after ``seconds``; None if no result has come by ``until``."""
    with Workers() as workers:
        workers.launch(None, job, seconds)
        answers = workers.collect(until)
    return answers[0][1] if answers else None


def _work(job: Callable[[], Ints | None], reading: int, writing: int, parent: int, unblocked: set[int]) -> NoReturn:
    """Child side: compute, send, and exit without the parent's clean-up."""
    status = 1
    try:
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(status)
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a parent may ignore it
        signal.pthread_sigmask(signal.SIG_SETMASK, unblocked)
        os.close(reading)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        result = job()
        if result is not None:
            with os.fdopen(writing, "wb") as pipe:
                pipe.write(np.ascontiguousarray(result, dtype=np.int64).tobytes())
        status = 0
    except KeyboardInterrupt:
        status = STOPPED_EARLY
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)
