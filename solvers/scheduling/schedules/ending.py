"""When a solver has to stop so that its process has ended by the deadline, however busy the machine is."""

from __future__ import annotations

import time

from solvers.registry import Run

#: Seconds of computing that ending takes: the last schedule, threads, and what the interpreter clears away (measured:
#: 0.04 to 0.09); how many times as long that takes at most on a busy machine; shares of the time left that are kept
#: back at least and at most.
ENDING, BUSIEST, LEAST, MOST = 0.08, 4.0, 0.01, 0.3


class Ending:
    """Looks from its beginning at how much a run computes in the time that passes."""

    def __init__(self, run: Run) -> None:
        self._run, self._time, self._computed = run, time.monotonic(), time.process_time()
        self._least, self._most = LEAST * run.remaining(), MOST * run.remaining()

    @property
    def busy(self) -> float:
        """How many times as long as its computing what has been done took."""
        passed, computed = time.monotonic() - self._time, time.process_time() - self._computed
        return min(BUSIEST, max(1.0, passed * self._run.cores / max(1e-9, computed)))

    def remaining(self) -> float:
        """Seconds until the solver has to stop; negative afterwards."""
        return self._run.deadline - time.monotonic() - min(self._most, self._least + ENDING * self.busy)
