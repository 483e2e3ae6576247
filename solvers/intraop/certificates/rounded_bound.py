"""A Lagrangian bound with short messages: a round of a certificate, and what the referee will leave out by it."""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any

import numpy as np

from shardmark.instances.files.columns import Ints
from shardmark.solvers.intraop._kernels import FORBIDDEN
from shardmark.solvers.intraop.cfn.lagrangian import Dual
from shardmark.solvers.intraop.network.model import Mask
from shardmark.solvers.intraop.network.ragged import offsets, spread

#: What rounding messages may cost, as a fraction of the gap: short numbers make small files.
ROUNDING = 0.05
#: What rounding may cost if the bound reaches the cut-off, in units of cost.
CLOSED_ROUNDING = 0.25
#: Bits that messages can mostly do without, as rounding errors cancel out.
COARSER = 4
#: Most bits that messages do without: rounding half of that fits into 64 bits.
COARSEST = 60
#: Costs stay below 2 to this power in units of the messages, and sums of all numbers below 2 to that one if they are
#: computed in 64 bits.
COST_BITS, SUM_BITS = 56, 58


def rounded_bound(dual: Dual, cutoff: int, *, exact: bool) -> RoundedBound:
    """Return the bound with the shortest messages that cost nothing, else little, for solutions below a cut-off.

    ``exact``  True if costs and memory are those of the instance, not rounded
    """
    short = RoundedBound(dual, cutoff, exact, COARSER)
    kept = short.closed or (short.exact and short.proven >= dual.bound << dual.problem.model.shift)
    return short if kept else RoundedBound(dual, cutoff, exact, 0)


class RoundedBound:
    """The bound of rounded messages at rounded prices, for solutions that cost less than a cut-off.

    Messages go to the values of each pair's tail; then each value of its head gets the least cost of its cells.

    ``step``     the round, as docs/certificates/intraop.md describes it
    ``closed``   True if no solution costs less than the cut-off, which only an ``exact`` bound shows
    ``exact``    True if costs and memory are those of the instance, not rounded
    """

    def __init__(self, dual: Dual, cutoff: int, exact: bool, coarser: int) -> None:
        self._problem, self._model, self._cutoff = dual.problem, dual.problem.model, cutoff
        self.exact = exact and not dual.drop
        bits = dual.bits - dual.drop - self._model.shift  # a message of 1 is a cost of 2^-bits
        self._gap = cutoff - (dual.bound << self._model.shift)
        allowed = math.ldexp(ROUNDING * self._gap if self._gap > 0 else CLOSED_ROUNDING, min(bits, 900))
        coarse = math.floor(math.log2(max(1.0, allowed / max(1, 2 * len(self._model.tail))))) + coarser
        coarse = min(max(coarse, bits - max(0, COST_BITS - self._most.bit_length())), COARSEST)
        self._scale = max(0, bits - coarse)
        self._fine = max(0, bits + dual.grain - self._scale)
        self._messages: Ints = self._sent(dual) + (1 << coarse >> 1) >> coarse << max(0, coarse - bits)
        up = self._scale + self._fine - bits - dual.grain
        self._prices = {row.step: price << up for row, price in sorted(dual.priced, key=_step) if price}
        self.closed = self.exact and self.room <= 0

    @property
    def proven(self) -> int:
        """What an exact bound proves."""
        return -(-self._least >> self._scale)

    @property
    def step(self) -> dict[str, Any]:
        """The round; without messages if costs are rounded and the referee has other pairs."""
        step: dict[str, Any] = {"scale": self._scale}
        pairs_only = (np.diff(self._problem.instance.scope_start) == 2).all()
        if self._messages.any() and (self.exact or pairs_only):
            step["messages"] = self._messages.tolist()
        if self._prices:
            time = self._problem.timeline.time
            step |= {"price_scale": self._fine, "prices": [[int(time[at]), of] for at, of in self._prices.items()]}
        return step

    @cached_property
    def left(self) -> tuple[Mask, Mask]:
        """Masks of the values and cells that solutions below the cut-off can contain, if the bound is exact."""
        rows = self._tail_row, self._head_row
        room = min(self.room, 4 * self._much)
        values, cells = self.above
        sums = cells + values[rows[0]][self._tail_of_cell] + values[rows[1]][self._head_of_cell]
        total, alive = values.copy(), np.ones(len(values), dtype=bool)
        for row, of_cell in zip(rows, (self._tail_of_cell, self._head_of_cell), strict=True):
            best = np.full(len(row), 3 * self._much, dtype=sums.dtype)
            np.minimum.at(best, of_cell, sums)
            np.add.at(total, row, np.where(best < self._much, best - values[row], 0))
            alive[row[(best >= room).astype(bool)]] = False
        return alive & (total < room).astype(bool), (sums < room).astype(bool)

    @cached_property
    def _most(self) -> int:
        """Sum of the greatest costs of all variables and pairs."""
        model = self._model
        parts = [(model.unary, model.start), (model.cell, model.cell_start)]
        allowed = [(np.where(costs < model.forbidden, costs, 0), start) for costs, start in parts if len(costs)]
        return sum(sum(np.maximum.reduceat(costs, start[:-1]).tolist()) for costs, start in allowed)

    @cached_property
    def _tail_row(self) -> Ints:
        """Row of every value of the tail of every pair, which all get messages."""
        return spread(self._model.start[self._model.tail], self._model.sizes[self._model.tail])

    @cached_property
    def _head_row(self) -> Ints:
        """Row of every value of the head of every pair."""
        return spread(self._model.start[self._model.head], self._model.sizes[self._model.head])

    @cached_property
    def _tail_of_cell(self) -> Ints:
        """Place of every cell's value of the tail among those of all pairs."""
        columns = np.repeat(self._model.sizes[self._model.head], self._model.sizes[self._model.tail])
        return np.repeat(np.arange(len(columns)), columns)

    @cached_property
    def _head_of_cell(self) -> Ints:
        """Place of every cell's value of the head among those of all pairs."""
        tails, heads = self._model.sizes[self._model.tail], self._model.sizes[self._model.head]
        return spread(np.repeat(offsets(heads)[:-1], tails), np.repeat(heads, tails))

    def _sent(self, dual: Dual) -> Ints:
        """The messages of a bound to the tails; a value that sweeps have ruled out gets the least cost of its cells."""
        sent, sizes = dual.messages.state[1], self._model.sizes
        tails, heads = sizes[self._model.tail], sizes[self._model.head]
        first = offsets(tails + heads)[:-1]
        to_tail = sent[spread(first, tails)]
        ruled_out = np.abs(to_tail) >= FORBIDDEN
        if not ruled_out.any():
            return to_tail
        to_head = sent[spread(first + tails, heads)]
        to_head[np.abs(to_head) >= FORBIDDEN] = 0
        cells = np.minimum(self._model.cell >> dual.drop, FORBIDDEN >> dual.bits) << dual.bits
        cells = np.where(self._model.cell < self._model.forbidden, cells - to_head[self._head_of_cell], FORBIDDEN)
        least = np.full(len(to_tail), FORBIDDEN)
        np.minimum.at(least, self._tail_of_cell, cells)
        return np.where(ruled_out, np.where(least < FORBIDDEN, least, 0), to_tail)

    @property
    def paid(self) -> Any:
        """Price of the memory of every value above the least of its variable."""
        return self._paid[0].astype(self._costs[0].dtype)

    @property
    def charged(self) -> int:
        """The part of the bound that is prices: negative, as the limit is paid back."""
        return self._paid[1]

    @cached_property
    def _paid(self) -> tuple[Any, int]:
        """Price of the memory of every value above the least of its variable, and that of the rest."""
        model, paid, rest = self._model, np.zeros(len(self._model.unary), dtype=object), 0
        for step, price in self._prices.items():
            paid += self._problem.memory(step).astype(object) * price
            rest -= int(self._problem.room[step]) * price
        low = np.minimum.reduceat(paid, model.start[:-1])
        most = max(0, self._cutoff - self._problem.instance.cheapest_parts()) << self._scale
        paid = np.minimum(paid - low[self._problem.variable] >> self._fine, most)
        return paid, rest + sum(low.tolist()) >> self._fine

    @cached_property
    def _much(self) -> int:
        """More than any sum."""
        paid = np.maximum.reduceat(self._paid[0], self._model.start[:-1])
        return 8 * ((self._most << self._scale) + sum(map(abs, self._messages.tolist())) + sum(paid.tolist())) + 1

    @cached_property
    def _costs(self) -> tuple[Any, Any]:
        """Costs of values and cells after messages and prices."""
        model, kind = self._model, np.int64 if self._much.bit_length() <= SUM_BITS else object
        messages, allowed = self._messages.astype(kind), model.cell < model.forbidden
        values = (model.unary.astype(kind) << self._scale) + self._paid[0].astype(kind)
        np.add.at(values, self._tail_row, messages)
        cells = (np.where(allowed, model.cell, 0).astype(kind) << self._scale) - messages[self._tail_of_cell]
        least = np.full(len(self._head_row), self._much, dtype=kind)
        np.minimum.at(least, self._head_of_cell, np.where(allowed, cells, self._much))
        least[least == self._much] = 0
        np.add.at(values, self._head_row, least)
        return values, np.where(allowed, cells - least[self._head_of_cell], self._much)

    @cached_property
    def _low(self) -> list[Any]:
        """The least cost of every variable, and of every pair."""
        starts = self._model.start, self._model.cell_start
        return [
            np.minimum.reduceat(costs, start[:-1]) if len(costs) else costs
            for costs, start in zip(self._costs, starts, strict=True)
        ]

    @cached_property
    def _least(self) -> int:
        """The bound, in units of the messages."""
        return self._paid[1] + sum(sum(low.tolist()) for low in self._low)

    @property
    def room(self) -> int:
        """What makes the bound exceed the cut-off less 1: costs are whole numbers."""
        return (self._cutoff - 1 << self._scale) + 1 - self._least

    @cached_property
    def above(self) -> list[Any]:
        """What the costs of values and cells exceed the least ones by."""
        parts = self._problem.variable, np.repeat(np.arange(len(self._model.tail)), np.diff(self._model.cell_start))
        above = [costs - low[part] for costs, low, part in zip(self._costs, self._low, parts, strict=True)]
        above[1] = np.where(self._model.cell < self._model.forbidden, above[1], self._much)
        return above


def _step(priced: tuple[Any, int]) -> int:
    return int(priced[0].step)
