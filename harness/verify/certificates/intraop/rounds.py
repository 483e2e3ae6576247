"""One round of a proof: costs moved by messages and prices of memory, their minima, and what reaches the cut-off."""

from __future__ import annotations

from collections.abc import Mapping
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
        to_tail, to_head = _messages(network, told)
        self.paid, self.charged = self._memory(told, network.room << self.scale)
        most = (network.most << self.scale) + sum(map(abs, to_tail + (to_head or [])))
        most += int(_greatest(self.paid, network.start).sum())
        self.much = 8 * most + 1  # no table moves more to a value than its greatest entry and message
        kind = np.int64 if self.much < SMALL else object
        self.paid = self.paid.astype(kind)
        self.values = (network.cost.astype(kind) << self.scale) + self.paid
        self.cells = network.cell.astype(kind) << self.scale
        self._move(*(None if sent is None else np.array(sent, dtype=kind) for sent in (to_tail, to_head)))
        self.least = self.charged + (network.least << self.scale)
        self.cells = self._above(self.cells, network.open, network.first)
        self.values = self._above(self.values, network.alive, network.start)
        self.bound = -(-self.least >> self.scale)
        #: What reaches this costs more than the cut-off less 1, so at least the cut-off: costs are whole numbers.
        self.room = (cutoff - 1 << self.scale) + 1 - self.least

    def _move(self, to_tail: Any, to_head: Any) -> None:
        """Move costs from tables to values: to the tails, then to the heads what is sent or each column shares."""
        network, sizes = self.network, self.network.sizes
        at, head_at = offsets(sizes[network.tail]), offsets(sizes[network.head])
        for some in network.blocks(np.arange(len(network.tail)), np.diff(network.first)):
            tails, heads, entries = network.tail[some], network.head[some], np.diff(network.first)[some]
            np.add.at(self.values, places(network.start[tails], sizes[tails]), to_tail[places(at[some], sizes[tails])])
            cells, row, column = network.index(some)
            self.cells[cells] -= to_tail[row + np.repeat(at[some] - network.start[tails], entries)]
            mine, shift = places(network.start[heads], sizes[heads]), offsets(sizes[heads])[:-1] - network.start[heads]
            place, open_ = column + np.repeat(shift, entries), network.open[cells]
            if to_head is None:
                least = np.full(len(mine), self.much, dtype=to_tail.dtype)
                np.minimum.at(least, place[open_], self.cells[cells[open_]])
                least[least == self.much] = 0
            else:
                least = to_head[places(head_at[some], sizes[heads])]
            np.add.at(self.values, mine, least)
            self.cells[cells] -= least[place]

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
        total, room = np.where(network.alive, self.values, self.much), min(self.room, 4 * self.much)
        for some in network.blocks(np.arange(len(network.tail)), np.diff(network.first)):
            cells, row, column = network.index(some)
            sums = self.cells[cells] + self.values[row] + self.values[column]
            network.open[cells] &= sums < room
            entries = np.diff(network.first)[some]
            for ends, rows in ((network.tail[some], row), (network.head[some], column)):
                mine, at = places(network.start[ends], sizes[ends]), offsets(sizes[ends])[:-1] - network.start[ends]
                least = np.full(len(mine), 3 * self.much, dtype=sums.dtype)
                np.minimum.at(least, rows + np.repeat(at, entries), sums)
                np.add.at(total, mine, np.where(least < self.much, least - self.values[mine], 0))
                network.alive[mine[least >= room]] = False
        network.alive &= total < room


def least_left(network: Network, of_row: Any) -> tuple[Any, Any]:
    """Return the least amount of each variable, of rows that are left, and what each of these exceeds it by."""
    left = np.where(network.alive, of_row, of_row.max(initial=0))
    low = np.minimum.reduceat(left, network.start[:-1]) if len(left) else left
    return low, left - np.repeat(low, network.sizes)


def _greatest(of_row: Any, start: Ints) -> Any:
    return np.maximum.reduceat(of_row, start[:-1]).astype(object) if len(of_row) else np.zeros(1, dtype=object)


def _messages(network: Network, told: Mapping[str, Any]) -> tuple[list[int], list[int] | None]:
    """Return the messages to the tail of each pair, 0 if a proof has none, and those to the head if it has any."""
    tails, heads = network.sizes[network.tail], network.sizes[network.head]
    found = integers(told, "messages", LARGEST_MESSAGE) if told.get("messages") else [0] * int(tails.sum())
    if len(found) == tails.sum():
        return found, None
    if len(found) != (tails + heads).sum():
        raise Unproven(f"proof.steps.messages: expected {tails.sum()} integers, found {len(found)}")
    first = offsets(tails + heads)[:-1]
    to_tail, to_head = ([found[at] for at in places(*x).tolist()] for x in ((first, tails), (first + tails, heads)))
    return to_tail, to_head


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
