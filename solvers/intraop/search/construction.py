"""Greedy construction by largest regret; undecided variables count with their least memory use."""

from __future__ import annotations

import heapq
import time

import numpy as np

from shardmark.instances.files.columns import Floats, Ints
from shardmark.solvers.intraop.network.memory import Footprint
from shardmark.solvers.intraop.network.ragged import argmin
from shardmark.solvers.intraop.search.assignment import Search


def least_memory(footprint: Footprint) -> Ints:
    """Assignment, shape (v,), of the values that use least memory, summed over the time steps."""
    model, timeline = footprint.model, footprint.timeline
    steps = (timeline.end - timeline.begin)[timeline.owner]
    return argmin(model.fold(timeline.usage * steps.astype(np.float64)), model.start)


def construct(footprint: Footprint, price: Floats, until: float) -> Search:
    """Decide variables by decreasing regret, each for the cheapest value that fits given earlier decisions.

    An undecided variable counts with its least memory use, and its tables with their least costs. The regret of a
    variable is the extra cost of its second best value. ``price``, shape (rows,), is added to the costs of values. From
    the time ``until`` on, the remaining variables keep the values of least memory use.
    """
    search = Search(footprint, least_memory(footprint))
    optimistic = _OptimisticCosts(search, price)
    heap = [(-optimistic.regret(variable), variable) for variable in range(footprint.model.variables)]
    heapq.heapify(heap)
    open_ = [True] * len(heap)
    while heap and time.monotonic() < until:
        regret, variable = heapq.heappop(heap)
        if not open_[variable] or -regret != optimistic.regret(variable):
            continue  # decided, or in the heap again with another regret
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
    """Cost of every value given the decided variables; pairs with undecided ones count with their least entry."""

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
        """Record a decision; return the variables whose costs it changes."""
        for pair in self.pairs.at(variable):
            table = self.pairs.table(pair)
            rows = self.of(self.pairs.other[pair])
            rows += table[value] - table.min(axis=0)
        return [self.pairs.other[pair] for pair in self.pairs.at(variable)]
