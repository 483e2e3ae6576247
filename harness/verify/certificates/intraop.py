"""Proofs for ``intraop``: costs moved between nodes and pairs of nodes, prices of memory at time steps, and cases.

``{"kind": "costs-moved", "cutoff": c, "rounds": [...], "cases": [...]}``, see docs/certificates/intraop.md.
A round has

``pairs``     numbers of the pairs that have messages, increasing; all pairs without it
``messages``  for each of them and every strategy of its lower node, then of its higher node, the cost that moves from
              the pair's table to the strategy, in units of 2^-``scale``; none if empty
``prices``    ``[step, price]``: cost of a byte at a time step, not negative, in units of
              2^-(``scale`` + ``price_scale``)

What cannot be part of a solution that costs less than the cut-off by one round is left out in those after it. A case
has ``of`` (the number of an earlier case, or -1 for the proof itself), ``node``, ``strategies`` and rounds of its own:
there the node takes one of these strategies.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import accumulate, pairwise
from typing import Any

import numpy as np

from shardmark.harness.verify.certificates import Clock, Unproven, integer, integers
from shardmark.harness.verify.certificates.cost_network import LARGEST, Network
from shardmark.instances.files.columns import Ints, describe
from shardmark.instances.intraop import Instance

#: With this greatest message, and the greatest entry of a table, no difference of 64 bits wraps.
LARGEST_MESSAGE = 1 << 59
#: A greater excess over a minimum counts as this.
MUCH = 1 << 60
MOST_SCALE, MOST_PRICE_SCALE, LARGEST_PRICE = 60, 128, 1 << 160


class _NothingLeft(Exception):
    """A node or a pair has nothing left that a solution below the cut-off can contain."""


def costs_moved(instance: Instance, proof: Mapping[str, Any], clock: Clock) -> int:
    """Return the greatest whole number that no solution costs less than, by the rounds and cases of a proof."""
    cutoff = proof.get("cutoff")
    if type(cutoff) is not int:
        raise Unproven(f"proof.cutoff: expected an integer, found {describe(cutoff)}")
    cases = _objects(proof, "cases")
    parents = [integer(case, "of", -1, number - 1) for number, case in enumerate(cases)]
    inner: dict[int, list[int]] = {}  # of each case that is divided, the cases that it is divided into
    for number, parent in enumerate(parents):
        inner.setdefault(parent, []).append(number)
    root = Network(instance, clock)
    bounds, networks, divided = {-1: _by_rounds(root, proof, cutoff)}, {-1: root}, set[int]()
    for number, (parent, case) in enumerate(zip(parents, cases, strict=True)):
        network = networks[parent].copy()
        if number == inner[parent][0] and _all_taken(network, [cases[each] for each in inner[parent]]):
            divided.add(parent)
        network.kept[_menu(network, case)] &= _strategies(network, case)
        bounds[number] = _by_rounds(network, case, cutoff)
        if number in inner:
            networks[number] = network
        if number == inner[parent][-1]:
            del networks[parent]
    for number in sorted(divided, reverse=True):  # the inner ones first
        bounds[number] = max(bounds[number], min(bounds[each] for each in inner[number]))
    return bounds[-1]


def _objects(proof: Mapping[str, Any], key: str) -> list[dict[str, Any]]:
    """Return a list of objects of a proof, empty if it has none of that name."""
    found = proof.get(key, [])
    if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
        raise Unproven(f"proof.{key}: expected a list of objects, found {describe(found)}")
    return found


def _menu(network: Network, case: Mapping[str, Any]) -> slice:
    """Return the places of the strategies of a case's node."""
    return network.menu[integer(case, "node", 0, len(network.menu) - 1)]


def _strategies(network: Network, case: Mapping[str, Any]) -> Any:
    """Return a mask of the strategies of a case."""
    menu = _menu(network, case)
    taken = np.zeros(menu.stop - menu.start, dtype=bool)
    chosen = integers(case, "strategies", len(taken) - 1)
    if min(chosen, default=0) < 0:
        raise Unproven("proof.cases.strategies: expected numbers from 0 on")
    taken[chosen] = True
    return taken


def _all_taken(network: Network, cases: list[dict[str, Any]]) -> bool:
    """Return whether each strategy of one node that is kept belongs to one of these cases."""
    menu = _menu(network, cases[0])
    taken = np.logical_or.reduce([_strategies(network, case) for case in cases if _menu(network, case) == menu])
    return not (network.kept[menu] & ~taken).any()


def _by_rounds(network: Network, case: Mapping[str, Any], cutoff: int) -> int:
    """Return the bound, at most the cut-off, that the rounds of a case prove; leave out what they rule out."""
    bound = 0
    try:
        for told in _objects(case, "rounds"):
            left = None
            while bound < cutoff and left != (left := network.left):  # as long as the last time left something out
                network.settle()
                found = _Round(network, told)
                bound = max(bound, -(-found.least >> found.shift))  # costs are whole numbers
                found.leave_out(cutoff)
    except _NothingLeft:
        return cutoff
    return min(bound, cutoff)


class _Round:
    """One round: costs after its messages and prices, in units of 2^-``shift``; ``least`` is their sum of minima.

    ``cells`` and ``values`` are what exceeds the minimum of a pair, in units of 2^-``scale``, and of a node.
    """

    def __init__(self, network: Network, told: Mapping[str, Any]) -> None:
        self.network = network
        self.scale = integer(told, "scale", 0, MOST_SCALE)
        self.price_scale = integer(told, "price_scale", 0, MOST_PRICE_SCALE)
        self.shift = self.scale + self.price_scale
        self.least = network.others << self.shift
        self.values = network.cost << self.scale
        self.cells = self._moved(_messages(network, told))
        self.values = (self.values << self.price_scale) + self._memory(told)
        self._take_minima()

    def _moved(self, messages: dict[int, Ints]) -> dict[int, Ints]:
        """Move costs from pairs to strategies, and take the minimum of every pair."""
        network, result = self.network, {}
        for pair, kept in network.cells.items():
            network.clock.tick()
            if not kept.any():
                raise _NothingLeft
            cells = np.minimum(network.table[pair], LARGEST >> self.scale) << self.scale
            if pair in messages:
                (rows, columns), height = network.ends[pair], len(cells)
                to_row, to_column = messages[pair][:height], messages[pair][height:]
                self.values[rows] += to_row.astype(object)
                self.values[columns] += to_column.astype(object)
                cells = cells - to_row[:, None] - to_column[None, :]
            minimum = cells[kept].min()
            self.least += int(minimum) << self.price_scale
            result[pair] = np.where(kept, cells - minimum, MUCH)
        return result

    def _memory(self, told: Mapping[str, Any]) -> Any:
        """Return the price of the memory of every strategy; the price of the limit is taken from ``least``."""
        instance, prices = self.network.instance, told.get("prices", [])
        if not isinstance(prices, list) or not all(isinstance(pair, list) and len(pair) == 2 for pair in prices):
            raise Unproven("proof.rounds.prices: expected a list of pairs [step, price]")
        steps = integers({"steps": [pair[0] for pair in prices]}, "steps", 2**63 - 1)
        amounts = integers({"prices": [pair[1] for pair in prices]}, "prices", LARGEST_PRICE)
        if min(amounts, default=0) < 0 or any(late <= early for early, late in pairwise(steps)):
            raise Unproven("proof.rounds.prices: expected increasing steps, and prices from 0 on")
        if not prices:
            return 0
        if instance.usage_limit is None:
            raise Unproven("proof.rounds.prices: expected none, as memory has no limit")
        until = [0, *accumulate(amounts)]
        self.least -= instance.usage_limit * until[-1]
        first, last = (np.searchsorted(steps, ends) for ends in (instance.begin, instance.end))
        priced = [until[to] - until[since] for since, to in zip(first.tolist(), last.tolist(), strict=True)]
        return np.repeat(np.array(priced, dtype=object), instance.strategies) * instance.usage.astype(object)

    def _take_minima(self) -> None:
        """Take the minimum of every node over the strategies that are kept."""
        network = self.network
        for menu in network.menu:
            kept = self.values[menu][network.kept[menu]]
            if not len(kept):
                raise _NothingLeft
            minimum = min(kept)
            self.least += minimum
            self.values[menu] -= minimum

    def leave_out(self, cutoff: int) -> None:
        """Leave out the strategies and the entries of pairs that make every solution cost ``cutoff`` or more."""
        network = self.network
        room = -((self.least - (cutoff << self.shift)) >> self.price_scale)
        if room > MUCH:
            return
        values = np.where(network.kept, np.minimum(self.values >> self.price_scale, MUCH), MUCH).astype(np.int64)
        total = values.copy()  # with the least that each pair of the node and its other node add
        for pair in self.cells:
            network.clock.tick()
            sums = self._whole(pair, values)
            network.cells[pair] = sums < room
            for at, axis in zip(network.ends[pair], (1, 0), strict=True):
                total[at] = np.minimum(total[at] + np.maximum(sums.min(axis=axis) - values[at], 0), MUCH)
        network.kept &= total < room

    def _whole(self, pair: int, values: Ints) -> Ints:
        """Return what the entries of a pair exceed the minimum by, together with their strategies."""
        rows, columns = self.network.ends[pair]
        cells = np.minimum(self.cells[pair], MUCH)
        return np.minimum(cells + values[rows][:, None] + values[columns][None, :], MUCH)


def _messages(network: Network, told: Mapping[str, Any]) -> dict[int, Ints]:
    """Return the messages of a round by the number of the pair."""
    if not told.get("messages"):
        return {}
    count = len(network.table)
    pairs = integers(told, "pairs", count - 1) if "pairs" in told else range(count)
    if any(late <= early for early, late in pairwise([-1, *pairs])):
        raise Unproven("proof.rounds.pairs: expected increasing numbers")
    ends = [0, *accumulate(sum(network.table[pair].shape) for pair in pairs)]
    listed = np.array(integers(told, "messages", LARGEST_MESSAGE, ends[-1]), dtype=np.int64)
    return {pair: listed[first:last] for pair, (first, last) in zip(pairs, pairwise(ends), strict=True)}


PROOFS = {"costs-moved": costs_moved}
