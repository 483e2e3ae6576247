"""The bottleneck relaxation under the best weights of nodes instead of their work, as a lower bound."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from instances.pipeline import Instance
from solvers.native import Longs
from solvers.pipeline._kernels import CheapestSet
from solvers.pipeline.programs.anchor import anchor
from solvers.pipeline.programs.blocks import Blocks, fit
from solvers.pipeline.programs.mip import Bounds, capped, search_first
from solvers.pipeline.search.orders import Floats
from solvers.registry import Run, bound

Set = NDArray[np.bool_]

#: The integer weights together are about 2 to this power.
WEIGHT_BITS = 40

#: Seconds of a first search, before sets are annealed.
FIRST_SECONDS = 0.2

#: Share of the time left that one target may take.
PATIENCE = 0.25

#: Largest change of a weight at first from its value in the last proof, as a share of that value.
REACH = 0.05

#: Factor by which the reach grows if no weights are found.
GROWTH = 1.6

#: Largest reach.
FARTHEST = 20.0

#: A weight may also grow by this share of the mean weight, times the reach.
FLOOR = 0.02

#: Share of the gap that the next target lies above the bound, at first.
STEP = 0.06


@bound(track="pipeline", source="our own: Archer et al. 2024, Section 3.2, with optimised weights", deterministic=False)
def reweighted(instance: Instance, run: Run) -> None:
    """Bound the cost of the block that weighs an even share, under node weights that make such blocks expensive.

    For any weights, some block weighs at least 1/k of all nodes, so the cheapest convex set that does is a bound;
    work as the weight gives the relaxation of Section 3.2. The best weights are the dual of covering the nodes with at
    most k convex sets that cost less than a target: sets that a target still allows are found by annealing and by
    branch and bound over minimum cuts, and a linear program moves the weights away from them until there is none,
    which proves the target. All cores search.

    Ignores the overflow. Reports the bound of Lemma 3.3 first, and the partitions of a short search.
    """
    instance = capped(instance)
    bounds = Bounds(instance, run)
    _, known = search_first(instance, run)
    if fit(instance, run) and instance.nodes and run.remaining() > 0:
        blocks = Blocks(instance, run)
        limit = blocks.units(known.slicing.cost)
        proved = max(blocks.units(bounds.best), anchor(blocks, limit, bounds, rounds=1))
        blocks.bound_pairs(limit)
        _ascend(Ascent(blocks, instance, run, proved, limit), bounds)


@dataclass
class Ascent:
    """Targets proved one after another.

    ``proved``  no partition costs less, in the units of ``blocks``
    ``limit``   no target above this can be proved
    ``center``  shape (n,): weights that proved the last target, k together
    ``sets``    convex sets found so far, each with its cost
    """

    blocks: Blocks
    instance: Instance
    run: Run
    proved: int
    limit: int
    center: Floats = field(init=False)
    sets: list[tuple[Set, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        work = self.instance.work + 1e-6 * self.instance.work.mean() + np.finfo(np.float64).tiny
        self.center = work / work.sum() * self.instance.stages


def _ascend(ascent: Ascent, bounds: Bounds) -> None:
    step = STEP * (ascent.limit - ascent.proved)
    finest = 1e-3 * step
    while ascent.proved < ascent.limit and step > finest and not ascent.blocks.over():
        known = len(ascent.sets)
        target = min(ascent.limit, ascent.proved + max(1, int(step)))
        if _prove(ascent, target):
            ascent.proved = target
            bounds.offer(ascent.blocks.bound(target))
            step *= 1.3 if len(ascent.sets) < known + 5 else 1.0
        else:
            step /= 2


def _prove(ascent: Ascent, target: int) -> bool:
    """Find weights under which no set that costs less than ``target`` weighs an even share; False if there are none."""
    enough = (1 - PATIENCE) * ascent.blocks.left()
    for weights in _candidates(ascent, target):
        whole = np.round(weights * (2**WEIGHT_BITS / weights.sum())).astype(np.int64)
        share = -(-int(whole.sum()) // ascent.instance.stages)
        found, proved = _sets(ascent.blocks, whole, share, target, ascent.blocks.left() - enough)
        if proved:
            ascent.center = weights
        if proved or not found:
            return proved
        ascent.sets.extend((one.member, one.cost) for one in found)
    return False


def _sets(blocks: Blocks, weight: Longs, share: int, target: int, patience: float) -> tuple[list[CheapestSet], bool]:
    """Sets that cost less than a target and weigh a share; True if it is proved that there are none."""
    for seconds in (min(FIRST_SECONDS, patience), patience):
        search = blocks.any_set(weight, share, target, seconds)
        if search.cost < target:
            return blocks.around(search, weight, share, target), False
        if search.proved >= target:
            return [], True
        found = blocks.annealed_sets(weight, share, target) if seconds < patience else []
        if found:
            return found, False
    return [], False


def _candidates(ascent: Ascent, target: int) -> Iterator[Floats]:
    """Weights under which no set known to cost less than ``target`` weighs an even share, as long as there are any."""
    reach = REACH
    allowed = [members for members, cost in ascent.sets if cost < target]
    master = _Master(ascent.instance.nodes, ascent.instance.stages, allowed)
    known = len(ascent.sets)
    if _heaviest(ascent.center, allowed) < 1:
        yield ascent.center
    while reach < FARTHEST and not ascent.blocks.over():
        for members, _ in ascent.sets[known:]:
            allowed.append(members)
            master.add(members)
        known = len(ascent.sets)
        weights, heaviest = master.solve(ascent.center, reach, 0.5 * ascent.run.remaining())
        if weights is None or heaviest >= 1 - 1e-6:
            reach *= GROWTH
            continue
        between = (ascent.center + weights) / 2
        yield between if _heaviest(between, allowed) < 1 else weights


def _heaviest(weights: Floats, sets: list[Set]) -> float:
    return max((float(weights[members].sum()) for members in sets), default=0.0)


class _Master:
    """Weights, k together and near a center, that make the heaviest of some sets as light as possible."""

    def __init__(self, nodes: int, stages: int, sets: list[Set]) -> None:
        from ortools.linear_solver import pywraplp

        self._solver: Any = pywraplp.Solver.CreateSolver("GLOP")
        self._mean = stages / nodes
        self._weights = [self._solver.NumVar(0.0, stages, "") for _ in range(nodes)]
        self._heaviest = self._solver.NumVar(0.0, stages, "")
        self._solver.Minimize(self._heaviest)
        total = self._solver.Constraint(stages, stages)
        for weight in self._weights:
            total.SetCoefficient(weight, 1.0)
        for members in sets:
            self.add(members)

    def add(self, members: Set) -> None:
        """Require that a set weighs no more than the heaviest."""
        row = self._solver.Constraint(-self._solver.infinity(), 0.0)
        row.SetCoefficient(self._heaviest, -1.0)
        for v in np.flatnonzero(members):
            row.SetCoefficient(self._weights[v], 1.0)

    def solve(self, center: Floats, reach: float, seconds: float) -> tuple[Floats | None, float]:
        """Weights within ``reach`` of ``center``, and what the heaviest set weighs; None if none were found."""
        least, most = center * (1 - reach), center * (1 + reach) + FLOOR * reach * self._mean
        for weight, lower, upper in zip(self._weights, least.clip(0).tolist(), most.tolist(), strict=True):
            weight.SetBounds(lower, upper)
        self._solver.SetTimeLimit(max(1, int(1000 * seconds)))
        if self._solver.Solve() != self._solver.OPTIMAL:
            return None, np.inf
        return np.array([weight.solution_value() for weight in self._weights]).clip(0), self._heaviest.solution_value()
