"""A first assignment: the variable with most to lose chooses next, beside the least memory of those yet to choose."""

from __future__ import annotations

import heapq
import time

import numpy as np
from numpy.typing import NDArray

from instances.files.columns import Floats, Ints
from solvers.intraop.network.memory import Footprint
from solvers.intraop.search.assignment import Search


def least_memory(footprint: Footprint) -> Ints:
    """The value of every variable that uses least memory, summed over the time steps, shape (v,)."""
    model, timeline = footprint.model, footprint.timeline
    steps = (timeline.end - timeline.begin)[timeline.owner]
    return cheapest(model.fold(timeline.usage * steps.astype(np.float64)), model.start)


def cheapest(of_row: NDArray, start: Ints) -> Ints:
    """Place of the least number, the first of equals, in every row ``start[i]:start[i + 1]``; shape (v,)."""
    order = np.lexsort((of_row, np.repeat(np.arange(len(start) - 1), np.diff(start))))
    return order[start[:-1]] - start[:-1]


def construct(footprint: Footprint, price: Floats, until: float) -> Search:
    """Decide one variable after the other, each for the value that costs least beside those decided, if it fits.

    A variable not yet decided counts with its least memory, and its tables with the least that they can come to.
    Next is the variable whose second choice costs most more than its first. ``price``, shape (rows,), is added to
    the costs of values in all these choices. At the time ``until`` all that are left stay at their least memory.
    """
    search = Search(footprint, least_memory(footprint))
    optimistic = _OptimisticCosts(search, price)
    heap = [(-optimistic.regret(variable), variable) for variable in range(footprint.model.variables)]
    heapq.heapify(heap)
    open_ = [True] * len(heap)
    while heap and time.monotonic() < until:
        regret, variable = heapq.heappop(heap)
        if not open_[variable] or -regret != optimistic.regret(variable):
            continue  # decided, or in the heap again with what it has become
        open_[variable] = False
        for value in np.argsort(optimistic.of(variable), kind="stable").tolist():
            if value == search.value[variable] or search.fits(variable, value):
                break
        if value != search.value[variable]:
            search.move(variable, value)
        for other in optimistic.decide(variable, value):
            if open_[other]:
                heapq.heappush(heap, (-optimistic.regret(other), other))
    return search


class _OptimisticCosts:
    """Cost of every value beside the decided variables, with the least entry for pairs with undecided ones."""

    def __init__(self, search: Search, price: Floats) -> None:
        self.model, self.pairs = search.model, search.adjacency
        self.cost = self.model.unary + price
        for variable in range(self.model.variables):
            for pair in self.pairs.at(variable):
                rows = self.of(self.pairs.other[pair])
                rows += self.pairs.table(pair).min(axis=0)

    def of(self, variable: int) -> Floats:
        """The costs of a variable's values, as a view."""
        return self.cost[self.model.start[variable] : self.model.start[variable + 1]]

    def regret(self, variable: int) -> float:
        """Return the extra cost of the second best value over the best."""
        costs = self.of(variable)
        return float(np.diff(np.partition(costs, 1)[:2])[0]) if len(costs) > 1 else 0.0

    def decide(self, variable: int, value: int) -> list[int]:
        """Take note of a decision; the variables whose costs it changes."""
        for pair in self.pairs.at(variable):
            table = self.pairs.table(pair)
            rows = self.of(self.pairs.other[pair])
            rows += table[value] - table.min(axis=0)
        return [self.pairs.other[pair] for pair in self.pairs.at(variable)]
