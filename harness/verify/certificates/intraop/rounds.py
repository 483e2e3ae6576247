"""One round of a proof: costs moved by messages and prices of memory, their minima, and what reaches the cut-off."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np

from shardmark.harness.verify.certificates import Unproven, integer, integers
from shardmark.harness.verify.certificates.intraop.network import SMALL, Network, NothingLeft, offsets, places
from shardmark.instances.files.columns import Ints

#: Greatest message and price.
LARGEST_MESSAGE, LARGEST_PRICE = 1 << 100, 1 << 200
MOST_SCALE, MOST_PRICE_SCALE = 60, 160


class Round:
    """Costs of a network after messages and prices, in units of 2^-``scale``; ``bound`` is the sum of their minima."""

    def __init__(self, network: Network, told: Mapping[str, Any], cutoff: int) -> None:
        self.network, self.scale = network, integer(told, "scale", 0, MOST_SCALE)
        sizes = network.sizes
        sent, messages = _messages(network, told)
        paid, self.least = self._memory(told, network.room << self.scale)
        most = (network.most << self.scale) + sum(map(abs, messages)) + int(_greatest(paid, network.start).sum())
        self.much = 4 * most + 1
        kind = np.int64 if self.much < SMALL else object
        self.values = (network.cost.astype(kind) << self.scale) + paid.astype(kind)
        self.cells = network.cell.astype(kind) << self.scale
        if messages:
            counts = (sizes[network.tail] + sizes[network.head])[sent]
            moved = np.array(messages, dtype=kind)
            tails, heads = sizes[network.tail[sent]], sizes[network.head[sent]]
            rows = np.concatenate(
                [places(network.start[x], n) for x, n in ((network.tail[sent], tails), (network.head[sent], heads))]
            )
            at = offsets(counts)[:-1]
            of = np.concatenate([places(at, tails), places(at + tails, heads)])
            np.add.at(self.values, rows, moved[of])
            cells, row, column = network.index(sent)
            entries = np.diff(network.first)[sent]
            self.cells[cells] -= moved[np.repeat(at - network.start[network.tail[sent]], entries) + row]
            self.cells[cells] -= moved[np.repeat(at + tails - network.start[network.head[sent]], entries) + column]
        self.least += network.least << self.scale
        self.cells = self._above(self.cells, network.open, network.first)
        self.values = self._above(self.values, network.alive, network.start)
        self.bound = -(-self.least >> self.scale)
        #: What reaches this costs more than the cut-off less 1, so at least the cut-off: costs are whole numbers.
        self.room = min((cutoff - 1 << self.scale) + 1 - self.least, 4 * self.much)

    def _memory(self, told: Mapping[str, Any], most: int) -> tuple[Any, int]:
        """Return the price of the memory of every row above the least of its variable, and that of the rest.

        A price above ``most`` counts as that.
        """
        network, (steps, prices) = self.network, _prices(self.network, told)
        scale = integer(told, "price_scale", 0, MOST_PRICE_SCALE)
        paid, total = np.zeros(len(network.cost), dtype=object), 0
        for step, price in zip(steps.tolist(), prices, strict=True):
            network.clock.tick()
            paid += network.memory(step).astype(object) * price
            total += (int(network.fixed[step]) - network.limit) * price
        if not prices:
            return np.zeros(len(network.cost), dtype=np.int64), 0
        low, paid = least_left(network, paid)
        total += sum(low.tolist())
        return np.where(network.alive, np.minimum(paid >> scale, max(most, 0)), 0), total >> scale

    def _above(self, costs: Any, left: Any, start: Ints) -> Any:
        """Return what costs exceed the least of what is left of each part by; add up the least ones."""
        if not len(costs):
            return costs
        costs = np.where(left, costs, self.much)
        low = np.minimum.reduceat(costs, start[:-1])
        if (low >= self.much).any():
            raise NothingLeft
        self.least += sum(low.tolist())
        return np.where(left, costs - np.repeat(low, np.diff(start)), self.much)

    def leave_out(self) -> None:
        """Leave out the values and entries that make every solution cost the cut-off or more."""
        network, sizes = self.network, self.network.sizes
        total = np.where(network.alive, self.values, self.much)
        for some in network.blocks(np.arange(len(network.tail)), np.diff(network.first)):
            cells, row, column = network.index(some)
            sums = self.cells[cells] + self.values[row] + self.values[column]
            network.open[cells] &= sums < self.room
            entries = np.diff(network.first)[some]
            for ends, rows in ((network.tail[some], row), (network.head[some], column)):
                mine, at = places(network.start[ends], sizes[ends]), offsets(sizes[ends])[:-1] - network.start[ends]
                least = np.full(len(mine), 3 * self.much, dtype=sums.dtype)
                np.minimum.at(least, rows + np.repeat(at, entries), sums)
                np.add.at(total, mine, np.where(least < self.much, least - self.values[mine], 0))
                network.alive[mine[least >= self.room]] = False
        network.alive &= total < self.room


def least_left(network: Network, of_row: Any) -> tuple[Any, Any]:
    """Return the least amount of each variable, of rows that are left, and what each of these exceeds it by."""
    left = np.where(network.alive, of_row, of_row.max(initial=0))
    low = np.minimum.reduceat(left, network.start[:-1]) if len(left) else left
    return low, left - np.repeat(low, network.sizes)


def _greatest(of_row: Any, start: Ints) -> Any:
    return np.maximum.reduceat(of_row, start[:-1]).astype(object) if len(of_row) else np.zeros(1, dtype=object)


def _messages(network: Network, told: Mapping[str, Any]) -> tuple[Ints, list[int]]:
    """Return the numbers of the pairs with messages, and the messages of each to its tail and to its head."""
    count = len(network.tail)
    if not told.get("messages"):
        return np.zeros(0, dtype=np.int64), []
    pairs = integers(told, "pairs", count - 1) if "pairs" in told else list(range(count))
    if any(late <= early for early, late in pairwise([-1, *pairs])):
        raise Unproven("proof.steps.pairs: expected increasing numbers")
    sent = np.array(pairs, dtype=np.int64)
    length = int((network.sizes[network.tail[sent]] + network.sizes[network.head[sent]]).sum())
    return sent, integers(told, "messages", LARGEST_MESSAGE, length)


def _prices(network: Network, told: Mapping[str, Any]) -> tuple[Ints, list[int]]:
    """Return the numbers of the steps that have prices, and the prices."""
    found = told.get("prices", [])
    if not isinstance(found, list) or not all(isinstance(each, list) and len(each) == 2 for each in found):
        raise Unproven("proof.steps.prices: expected a list of pairs [step, price]")
    steps = integers({"steps": [each[0] for each in found]}, "steps", 2**63 - 1)
    prices = integers({"prices": [each[1] for each in found]}, "prices", LARGEST_PRICE)
    if min(prices, default=0) < 0:
        raise Unproven("proof.steps.prices: expected prices from 0 on")
    if not found:
        return np.zeros(0, dtype=np.int64), []
    if not len(network.step) or min(steps) < network.step[0]:
        raise Unproven("proof.steps.prices: expected time steps at which a node is live")
    return np.searchsorted(network.step, np.array(steps, dtype=np.int64), side="right") - 1, prices
