"""The time at which a solver must stop so that its process ends by the deadline even on a busy machine."""

from __future__ import annotations

import time

from shardmark.solvers.registry import Run

#: CPU seconds for the last schedule, and for the end of the threads and the interpreter (measured: 0.04 to 0.09).
ENDING = 0.08

#: Greatest quotient of wall time and CPU time that is considered.
BUSIEST = 4.0

#: Least and greatest share of the time in reserve.
LEAST, MOST = 0.01, 0.3


class Deadline:
    """Estimates from the load of the machine when a run must stop."""

    def __init__(self, run: Run) -> None:
        self._run, self._time, self._computed = run, time.monotonic(), time.process_time()
        self._least, self._most = LEAST * run.remaining(), MOST * run.remaining()

    @property
    def busy(self) -> float:
        """Wall time over CPU time of the run so far, from 1 to BUSIEST."""
        passed, computed = time.monotonic() - self._time, time.process_time() - self._computed
        return min(BUSIEST, max(1.0, passed * self._run.cores / max(1e-9, computed)))

    def remaining(self) -> float:
        """Seconds until the solver has to stop; negative afterwards."""
        return self._run.deadline - time.monotonic() - min(self._most, self._least + ENDING * self.busy)
