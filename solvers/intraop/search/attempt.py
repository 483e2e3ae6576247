"""Common frame of all methods: report bounds as they grow, decline infeasible instances with the reason."""

from __future__ import annotations

import time
from typing import Protocol

from shardmark.instances.intraop import Instance
from shardmark.solvers.intraop.network.infeasibility import contradiction, lack_of_memory
from shardmark.solvers.intraop.network.memory import Timeline
from shardmark.solvers.intraop.network.model import IMPOSSIBLE
from shardmark.solvers.intraop.network.ragged import argmin
from shardmark.solvers.intraop.search.incumbent import Incumbent
from shardmark.solvers.registry import Declined, Proof, Run

#: Fraction of the time for finding the edge that makes an instance infeasible.
REASON = 0.3


def reserve(run: Run, *, share: float = 0.02, least: float = 0.2, most: float = 1.0) -> float:
    """Seconds reserved at the end, as methods do not stop at once: a share of the remaining time, clamped."""
    return min(max(share * run.remaining(), least), most)


class BestBound:
    """The best lower bound of a run, in costs of the instance; every improvement is reported."""

    def __init__(self, run: Run, least: int) -> None:
        self._run, self.best = run, least
        run.bound(least)

    def offer(self, bound: int) -> None:
        """Report a bound if it improves the best."""
        if bound > self.best:
            self.best = bound
            self._run.bound(bound)

    def certify(self, proof: Proof) -> None:
        """Report the best bound again, with its proof."""
        self._run.bound(self.best, proof)


def first_incumbent(instance: Instance, run: Run, timeline: Timeline) -> Incumbent:
    """Report the strategies of least memory and return the incumbent; Declined if even they use too much."""
    incumbent = Incumbent(instance, run, timeline)
    incumbent.offer(argmin(instance.usage, instance.strategy_start))
    if incumbent.excess:
        decline_without_memory(instance)
    return incumbent


def decline_without_memory(instance: Instance) -> None:
    """Raise Declined, naming the time step, if the strategies of least memory use too much."""
    if reason := lack_of_memory(instance):
        raise Declined(reason)


class Attempt(Protocol):
    """A method that solves or bounds an instance; ``tolerant`` allows entries of 10^17 and more.

    It returns False if it has proved that nothing fits without forbidden entries.
    """

    def __call__(self, *, tolerant: bool) -> bool: ...


def attempt_or_decline(
    instance: Instance, run: Run, timeline: Timeline, best_bound: BestBound, attempt: Attempt, *, least_bad: bool
) -> None:
    """Attempt an instance; if entries of 10^17 and more are unavoidable, attempt it again allowing them.

    If all other entries together cost 10^17 or more, these entries are ordinary costs (see `model.build`). If memory is
    rounded, the first failure proves nothing. Otherwise it proves a bound of 10^17; the second attempt is made only to
    find the ``least_bad`` assignment, and Declined is raised, naming the edge.
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
