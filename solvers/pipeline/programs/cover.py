"""Node weights that refute a cost: under them, no sets that cost less can cover all nodes, one in each place.

A place is a number of stages of a partition and what is known of each. For any weights of nodes, and needs of the
places that together exceed the weight of all nodes, some stage weighs what its place needs. If no set that costs less
than a target does so in any place, no partition costs less than the target. The best weights are the dual of covering
the nodes by such sets: all sets that a target still allows are listed by branch and bound over minimum cuts, and a
linear program moves the weights away from them until there is none.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from solvers.native import Floats, Longs
from solvers.pipeline.programs.master import Master
from solvers.pipeline.programs.set_pool import Place, SetPool
from solvers.pipeline.programs.stage_search import StageSearch, whole_weights
from solvers.registry import Run

#: Seconds of a first search, before sets are annealed.
FIRST_SECONDS = 0.2

#: Largest change of a weight at first from its value in the last proof, as a share of that value.
REACH = 0.05

#: Factor by which the reach grows if no weights are found.
GROWTH = 1.6

#: Reach below which it may double after a long search (146 nodes, 16 stages: the last search of a proof takes 2 to 3 s
#: instead of 3 to 5).
WIDEST = 0.5

#: Factor by which spare weight must grow for it.
LEAST_GAIN = 1.1

#: Largest reach.
FARTHEST = 20.0

#: Share of all weight by which the needs of the places must exceed it together, far above the tolerance of GLOP.
LEAST_SPARE = 1e-6


@dataclass(frozen=True, eq=False)
class Candidate:
    """Weights under which no known set weighs its share.

    ``weights``  shape (n,), k together
    ``shares``   of all weight, one for each place
    ``spare``    share of all weight by which those exceed the heaviest known sets together
    ``reach``    largest change of a weight from its value in the last proof, as a share of that value
    """

    weights: Floats
    shares: list[float]
    spare: float
    reach: float


@dataclass
class Cover:
    """Targets proved one after another for the partitions whose stages are in the ``places``.

    ``center``    shape (n,): weights that proved the last target, k together
    ``patience``  share of the time left that one target may take
    ``pool``      sets found so far; several covers may share it
    ``stuck``     True if no weights were left for the last target, rather than no time
    """

    stage_search: StageSearch
    run: Run
    places: list[Place]
    center: Floats
    patience: float
    pool: SetPool
    stuck: bool = False

    @property
    def stages(self) -> int:
        """Number of stages."""
        return sum(place.count for place in self.places)

    def prove(self, target: int) -> bool:
        """Find weights and needs such that no set that costs less than ``target`` weighs its need; False if not.

        Searches are shorter the more spare weight there is, so after a long one weights may move farther to gain some.
        """
        until = (1 - self.patience) * self.stage_search.left()
        master = Master(self.pool, self.places, target)
        candidate = self._judged(self.center, 0.0, master) or self._candidate(master, REACH)
        self.stuck = searched = False
        while candidate and self.stage_search.left() > until:
            weight, unrefuted = self._integers(candidate)
            fresh = self._find(weight, unrefuted, target, until)
            if unrefuted and not fresh:
                if searched and (wider := self._wider(candidate, master)):
                    candidate = wider
                    continue
                fresh, searched = self._list(weight, unrefuted, target, until), True
            if not unrefuted:
                self.center = candidate.weights
            if not fresh:
                return not unrefuted
            candidate = self._candidate(master, max(REACH, candidate.reach))
        self.stuck = candidate is None and not self.stage_search.over()
        return False

    def fractions(self, target: int) -> Floats:
        """Return how far each node is in the stages of each place in the best cover found, shape (places, n)."""
        master = Master(self.pool, self.places, target)
        master.solve(self.center, FARTHEST, self.stage_search.left())
        return master.held()

    def _integers(self, candidate: Candidate) -> tuple[Longs, list[tuple[Place, int]]]:
        """Return weights as integers, and what a set needs in each place: together more than all nodes weigh."""
        weight = whole_weights(candidate.weights)
        total = int(weight.sum())
        needs = [
            (place, max(1, int(share * total))) for place, share in zip(self.places, candidate.shares, strict=True)
        ]
        if sum(place.count * (need - 1) for place, need in needs) >= total:
            raise ArithmeticError("shares of more than all weight")
        return weight, needs

    def _find(self, weight: Longs, unrefuted: list[tuple[Place, int]], target: int, until: float) -> int:
        """Look for sets that cost less than a target and weigh what they need; return how many are new to the pool.

        Places that are proved to have none are removed from ``unrefuted``.
        """
        if fresh := self._list(weight, unrefuted, target, until, FIRST_SECONDS):
            return fresh
        for place, need in unrefuted if self.stage_search.left() > until else ():
            annealed = self.stage_search.annealed_sets(weight, need, target, place.closure)
            if place.allows(annealed.member).any():
                return self.pool.add(annealed, place.closure)
        return 0

    def _list(
        self, weight: Longs, unrefuted: list[tuple[Place, int]], target: int, until: float, most: float = math.inf
    ) -> int:
        """The same by branch and bound, for each place within at most so many seconds."""
        for place, need in tuple(unrefuted):
            seconds = max(0.0, min(most, self.stage_search.left() - until))
            listed = self.stage_search.list_sets(weight, need, target, seconds, place.closure, place.fixed)
            if len(listed.cost):
                return self.pool.add(listed, place.closure)
            if listed.proved >= target:
                unrefuted.remove((place, need))
        return 0

    def _candidate(self, master: Master, reach: float) -> Candidate | None:
        """Return weights within a reach, or one as little greater as needed; None if there are none."""
        first = reach
        while reach < FARTHEST and not self.stage_search.over():
            if found := self._within(reach, master):
                return found
            if reach == first and not self._within(FARTHEST, master):
                return None
            reach *= GROWTH
        return None

    def _wider(self, candidate: Candidate, master: Master) -> Candidate | None:
        """Return weights within twice the reach if they have more to spare."""
        reach = max(REACH, 2 * candidate.reach)
        found = self._within(reach, master) if candidate.reach < WIDEST else None
        return found if found and found.spare > LEAST_GAIN * candidate.spare else None

    def _within(self, reach: float, master: Master) -> Candidate | None:
        """Return weights halfway from the center to those within a reach that have most to spare, or the latter."""
        weights = master.solve(self.center, reach, 0.5 * self.run.remaining())
        if weights is None:
            return None
        return self._judged((self.center + weights) / 2, reach, master) or self._judged(weights, reach, master)

    def _judged(self, weights: Floats, reach: float, master: Master) -> Candidate | None:
        """Give the places shares of all weight that exceed those of the known sets; None if there are none."""
        heaviest = master.heaviest(weights)
        k = self.stages
        spare = 1 - sum(place.count * most for place, most in zip(self.places, heaviest, strict=True)) / k
        if not spare > LEAST_SPARE:  # nor if it is NaN
            return None
        return Candidate(weights, [(most + spare) / k for most in heaviest], spare, reach)
