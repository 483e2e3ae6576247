"""Node weights that refute a target cost: under them, sets that cost less cannot cover all nodes, one per place.

A place stands for one or more stages of a partition and the known facts about them. Choose weights of the nodes, and a
need for each place such that the needs of all stages add up to no more than the total weight; then some stage weighs at
least the need of its place. If no set below a target cost weighs that much, in any place, no partition costs less than
the target. The best weights are the dual of covering the nodes by sets below the target: branch and bound over minimum
cuts lists those that reach a need, and a linear program moves the weights away from them until there is none.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from shardmark.solvers.native import Floats, Longs
from shardmark.solvers.pipeline.programs.master import Master
from shardmark.solvers.pipeline.programs.set_pool import Place, SetPool
from shardmark.solvers.pipeline.programs.stage_search import FIRST, LAST, MIDDLE, StageSearch, whole_weights
from shardmark.solvers.registry import Run

#: Seconds of a first search, before sets are annealed.
FIRST_SECONDS = 0.2

#: First limit on the change of a weight since the last proof, as a share of the weight.
REACH = 0.05

#: Factor by which the reach grows if no weights are found.
GROWTH = 1.6

#: Reach below which it may double after a long search (146 nodes, 16 stages: the last search of a proof takes 2 to 3 s
#: instead of 3 to 5).
WIDEST = 0.5

#: Factor by which the spare weight must grow for that.
LEAST_GAIN = 1.1

#: Largest reach.
FARTHEST = 20.0

#: Least spare weight of a candidate, as a share of the total weight, far above the tolerance of GLOP.
LEAST_SPARE = 1e-6


@dataclass(frozen=True, eq=False)
class Candidate:
    """Weights under which every known set weighs less than its share.

    ``weights``  shape (n,), with sum k
    ``shares``   one per place, of the total weight
    ``spare``    share of the total weight by which the sum of the shares exceeds that of the heaviest known sets
    ``reach``    largest change of a weight from its value in the last proof, as a share of that value
    """

    weights: Floats
    shares: list[float]
    spare: float
    reach: float


@dataclass
class Cover:
    """Targets proved one after another for the partitions whose stages are in the ``places``.

    ``center``    shape (n,): weights that proved the last target, with sum k
    ``patience``  share of the remaining time that one target may take
    ``pool``      sets found so far; several covers may share it
    ``proof``     integer weights, and the need of each place, that proved the last target
    ``stuck``     True if the last target failed for lack of weights, not of time
    """

    stage_search: StageSearch
    run: Run
    places: list[Place]
    center: Floats
    patience: float
    pool: SetPool
    stuck: bool = False
    proof: tuple[Longs, list[tuple[Place, int]]] | None = None

    @property
    def stages(self) -> int:
        """Number of stages."""
        return sum(place.count for place in self.places)

    def prove(self, target: int) -> bool:
        """Find weights and needs such that every set cheaper than ``target`` weighs less than its need; True if found.

        The more spare weight there is, the shorter is a search; so after a long one, weights may move farther to gain
        some.
        """
        until = (1 - self.patience) * self.stage_search.left()
        master = Master(self.pool, self.places, target)
        candidate = self._evaluate(self.center, 0.0, master) or self._candidate(master, REACH)
        self.stuck = searched = False
        while candidate and self.stage_search.left() > until:
            weight, needs = self._integers(candidate)
            unrefuted = needs.copy()
            fresh = self._find(weight, unrefuted, target, until)
            if unrefuted and not fresh:
                if searched and (wider := self._wider(candidate, master)):
                    candidate = wider
                    continue
                fresh, searched = self._list(weight, unrefuted, target, until), True
            if not unrefuted:
                self.center, self.proof = candidate.weights, (weight, needs)
            if not fresh:
                return not unrefuted
            candidate = self._candidate(master, max(REACH, candidate.reach))
        self.stuck = candidate is None and not self.stage_search.over()
        return False

    def needs(self) -> tuple[Longs, list[int]]:
        """The integer weights that proved the last target, and the need of each stage in order."""
        assert self.proof is not None  # a target was proved
        weight, needs = self.proof
        at = {FIRST: 0, MIDDLE: 1, LAST: 2}
        ordered = sorted(needs, key=lambda place: at[place[0].closure])
        return weight, [need for place, need in ordered for _ in range(place.count)]

    def fractions(self, target: int) -> Floats:
        """Fraction of each node that the sets of each place contain in the best cover found, shape (places, n)."""
        master = Master(self.pool, self.places, target)
        master.solve(self.center, FARTHEST, self.stage_search.left())
        return master.cover_fractions()

    def _integers(self, candidate: Candidate) -> tuple[Longs, list[tuple[Place, int]]]:
        """Integer weights, and the need of each place, such that some stage weighs at least its need."""
        weight = whole_weights(candidate.weights)
        total = int(weight.sum())
        needs = [
            (place, max(1, int(share * total))) for place, share in zip(self.places, candidate.shares, strict=True)
        ]
        if sum(place.count * (need - 1) for place, need in needs) >= total:
            raise ArithmeticError("shares of more than all weight")
        return weight, needs

    def _find(self, weight: Longs, unrefuted: list[tuple[Place, int]], target: int, until: float) -> int:
        """Search for sets below the target that reach their need; return the number that are new to the pool.

        Places proved to have no such set are removed from ``unrefuted``.
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
        """The same by branch and bound, with a limit in seconds per place."""
        for place, need in tuple(unrefuted):
            seconds = max(0.0, min(most, self.stage_search.left() - until))
            listed = self.stage_search.list_sets(weight, need, target, seconds, place.closure, place.fixed)
            if len(listed.cost):
                return self.pool.add(listed, place.closure)
            if listed.proved >= target:
                unrefuted.remove((place, need))
        return 0

    def _candidate(self, master: Master, reach: float) -> Candidate | None:
        """Weights within a reach, which grows until there are some; None if there are none."""
        first = reach
        while reach < FARTHEST and not self.stage_search.over():
            if found := self._within(reach, master):
                return found
            if reach == first and not self._within(FARTHEST, master):
                return None
            reach *= GROWTH
        return None

    def _wider(self, candidate: Candidate, master: Master) -> Candidate | None:
        """Weights within twice the reach, if they have more spare weight."""
        reach = max(REACH, 2 * candidate.reach)
        found = self._within(reach, master) if candidate.reach < WIDEST else None
        return found if found and found.spare > LEAST_GAIN * candidate.spare else None

    def _within(self, reach: float, master: Master) -> Candidate | None:
        """Halfway from the center to the weights within a reach that have most to spare, or these."""
        weights = master.solve(self.center, reach, 0.5 * self.run.remaining())
        if weights is None:
            return None
        return self._evaluate((self.center + weights) / 2, reach, master) or self._evaluate(weights, reach, master)

    def _evaluate(self, weights: Floats, reach: float, master: Master) -> Candidate | None:
        """The candidate whose shares exceed the weights of all known sets; None if there is none."""
        heaviest = master.heaviest(weights)
        k = self.stages
        spare = 1 - sum(place.count * most for place, most in zip(self.places, heaviest, strict=True)) / k
        if not spare > LEAST_SPARE:  # nor if it is NaN
            return None
        return Candidate(weights, [(most + spare) / k for most in heaviest], spare, reach)
