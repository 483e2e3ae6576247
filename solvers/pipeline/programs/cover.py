"""Node weights that refute a cost: under them, no sets that cost less can cover all nodes, one in each place.

A place is a number of blocks of a partition and what is known of each. For any weights of nodes, and needs of the
places that together exceed the weight of all nodes, some block weighs what its place needs. If no set that costs less
than a target does so in any place, no partition costs less than the target. The best weights are the dual of covering
the nodes by such sets: sets that a target still allows are found by annealing and by branch and bound over minimum
cuts, and a linear program moves the weights away from them until there is none.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solvers.native import Longs
from solvers.pipeline.programs.blocks import Blocks
from solvers.pipeline.search.orders import Floats
from solvers.registry import Run

Set = NDArray[np.bool_]

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

#: A weight may also grow by this share of the mean weight, times the reach.
FLOOR = 0.02


@dataclass(frozen=True, eq=False)
class Place:
    """Blocks of a partition of which the same is known.

    ``closure``  FIRST, MIDDLE or LAST, see `blocks`
    ``count``    how many blocks these are
    ``fixed``    shape (n,), int8: 1 for nodes that each of them holds, -1 for nodes that none does; None if unknown
    """

    closure: int
    count: int
    fixed: NDArray[np.int8] | None = None

    def allows(self, closure: int, member: Set) -> bool:
        """Return True if a set that was found in a place of this closure can be a block of this one."""
        if closure != self.closure or self.fixed is None:
            return closure == self.closure
        return bool(member[self.fixed > 0].all()) and not member[self.fixed < 0].any()


@dataclass
class Cover:
    """Targets proved one after another for the partitions whose blocks are in the ``places``.

    ``center``    shape (n,): weights that proved the last target, k together
    ``patience``  share of the time left that one target may take
    ``sets``      sets found so far, each with its closure and its cost; several covers may share them
    """

    blocks: Blocks
    run: Run
    places: list[Place]
    center: Floats
    patience: float
    sets: list[tuple[int, Set, int]] = field(default_factory=list)

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
            self.sets.extend(found)
        return False

    def fractions(self, target: int) -> Floats:
        """Return how far each node is in the blocks of each place in the best cover found, shape (places, n)."""
        allowed = self._allowed(self.sets, target)
        master = Master(self.blocks.nodes, self.places, allowed)
        master.solve(self.center, FARTHEST, self.run.remaining())
        held = np.zeros((len(self.places), self.blocks.nodes))
        for (at, member), used in zip(allowed, master.used(), strict=True):
            held[at, member] += used
        return held

    def _allowed(self, sets: list[tuple[int, Set, int]], target: int) -> list[tuple[int, Set]]:
        """Return the sets that cost less than a target, with the index of each place that allows them."""
        return [
            (at, member)
            for closure, member, cost in sets
            if cost < target
            for at, place in enumerate(self.places)
            if place.allows(closure, member)
        ]

    def _search(
        self, weight: Longs, needs: list[int], target: int, patience: float
    ) -> tuple[list[tuple[int, Set, int]], bool]:
        """Sets that cost less than a target and weigh what they need; True if it is proved that there are none."""
        left = list(zip(self.places, needs, strict=True))
        for seconds in (min(FIRST_SECONDS, patience), patience):
            for place, need in tuple(left):
                search = self.blocks.any_set(weight, need, target, seconds, place.closure, place.fixed)
                if search.cost < target:
                    found = self.blocks.around(search, weight, need, target, place.closure)
                    return [(place.closure, one.member, one.cost) for one in found], False
                if search.proved >= target:
                    left.remove((place, need))
            if not left:
                return [], True
            for place, need in left if seconds < patience else ():
                annealed = self.blocks.annealed_sets(weight, need, target, place.closure)
                if found := [one for one in annealed if place.allows(place.closure, one.member)]:
                    return [(place.closure, one.member, one.cost) for one in found], False
        return [], False

    def _candidates(self, target: int) -> Iterator[tuple[Floats, list[float]]]:
        """Weights and shares such that no set known to cost less than ``target`` weighs its share."""
        reach = REACH
        allowed = self._allowed(self.sets, target)
        master = Master(self.blocks.nodes, self.places, allowed)
        known = len(self.sets)
        if shares := self._shares(self.center, allowed):
            yield self.center, shares
        while reach < FARTHEST and not self.blocks.over():
            for at, member in self._allowed(self.sets[known:], target):
                allowed.append((at, member))
                master.add(at, member)
            known = len(self.sets)
            weights = master.solve(self.center, reach, 0.5 * self.run.remaining())
            shares = None if weights is None else self._shares(weights, allowed)
            if weights is None or shares is None:
                reach *= GROWTH
                continue
            between = (self.center + weights) / 2
            halfway = self._shares(between, allowed)
            yield (between, halfway) if halfway else (weights, shares)

    def _shares(self, weights: Floats, sets: list[tuple[int, Set]]) -> list[float] | None:
        """Shares of all weight that exceed those of the known sets in each place; None if there are none."""
        heaviest = [0.0] * len(self.places)
        for at, member in sets:
            heaviest[at] = max(heaviest[at], float(weights[member].sum()))
        k = self.stages
        spare = 1 - sum(place.count * most for place, most in zip(self.places, heaviest, strict=True)) / k
        return [(most + spare) / k for most in heaviest] if spare > 1e-6 else None


class Master:
    """Weights, k together and near a center, for which the heaviest sets of all places together are lightest."""

    def __init__(self, nodes: int, places: list[Place], sets: list[tuple[int, Set]]) -> None:
        from ortools.linear_solver import pywraplp

        self._solver: Any = pywraplp.Solver.CreateSolver("GLOP")
        stages = sum(place.count for place in places)
        self._mean = stages / nodes
        self._weights = [self._solver.NumVar(0.0, stages, "") for _ in range(nodes)]
        self._heaviest = [self._solver.NumVar(0.0, stages, "") for _ in places]
        self._rows: list[Any] = []
        self._solved = False
        self._solver.Minimize(sum(place.count * most for place, most in zip(places, self._heaviest, strict=True)))
        total = self._solver.Constraint(stages, stages)
        for weight in self._weights:
            total.SetCoefficient(weight, 1.0)
        for at, member in sets:
            self.add(at, member)

    def add(self, at: int, member: Set) -> None:
        """Require that a set weighs no more than the heaviest in its place."""
        row = self._solver.Constraint(-self._solver.infinity(), 0.0)
        row.SetCoefficient(self._heaviest[at], -1.0)
        for v in np.flatnonzero(member):
            row.SetCoefficient(self._weights[v], 1.0)
        self._rows.append(row)

    def solve(self, center: Floats, reach: float, seconds: float) -> Floats | None:
        """Weights within ``reach`` of ``center``; None if none were found."""
        least, most = center * (1 - reach), center * (1 + reach) + FLOOR * reach * self._mean
        for weight, lower, upper in zip(self._weights, least.clip(0).tolist(), most.tolist(), strict=True):
            weight.SetBounds(lower, upper)
        self._solver.SetTimeLimit(max(1, int(1000 * seconds)))
        self._solved = self._solver.Solve() == self._solver.OPTIMAL
        return np.array([weight.solution_value() for weight in self._weights]).clip(0) if self._solved else None

    def used(self) -> Floats:
        """Return how far each set is used in the cover that the last weights are dual to, shape (sets,)."""
        return np.abs([row.dual_value() for row in self._rows]) if self._solved else np.zeros(len(self._rows))
