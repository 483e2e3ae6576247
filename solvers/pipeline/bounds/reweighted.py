"""The bottleneck relaxation under the best weights of nodes instead of their work, as a lower bound."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from instances.pipeline import Instance
from solvers.native import Longs, kahn
from solvers.pipeline._kernels import PipelineCore
from solvers.pipeline.programs.anchor import anchor
from solvers.pipeline.programs.blocks import FIRST, LAST, MIDDLE, Blocks, fit
from solvers.pipeline.programs.mip import Bounds, capped, search_first
from solvers.pipeline.search.orders import Floats, Search
from solvers.registry import Run, bound

Set = NDArray[np.bool_]

#: Number of blocks in each place.
Places = dict[int, int]

#: The integer weights together are about 2 to this power.
WEIGHT_BITS = 40

#: Seconds of a first search, before sets are annealed.
FIRST_SECONDS = 0.2

#: Share of the time left that one target may take.
PATIENCE = 0.25

#: The same for one of two blocks.
HALVES_PATIENCE = 0.4

#: Most blocks of which the first and the last have sets of their own; with 16, to search for three kinds costs more
#: than it gains (100 nodes, 5 s of processor time: 62.6 % of the gap closed instead of 66.2 %).
MOST_PLACED = 8

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
    """Bound the cost of the block that weighs its share, under node weights that make such blocks expensive.

    For any weights, and shares of the k blocks that add up to the weight of all nodes, some block weighs at least
    its share, so the cheapest set that does is a bound; work as the weight and even shares give the relaxation of
    Section 3.2. Sets are convex; if blocks are few, those that can be the first one hold all ancestors of their
    nodes, and those that can be the last one all descendants. The best weights are the dual of covering the nodes
    with a first, a last and k - 2 other sets that cost less than a target: sets that a target still allows are
    found by annealing and by branch and bound over minimum cuts, and a linear program moves the weights away from
    them until there is none, which proves the target. For two blocks, the work and even shares are already exact:
    the side that does more work costs more, and is one of the two. All cores search.

    Ignores the overflow. Reports the bound of Lemma 3.3 first, and the partitions of a short search.
    """
    instance = capped(instance)
    bounds = Bounds(instance, run)
    search, known = search_first(instance, run)
    if fit(instance, run) and instance.nodes and run.remaining() > 0:
        blocks = Blocks(instance, run)
        limit = blocks.units_below(known.slicing.cost)
        proved = max(blocks.units(bounds.best), anchor(blocks, limit, bounds, rounds=1))
        blocks.bound_pairs(limit)
        if instance.stages == 2:
            _halve(Halves(blocks, instance, search, known.core, proved, limit), bounds)
        else:
            _ascend(Ascent(blocks, instance, run, proved, limit), bounds)


@dataclass
class Halves:
    """A partition into two blocks that is sought, and what is proved about it.

    ``search``  what reports better partitions
    ``core``    the instance without a memory limit, as the core sees it
    ``proved``  no partition costs less, in the units of ``blocks``
    ``limit``   some partition costs about this
    """

    blocks: Blocks
    instance: Instance
    search: Search
    core: PipelineCore
    proved: int
    limit: int

    def take(self, place: int, member: Set) -> None:
        """Take a set in its place and the other nodes as the partition to be beaten."""
        order = kahn(self.instance.graph, np.where(member, place, 0.0))
        slicing = self.core.slice(order)
        assert slicing is not None  # only a slicing below an upper limit can be missing
        self.limit = min(self.limit, self.blocks.units_below(slicing.cost))
        if self.instance.memory is None:
            self.search.offer_slicing(order, slicing)


def _halve(halves: Halves, bounds: Bounds) -> None:
    """Find the cheapest partition into two blocks: one of them does at least half of the work, and costs no less."""
    blocks, work = halves.blocks, halves.blocks.work
    half = max(1, -(-int(work.sum()) // 2))
    proved = dict.fromkeys((FIRST, LAST) if work.any() else (), halves.proved)
    step = (halves.limit - halves.proved) / 2
    finest = 1e-4 * step
    while proved and halves.proved < halves.limit and step > finest and not blocks.over():
        target = min(halves.limit, halves.proved + max(1, int(step)))
        place = min(proved, key=lambda place: proved[place])
        found = blocks.any_set(work, half, target, HALVES_PATIENCE * blocks.left(), place)
        if found.cost < target:
            halves.take(place, found.member)
            step /= 1 if halves.limit < target else 2  # 2: only by rounding
            continue
        proved[place] = max(proved[place], found.proved)
        if found.proved < target:
            step /= 2
        halves.proved = min(proved.values())
        bounds.offer(blocks.bound(halves.proved))


@dataclass
class Ascent:
    """Targets proved one after another.

    ``proved``  no partition costs less, in the units of ``blocks``
    ``limit``   no target above this can be proved
    ``center``  shape (n,): weights that proved the last target, k together
    ``places``  how many blocks are first, last, and between
    ``sets``    sets found so far, each with its place and its cost
    """

    blocks: Blocks
    instance: Instance
    run: Run
    proved: int
    limit: int
    center: Floats = field(init=False)
    places: Places = field(init=False)
    sets: list[tuple[int, Set, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        k = self.instance.stages
        work = self.instance.work + 1e-6 * self.instance.work.mean() + np.finfo(np.float64).tiny
        self.center = work / work.sum() * k
        self.places = {MIDDLE: k - 2, FIRST: 1, LAST: 1} if 2 < k <= MOST_PLACED else {MIDDLE: k}


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
    """Find weights and shares such that no set that costs less than ``target`` weighs its share; False if not."""
    enough = (1 - PATIENCE) * ascent.blocks.left()
    for weights, shares in _candidates(ascent, target):
        whole = np.round(weights * (2**WEIGHT_BITS / weights.sum())).astype(np.int64)
        total = int(whole.sum())
        need = {place: max(1, int(share * total)) for place, share in shares.items()}
        if sum(count * (need[place] - 1) for place, count in ascent.places.items()) >= total:
            return False  # only by rounding: blocks that all weigh less than they need might hold all nodes
        found, proved = _sets(ascent, whole, need, target, ascent.blocks.left() - enough)
        if proved:
            ascent.center = weights
        if proved or not found:
            return proved
        ascent.sets.extend(found)
    return False


def _sets(
    ascent: Ascent, weight: Longs, need: Mapping[int, int], target: int, patience: float
) -> tuple[list[tuple[int, Set, int]], bool]:
    """Sets that cost less than a target and weigh what they need; True if it is proved that there are none."""
    blocks, left = ascent.blocks, list(ascent.places)
    for seconds in (min(FIRST_SECONDS, patience), patience):
        for place in tuple(left):
            search = blocks.any_set(weight, need[place], target, seconds, place)
            if search.cost < target:
                found = blocks.around(search, weight, need[place], target, place)
                return [(place, one.member, one.cost) for one in found], False
            if search.proved >= target:
                left.remove(place)
        if not left:
            return [], True
        for place in left if seconds < patience else ():
            if found := blocks.annealed_sets(weight, need[place], target, place):
                return [(place, one.member, one.cost) for one in found], False
    return [], False


def _candidates(ascent: Ascent, target: int) -> Iterator[tuple[Floats, dict[int, float]]]:
    """Weights and shares such that no set known to cost less than ``target`` weighs its share, while there are any."""
    reach = REACH
    allowed = [(place, members) for place, members, cost in ascent.sets if cost < target]
    master = _Master(ascent.instance.nodes, ascent.places, allowed)
    known = len(ascent.sets)
    if shares := _shares(ascent, ascent.center, allowed):
        yield ascent.center, shares
    while reach < FARTHEST and not ascent.blocks.over():
        for place, members, _ in ascent.sets[known:]:
            allowed.append((place, members))
            master.add(place, members)
        known = len(ascent.sets)
        weights = master.solve(ascent.center, reach, 0.5 * ascent.run.remaining())
        shares = None if weights is None else _shares(ascent, weights, allowed)
        if weights is None or shares is None:
            reach *= GROWTH
            continue
        between = (ascent.center + weights) / 2
        halfway = _shares(ascent, between, allowed)
        yield (between, halfway) if halfway else (weights, shares)


def _shares(ascent: Ascent, weights: Floats, sets: list[tuple[int, Set]]) -> dict[int, float] | None:
    """What a block in each place must weigh, as shares of all weight, to weigh more than all known sets; None if no."""
    heaviest = dict.fromkeys(ascent.places, 0.0)
    for place, members in sets:
        heaviest[place] = max(heaviest[place], float(weights[members].sum()))
    k = ascent.instance.stages
    spare = 1 - sum(count * heaviest[place] for place, count in ascent.places.items()) / k
    return {place: (most + spare) / k for place, most in heaviest.items()} if spare > 1e-6 else None


class _Master:
    """Weights, k together and near a center, for which the heaviest sets of all places together are lightest."""

    def __init__(self, nodes: int, places: Places, sets: list[tuple[int, Set]]) -> None:
        from ortools.linear_solver import pywraplp

        self._solver: Any = pywraplp.Solver.CreateSolver("GLOP")
        stages = sum(places.values())
        self._mean = stages / nodes
        self._weights = [self._solver.NumVar(0.0, stages, "") for _ in range(nodes)]
        self._heaviest = {place: self._solver.NumVar(0.0, stages, "") for place in places}
        self._solver.Minimize(sum(count * self._heaviest[place] for place, count in places.items()))
        total = self._solver.Constraint(stages, stages)
        for weight in self._weights:
            total.SetCoefficient(weight, 1.0)
        for place, members in sets:
            self.add(place, members)

    def add(self, place: int, members: Set) -> None:
        """Require that a set weighs no more than the heaviest in its place."""
        row = self._solver.Constraint(-self._solver.infinity(), 0.0)
        row.SetCoefficient(self._heaviest[place], -1.0)
        for v in np.flatnonzero(members):
            row.SetCoefficient(self._weights[v], 1.0)

    def solve(self, center: Floats, reach: float, seconds: float) -> Floats | None:
        """Weights within ``reach`` of ``center``; None if none were found."""
        least, most = center * (1 - reach), center * (1 + reach) + FLOOR * reach * self._mean
        for weight, lower, upper in zip(self._weights, least.clip(0).tolist(), most.tolist(), strict=True):
            weight.SetBounds(lower, upper)
        self._solver.SetTimeLimit(max(1, int(1000 * seconds)))
        if self._solver.Solve() != self._solver.OPTIMAL:
            return None
        return np.array([weight.solution_value() for weight in self._weights]).clip(0)
