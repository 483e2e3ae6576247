"""A dynamic program over the values of one variable after another: nothing below the cut-off is left."""

from __future__ import annotations

from typing import Any

import numpy as np

from shardmark.harness.verify.certificates import Unproven
from shardmark.harness.verify.certificates.intraop.network import Mask
from shardmark.harness.verify.certificates.intraop.rounds import Round
from shardmark.instances.files.columns import Ints

#: Most states after a variable, and their numbers in all.
MOST_STATES, MOST_NUMBERS = 1 << 12, 1 << 24
#: Numbers of states that are compared at once.
BLOCK = 1 << 22


class States:
    """Values of the first variables of an order that can be part of a choice that fits and costs less than the cut-off.

    ``above``   what they cost above the least costs of the round, with prices of memory
    ``priced``  the part of it that is prices
    ``used``    memory at the steps at which the limit can be exceeded
    ``taken``   their values, as rows, of variables with a pair to a later one; 0 for others
    """

    def __init__(self, found: Round) -> None:
        network = self.network = found.network
        if network.wide:
            raise Unproven("proof.steps.order: expected no edges of three variables or more")
        self.round, self.steps = found, np.flatnonzero(network.may_exceed())
        if len(self.steps) * len(network.cost) > MOST_NUMBERS:
            raise Unproven(f"proof.steps.order: expected fewer steps that can exceed the limit than {len(self.steps)}")
        kind = found.values.dtype
        self.memory = np.zeros((len(network.cost), len(self.steps)), dtype=network.usage.dtype)
        for at, step in enumerate(self.steps.tolist()):
            network.clock.tick()
            self.memory[:, at] = network.memory(step)
        self.spare = network.limit - network.fixed[self.steps]
        for variable in range(len(network.sizes)):
            self.spare = self.spare - self.memory[self._rows(variable)].min(axis=0)
        self.above, self.priced = np.zeros(1, dtype=kind), np.zeros(1, dtype=kind)
        self.used = np.zeros((1, len(self.steps)), dtype=self.memory.dtype)
        self.taken = np.zeros((1, len(network.sizes)), dtype=np.int64)

    def reach_the_end(self, order: list[int]) -> bool:
        """Return True if some values of all variables, in this order, fit and cost less than the cut-off."""
        network = self.network
        if sorted(order) != list(range(len(network.sizes))):
            raise Unproven("proof.steps.order: expected each variable once")
        pairs: list[list[int]] = [[] for _ in order]
        for pair, ends in enumerate(zip(network.tail.tolist(), network.head.tolist(), strict=True)):
            for end in ends:
                pairs[end].append(pair)
        place = dict(zip(order, range(len(order)), strict=True))
        last = [max([place[self._other(pair, v)] for pair in pairs[v]], default=-1) for v in range(len(order))]
        for at, variable in enumerate(order):
            network.clock.tick()
            self._extend(variable, [pair for pair in pairs[variable] if place[self._other(pair, variable)] < at])
            done = [v for v in order[: at + 1] if last[v] <= at]
            self.taken[:, done] = 0
            self._keep(self._undominated())
        costs = (self.above - self.priced).tolist()
        return any(cost < self.round.room + self.round.charged for cost in costs)

    def _other(self, pair: int, end: int) -> int:
        """Return the other end of a pair."""
        return int(self.network.tail[pair]) + int(self.network.head[pair]) - end

    def _rows(self, variable: int) -> Ints:
        """Return the values of a variable that are left, as rows."""
        network = self.network
        start, end = network.start[variable], network.start[variable + 1]
        return np.arange(start, end)[network.alive[start:end]]

    def _extend(self, variable: int, pairs: list[int]) -> None:
        """Give a variable each of its values, if these may still fit and cost less than the cut-off."""
        network, rows = self.network, self._rows(variable)
        count = len(rows) * len(self.above)
        if count > MOST_STATES or count * (len(self.steps) + len(network.sizes)) > MOST_NUMBERS:
            raise Unproven(f"proof.steps.order: expected fewer states than {count}")
        low = self.memory[rows].min(axis=0)
        self._keep(np.repeat(np.arange(len(self.above)), len(rows)))
        row = np.tile(rows, count // len(rows))
        self.above = self.above + self.round.values[row]
        self.priced = self.priced + self.round.paid[row]
        self.used = self.used + self.memory[row] - low
        self.taken[:, variable] = row
        open_ = np.ones(count, dtype=bool)
        for pair in pairs:
            tails, heads = self.taken[:, network.tail[pair]], self.taken[:, network.head[pair]]
            columns = network.sizes[network.head[pair]]
            cell = network.first[pair] + (tails - network.start[network.tail[pair]]) * columns
            cell = cell + heads - network.start[network.head[pair]]
            self.above, open_ = self.above + self.round.cells[cell], open_ & network.open[cell]
        fits = (self.used <= self.spare).all(axis=1)
        self._keep(np.flatnonzero(open_ & fits & (self.above < self.round.room)))

    def _keep(self, chosen: Ints | Mask) -> None:
        self.above, self.priced = self.above[chosen], self.priced[chosen]
        self.used, self.taken = self.used[chosen], self.taken[chosen]

    def _undominated(self) -> Any:
        """Return the states that none replaces: with the same values that matter later, it costs and uses no more."""
        cost = self.above - self.priced
        order = np.argsort(cost, kind="stable")
        cost, used, taken = cost[order], self.used[order], self.taken[order]
        kept, length = list[int](), max(1, BLOCK // max(1, used.size + taken.size))
        for first in range(0, len(order), length):
            self.network.clock.tick()
            some, before = slice(first, first + length), slice(0, first + length)
            replaces = (used[None, before] <= used[some, None]).all(axis=2)
            replaces &= (taken[None, before] == taken[some, None]).all(axis=2)
            replaces &= np.arange(replaces.shape[1]) < np.arange(first, first + len(replaces))[:, None]
            kept += order[some][~replaces.any(axis=1)].tolist()
        return np.array(sorted(kept), dtype=np.int64)
