"""Search over topological orders, each of which is cut into stages as well as can be."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from shardmark.instances.graph import Index
from shardmark.instances.hybrid import Instance
from shardmark.instances.rounding import safely
from shardmark.solvers._ideals import IdealEnumerator, Ideals, deadline
from shardmark.solvers.hybrid._batches import BatchSearch
from shardmark.solvers.hybrid._kernels import StageProblem, Suffixes, Undecided
from shardmark.solvers.hybrid._orders import Orders
from shardmark.solvers.hybrid._proofs import bound_by_states, simple_proof
from shardmark.solvers.hybrid._stages import Chain
from shardmark.solvers.hybrid._thresholds import CLAIM, STEP, LimitSearch, largest, least
from shardmark.solvers.hybrid.positions.limits import refute
from shardmark.solvers.registry import Declined, Run, solver

#: Borders tried on every standard order, borders with few bytes on the best order, any borders on it and on others.
MOST_BORDERS = (128, 1024, 4096)
#: Shares by which a better plan must be faster, in turn.
SHARES = (0.15, 0.04, 0.01, 0.002, 0.0005)
#: Factors of the longest repeated time of the best plan that are tried for `step`.
FACTORS = (1.0, 0.8, 1.25, 0.95, 1.05)
#: Shares of the best time by which the limits to refute are below it, in turn; the last one proves an optimum.
GAPS = (0.029, 0.01, 0.002, STEP)
#: Down-sets with which limits are refuted, at most, and batches.
MOST_IDEALS, MOST_BATCH_IDEALS = 200_000, 2_000
#: Shares of the remaining time for the first random orders, and then for the refutation.
FIRST, PROOF = 0.1, 0.6
#: Random orders in succession that find nothing before the first ones end.
PATIENCE = 30
#: Deviations of the noise of random orders, in mean bytes of an edge.
NOISE = (0.0, 0.3, 1.0, 3.0)


@solver(track="hybrid", source="ours: prefixes of topological orders, cut into stages by dp")
def search(instance: Instance, run: Run) -> None:
    """Cut topological orders optimally into stages, then orders that reorder nodes near the best borders.

    The stages on one order are those of `dp` with the order's prefixes as the only down-sets, so any graph will do. The
    first borders are the ones that fewest bytes cross. Faster plans are then refuted, as in `dp` if the graph has few
    down-sets, else as in `relaxed_dp`. Before that, and until the time ends, there are random orders that keep together
    the nodes of each of the best plan's stages, or of some adjacent ones.
    """
    run.bound(instance.simple_bound(), simple_proof)
    with deadline(run) as stop:
        best, orders = Incumbent(instance, run, stop), Orders(instance)
        standard = list(orders.standard())
        reached = [best.cut(order, orders.borders(order, MOST_BORDERS[0])) for order in standard]
        first = standard[int(np.argmin(reached))]
        best.cut(first, orders.borders(first, MOST_BORDERS[1]))
        for order in (first, *standard):
            if best.chain is None or order is first:
                best.cut(order, _any_borders(orders, run.rng), SHARES[2:])
        _reorder(best, orders)
        proven = 0.0 if best.chain is None else _refute(best, best.chain)
        while best.chain is not None and best.cost > proven and not stop[0]:
            best.cut(*_near(best.chain, orders, run.rng), SHARES[-1:])
    if best.chain is None and not stop[0]:
        raise Declined("found no stages that fit the devices and their memory on the orders tried")


@dataclass(eq=False)
class Incumbent:
    """The best plan known.

    ``stop``  shape (1,), int32: ends the search once it is 1
    """

    instance: Instance
    run: Run
    stop: Index
    chain: Chain | None = None
    cost: float = np.inf

    @cached_property
    def bound(self) -> Callable[[float], None]:
        """Reports a bound, with a proof if one is asked for."""
        return bound_by_states(self.instance, self.run, self.stop)

    def cut(self, order: Index, borders: NDArray[np.bool_], shares: Sequence[float] = SHARES) -> float:
        """Cut an order at some borders into stages; the cost of the best plan that is new, infinite if none is."""
        problem, suffixes = StageProblem(self.instance, strict=True, order=order), Suffixes.of(borders)

        def within(limit: float) -> Chain | None:
            with suppress(Undecided):
                return problem.chain(suffixes, limit, self.stop)
            return None

        if self.instance.objective == "throughput":
            return self._faster(within, shares)
        if self.chain is None:
            self._faster(within, shares)
        return self._shorter(problem, suffixes)

    def _faster(self, within: Callable[[float], Chain | None], shares: Sequence[float]) -> float:
        """Lower the limit on the time per sample by shares of it as long as there are stages within it."""
        high, reached = self.cost, np.inf
        if self.chain is None:
            first = LimitSearch(within, self.stop, least(self.instance), self.offer, lambda bound: None)
            first.start(largest(self.instance))
            high = reached = first.high
        for share in shares:
            while not self.stop[0] and 0 < (limit := high * (1 - share)) < high and (found := within(limit)):
                self.offer(found)
                high = reached = found.slowest
        return reached

    def _shorter(self, problem: StageProblem, suffixes: Suffixes) -> float:
        """Shorten the batch for longest repeated times near that of the best plan."""
        reached = np.inf
        for factor in FACTORS:
            better = self.chain is not None
            repeated = self.chain.repeated * factor if self.chain is not None else 0.0
            while better and not self.stop[0]:
                limit = self.cost * (1 - SHARES[-1])
                try:
                    found = problem.shortest_step(suffixes, limit, (repeated, repeated), self.stop)
                except Undecided as undecided:
                    found = undecided.chain
                better = found is not None and self.offer(found)
                reached = self.cost if better else reached
                repeated *= factor
        return reached

    def offer(self, chain: Chain) -> bool:
        """Report a plan if it fits and is better than all before; True if so."""
        better = chain.fits and chain.cost < self.cost
        if better:
            self.take(chain)
        return better

    def take(self, chain: Chain) -> None:
        """Report a better plan, which fits."""
        self.chain, self.cost = chain, chain.cost
        self.run.report(chain.solution)


def _reorder(best: Incumbent, orders: Orders) -> None:
    """Cut random orders near the best plan, if there is one, until some in succession find no better plan."""
    failed = 0
    with deadline(best.run, FIRST) as stop:
        while best.chain is not None and failed < PATIENCE and not stop[0]:
            before = best.cost
            best.cut(*_near(best.chain, orders, best.run.rng), SHARES[-1:])
            failed = 0 if best.cost < before else failed + 1


def _refute(best: Incumbent, chain: Chain) -> float:
    """Refute better plans than a chain, or take them; the cost of the best plan if no other is better, else less.

    All down-sets are considered if they are few, else positions, as in `relaxed_dp`.
    """
    with deadline(best.run, PROOF) as stop, suppress(Undecided, Declined):
        problem = StageProblem(best.instance, strict=False)
        core = IdealEnumerator(problem.graph, stop)
        count, links = core.count(MOST_IDEALS, MOST_IDEALS * best.instance.nodes)
        if count > MOST_IDEALS:
            refute(best.instance, best.cost, stop, best.bound)
            return 0.0
        ideals = core.list(count, links)
        if stop[0]:  # not all are listed
            return 0.0
        if best.instance.objective == "throughput":
            return _refute_limits(best, chain.slowest, problem, ideals, stop)
        if count <= MOST_BATCH_IDEALS and _refute_batches(best, chain.repeated, problem, ideals, stop):
            return best.cost
        _refute_limits(best, chain.slowest, problem, ideals, stop)
    return 0.0


def _refute_limits(best: Incumbent, high: float, problem: StageProblem, ideals: Ideals, stop: Index) -> float:
    """Refute limits below that of a plan by each of the shares; the least limit that a plan keeps, 0 if stopped.

    A batch takes at least as many times the time per sample as it has microbatches.
    """
    samples = best.instance.batch if best.instance.objective == "step" else 1
    for gap in GAPS:
        while (limit := high * (1 - gap)) > 0 and (found := problem.chain(ideals, limit, stop)):
            best.offer(found)
            if found.slowest >= high:  # the least numbers of float64 have no share
                return 0.0
            high = found.slowest
        if stop[0]:
            return 0.0
        best.bound(safely(limit * samples * (1 - CLAIM), 0))
    return high


def _refute_batches(best: Incumbent, repeated: float, problem: StageProblem, ideals: Ideals, stop: Index) -> bool:
    """Find the shortest batch by ranges of the longest repeated time, as in `dp`; False if stopped."""
    strict = StageProblem(best.instance, strict=True)
    batches = BatchSearch(
        lambda limit, repeated: problem.shortest_step(ideals, limit, repeated, stop),
        lambda limit, repeated: strict.shortest_step(ideals, limit, repeated, stop),
        best.instance,
        stop,
        best.take,
        best.cost,
    )
    bound = batches.run(repeated)
    if bound is not None:
        best.bound(bound)
    return bound is not None


def _near(chain: Chain, orders: Orders, rng: np.random.Generator) -> tuple[Index, NDArray[np.bool_]]:
    """A random order in which the stages of a plan, some of them mixed with the next, follow each other; borders."""
    apart = np.concatenate([[0], np.cumsum(rng.random(len(chain.data) - 1) < rng.random())])
    noise = rng.normal(size=orders.nodes) * rng.choice(NOISE) * float(orders.weight.mean() if orders.graph.edges else 0)
    order = orders.least_cut(apart[chain.stage].astype(np.float64), noise)
    borders = _any_borders(orders, rng)
    borders[orders.nodes - np.flatnonzero(np.diff(chain.stage[order])) - 1] = True
    return order, borders


def _any_borders(orders: Orders, rng: np.random.Generator) -> NDArray[np.bool_]:
    """All borders of an order, or some if there are many; see `Orders.borders`."""
    borders = rng.random(orders.nodes + 1) * orders.nodes <= MOST_BORDERS[2]
    borders[[0, -1]] = True
    return borders
