"""A run in progress: verified costs and bounds so far, and an early end if a bound proves a cost optimal."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from shardmark.harness.results.claims import contradicts, gap, optimal
from shardmark.harness.results.judgement import Reports
from shardmark.harness.results.records import decimal
from shardmark.harness.sandbox.contract import Outcome
from shardmark.leaderboard.text import exact
from shardmark.outcomes import Cost
from shardmark.problems import Stated

PAUSE_S = 0.2  # least time in seconds between two looks at a run
COST_RATIO = 4.0  # pause after a look in units of its duration: verifying takes at most a fifth of a core


@dataclass(frozen=True)
class Progress:
    """A run in progress.

    ``elapsed_s``, ``timeout_s``  seconds since it began, and its limit
    ``cost``         least verified cost so far, reported ``found_s`` seconds after the start; None if there is none
    ``lower_bound``  greatest known lower bound, of the run or known before it; None if there is none
    """

    elapsed_s: float
    timeout_s: float
    cost: Cost | None
    found_s: float | None
    lower_bound: Cost | None

    @property
    def gap(self) -> float | None:
        """See `shardmark.RunResult.gap`."""
        return gap(self.cost, self.lower_bound)


#: Called about ten times a second; a sentence that it returns ends the run, and is its reason.
Show = Callable[[Progress], str | None]


class Live:
    """Verifies what a run reports, shows it, and ends the run as soon as a bound proves its cost optimal.

    ``known`` is a lower bound known before the run, with its source; None if there is none. With ``certify``, the run
    goes on, as its certificate may come last.

    Implements `shardmark.harness.sandbox.link.Watch`.
    """

    def __init__(
        self, instance: Any, timeout_s: float, known: Stated | None, show: Show | None, certify: bool = False
    ) -> None:
        self.timeout_s, self.known, self.show, self.certify = timeout_s, known, show, certify
        self.reports = Reports(instance, Outcome())
        self.found_s: float | None = None
        self.start: float | None = None  # the first tick
        self.next_look = 0.0

    def take(self, news: Sequence[tuple[float, bytes]]) -> None:
        """Verify the newest solution, and take the newest bound."""
        began, before = time.monotonic(), self.reports.cost
        for arrival, payload in news:
            self.reports.take(arrival, payload)
            if self.reports.cost != before:
                self.found_s, before = arrival, self.reports.cost
        now = time.monotonic()
        self.next_look = now + max(PAUSE_S, COST_RATIO * (now - began))

    def tick(self) -> tuple[bool, str]:
        """Show the progress; return True to request new reports, and a sentence to end the run with, or ""."""
        now, cost = time.monotonic(), self.reports.cost
        self.start = now if self.start is None else self.start
        bound, whose = self.reports.lower_bound, ""
        holds = self.known is not None and (cost is None or not contradicts(self.known[0], cost, isinstance(cost, int)))
        if self.known is not None and holds and (bound is None or self.known[0] > bound):
            bound, whose = self.known[0], f" ({self.known[1]})"
        words = None
        if self.show is not None:
            words = self.show(Progress(now - self.start, self.timeout_s, cost, self.found_s, bound))
        if optimal(cost, bound) and not self.certify:
            shown = f"the lower bound {exact(decimal(bound))}{whose} proves the cost {exact(decimal(cost))}"
            words = f"ended early: {shown} optimal"
        return now >= self.next_look, words or ""
