"""Sample how many threads of a run want a core at the same time, which CPU time does not show on a busy machine."""

from __future__ import annotations

import contextlib
import os
import threading
from pathlib import Path
from types import TracebackType

import psutil

PERIOD_S = 0.05


class BusyThreads:
    """Context that samples the number of running and runnable threads of the runs under this process.

    This process's children are supervisors and do not count; their descendants do. ``counts`` holds the samples.
    """

    def __init__(self) -> None:
        self.counts: list[int] = []
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)

    def __enter__(self) -> BusyThreads:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._end.set()
        self._thread.join()

    @property
    def mean(self) -> float | None:
        """Mean number of busy threads over the samples that found any; None if fewer than five did."""
        seen = [count for count in self.counts if count]
        return sum(seen) / len(seen) if len(seen) >= 5 else None

    def _sample(self) -> None:
        while not self._end.wait(PERIOD_S):
            with contextlib.suppress(psutil.Error):
                runs = [
                    run for supervisor in psutil.Process().children() for run in supervisor.children(recursive=True)
                ]
                self.counts.append(sum(_running(run.pid) for run in runs))


def _running(pid: int) -> int:
    """The number of threads of a process in the state R, 0 if it has ended; threads that end meanwhile do not count.

    The state follows the name, which may hold anything, in parentheses.
    """
    count = 0
    with contextlib.suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            with contextlib.suppress(OSError):
                stat = Path(f"/proc/{pid}/task/{thread}/stat").read_text(errors="replace")
                count += stat.rpartition(")")[2].split()[0] == "R"
    return count
