"""Node weights that refute a cost: under them, no sets that cost less can cover all nodes, one in each place.

A place is a number of blocks of a partition and what is known of each. For any weights of nodes, and needs of the
places that together exceed the weight of all nodes, some block weighs what its place needs. If no set that costs less
than a target does so in any place, no partition costs less than the target. The best weights are the dual of covering
the nodes by such sets: all sets that a target still allows are listed by branch and bound over minimum cuts, and a
linear program moves the weights away from them until there is none.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from solvers.native import Longs
from solvers.pipeline.programs.blocks import Blocks
from solvers.pipeline.programs.master import Master
from solvers.pipeline.programs.set_pool import Place, SetPool
from solvers.pipeline.search.orders import Floats
from solvers.registry import Run

#: The integer weights together are about 2 to this power.
WEIGHT_BITS = 40

#: Seconds of a first search, before sets are annealed.
FIRST_SECONDS = 0.2

#: Largest change of a weight at first from its value in the last proof, as a share of that value.
REACH = 0.05

#: Factor by which the reach grows if no weights are found.
GROWTH = 1.6

#: Largest reach.
FARTHEST = 20.0

#: Share of all weight by which the needs of the places must exceed it together, far above the tolerance of GLOP.
LEAST_SPARE = 1e-6


@dataclass
class Cover:
    """Targets proved one after another for the partitions whose blocks are in the ``places``.

    ``center``    shape (n,): weights that proved the last target, k together
    ``patience``  share of the time left that one target may take
    ``pool``      sets found so far; several covers may share it
    """

    blocks: Blocks
    run: Run
    places: list[Place]
    center: Floats
    patience: float
    pool: SetPool

    @property
    def stages(self) -> int:
        """Number of blocks."""
        return sum(place.count for place in self.places)

    def prove(self, target: int) -> bool:
        """Find weights and needs such that no set that costs less than ``target`` weighs its need; False if not."""
        enough = (1 - self.patience) * self.blocks.left()
        for weights, shares in self._candidates(target):
            whole = np.round(weights * (2**WEIGHT_BITS / weights.sum())).astype(np.int64)
            total = int(whole.sum())
            needs = [max(1, int(share * total)) for share in shares]
            if sum(place.count * (need - 1) for place, need in zip(self.places, needs, strict=True)) >= total:
                return False  # only by rounding: blocks that all weigh less than they need might hold all nodes
            found, proved = self._search(whole, needs, target, self.blocks.left() - enough)
            if proved:
                self.center = weights
            if proved or not found:
                return proved
        return False

    def fractions(self, target: int) -> Floats:
        """Return how far each node is in the blocks of each place in the best cover found, shape (places, n)."""
        master = Master(self.pool, self.places, target)
        master.solve(self.center, FARTHEST, self.blocks.left())
        return master.held()

    def _search(self, weight: Longs, needs: list[int], target: int, patience: float) -> tuple[int, bool]:
        """Add sets that cost less than a target and weigh what they need to the pool.

        Returns how many are new, and True if it is proved that there are none.
        """
        left = list(zip(self.places, needs, strict=True))
        for seconds in (min(FIRST_SECONDS, patience), patience):
            for place, need in tuple(left):
                listed = self.blocks.list_sets(weight, need, target, seconds, place.closure, place.fixed)
                if len(listed.cost):
                    return self.pool.add(listed, place.closure), False
                if listed.proved >= target:
                    left.remove((place, need))
            if not left:
                return 0, True
            for place, need in left if seconds < patience else ():
                annealed = self.blocks.annealed_sets(weight, need, target, place.closure)
                if place.allows(annealed.member).any():
                    return self.pool.add(annealed, place.closure), False
        return 0, False

    def _candidates(self, target: int) -> Iterator[tuple[Floats, list[float]]]:
        """Weights and shares such that no set known to cost less than ``target`` weighs its share."""
        master = Master(self.pool, self.places, target)
        if shares := self._shares(self.center, master):
            yield self.center, shares
        reach, nearest = REACH, True
        while reach < FARTHEST and not self.blocks.over():
            weights = master.solve(self.center, reach, 0.5 * self.run.remaining())
            shares = None if weights is None else self._shares(weights, master)
            if weights is None or shares is None:
                if nearest and not self._far_shares(master):
                    return
                reach, nearest = reach * GROWTH, False
                continue
            nearest = True
            between = (self.center + weights) / 2
            halfway = self._shares(between, master)
            yield (between, halfway) if halfway else (weights, shares)

    def _far_shares(self, master: Master) -> list[float] | None:
        """Shares as in `_shares`, under weights at the largest reach; None if there are none at any reach."""
        weights = master.solve(self.center, FARTHEST, 0.5 * self.run.remaining())
        return None if weights is None else self._shares(weights, master)

    def _shares(self, weights: Floats, master: Master) -> list[float] | None:
        """Shares of all weight that exceed those of the known sets in each place; None if there are none."""
        heaviest = master.heaviest(weights)
        k = self.stages
        spare = 1 - sum(place.count * most for place, most in zip(self.places, heaviest, strict=True)) / k
        return [(most + spare) / k for most in heaviest] if spare > LEAST_SPARE else None
