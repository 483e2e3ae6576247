"""Common frame of all methods: bounds reported as they grow, unsolvable instances declined with the reason."""

from __future__ import annotations

import time
from typing import Protocol

from instances.intraop import Instance
from solvers.intraop.network.infeasibility import contradiction, lack_of_memory
from solvers.intraop.network.memory import Timeline
from solvers.intraop.network.model import IMPOSSIBLE
from solvers.intraop.search.construction import cheapest
from solvers.intraop.search.incumbent import Incumbent
from solvers.registry import Declined, Run

#: Fraction of the time for finding the edge by which nothing is left.
REASON = 0.3


def reserve(run: Run, *, share: float = 0.02, least: float = 0.2, most: float = 1.0) -> float:
    """Seconds to keep back at the end, for what does not stop at once: a share of the time left, within a range."""
    return min(max(share * run.remaining(), least), most)


class BestBound:
    """Reports lower bounds, in costs of the instance, as they grow; ``best`` is the greatest so far."""

    def __init__(self, run: Run, least: int) -> None:
        self._run, self.best = run, least
        run.bound(least)

    def offer(self, bound: int) -> None:
        """Report a bound if it is better than the best so far."""
        if bound > self.best:
            self.best = bound
            self._run.bound(bound)


def first_incumbent(instance: Instance, run: Run, timeline: Timeline) -> Incumbent:
    """The record of a run, the strategies of least memory reported; Declined where even they use too much."""
    incumbent = Incumbent(instance, run, timeline)
    incumbent.offer(cheapest(instance.usage, instance.strategy_start))
    if incumbent.excess:
        decline_without_memory(instance)
    return incumbent


def decline_without_memory(instance: Instance) -> None:
    """Raise Declined, with the time step, where the strategies of least memory use too much."""
    if reason := lack_of_memory(instance):
        raise Declined(reason)


class Attempt(Protocol):
    """Solves an instance, or bounds it; ``tolerant``: entries of 10^17 and more are allowed.

    Returns False if it has proved that nothing fits without entries that are not allowed.
    """

    def __call__(self, *, tolerant: bool) -> bool: ...


def attempt_or_decline(
    instance: Instance, run: Run, timeline: Timeline, best_bound: BestBound, attempt: Attempt, *, least_bad: bool
) -> None:
    """Attempt an instance, and where entries of 10^17 and more cannot be avoided, once more and tolerant of them.

    Where all other entries together cost 10^17 or more, those are costs like others; see `_model.build`. That these
    cannot be avoided is no proof where memory is rounded. Elsewhere it is a bound, the tolerant attempt is made only to
    find the ``least_bad`` assignment, and at last Declined is raised with the edge.
    """
    if attempt(tolerant=False):
        return
    if not timeline.exact:
        attempt(tolerant=True)
        return
    best_bound.offer(IMPOSSIBLE)
    reason = contradiction(instance, timeline, time.monotonic() + REASON * run.remaining())
    if least_bad:
        attempt(tolerant=True)
    raise Declined(reason)
