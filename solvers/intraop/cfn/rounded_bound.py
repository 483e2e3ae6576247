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
#: Costs stay below 2 to this power in units of the messages, and sums of all numbers below 2 to that one if they are
#: computed in 64 bits.
COST_BITS, SUM_BITS = 56, 58


class RoundedBound:
    """The bound of rounded messages at rounded prices, for solutions that cost less than a cut-off.

    ``step``    the round, as docs/certificates/intraop.md describes it
    ``closed``  True if no solution costs less than the cut-off, which only an ``exact`` bound shows
    ``exact``   True if costs and memory are those of the instance, not rounded
    """

    def __init__(self, dual: Dual, cutoff: int, *, exact: bool) -> None:
        self._problem, self._model, self._cutoff = dual.problem, dual.problem.model, cutoff
        self.exact = exact and not dual.drop
        bits = dual.bits - dual.drop - self._model.shift  # a message of 1 is a cost of 2^-bits
        gap = cutoff - (dual.bound << self._model.shift)
        allowed = math.ldexp(ROUNDING * gap if gap > 0 else CLOSED_ROUNDING, min(bits, 900))
        coarse = math.floor(math.log2(max(1.0, allowed / max(1, 2 * len(self._model.tail)))))
        coarse = max(coarse, bits - max(0, COST_BITS - self._most.bit_length()))
        self._scale = max(0, bits - coarse)
        self._fine = max(0, bits + dual.grain - self._scale)
        self._messages: Ints = self._sent(dual) >> coarse << max(0, coarse - bits)
        up = self._scale + self._fine - bits - dual.grain
        self._prices = {row.step: price << up for row, price in sorted(dual.priced, key=_step) if price}
        self.closed = self.exact and self._room <= 0

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
        rows, (to_tail, to_head) = self._row, self._message
        room = min(self._room, 4 * self._much)
        values, cells = self._above
        sums = cells + values[rows[to_tail]] + values[rows[to_head]]
        best = np.full(len(rows), 3 * self._much, dtype=sums.dtype)
        np.minimum.at(best, to_tail, sums)
        np.minimum.at(best, to_head, sums)
        total = values.copy()
        np.add.at(total, rows, np.where(best < self._much, best - values[rows], 0))
        alive: Mask = (total < room).astype(bool)
        alive[rows[(best >= room).astype(bool)]] = False
        return alive, (sums < room).astype(bool)

    @cached_property
    def _most(self) -> int:
        """Sum of the greatest costs of all variables and pairs."""
        model = self._model
        parts = [(model.unary, model.start), (model.cell, model.cell_start)]
        allowed = [(np.where(costs < model.forbidden, costs, 0), start) for costs, start in parts if len(costs)]
        return sum(sum(np.maximum.reduceat(costs, start[:-1]).tolist()) for costs, start in allowed)

    @cached_property
    def _row(self) -> Ints:
        """Row of every message."""
        ends = np.stack([self._model.tail, self._model.head], axis=1).ravel()
        return spread(self._model.start[ends], self._model.sizes[ends])

    @cached_property
    def _message(self) -> tuple[Ints, Ints]:
        """Places of the messages from every cell to its value of the tail and of the head."""
        tails, heads = self._model.sizes[self._model.tail], self._model.sizes[self._model.head]
        first, columns = offsets(tails + heads)[:-1], np.repeat(heads, tails)
        return np.repeat(spread(first, tails), columns), spread(np.repeat(first + tails, tails), columns)

    def _sent(self, dual: Dual) -> Ints:
        """The messages of a bound; a value that sweeps have ruled out gets the least cost of its cells."""
        sent = dual.messages.state[1]
        ruled_out = np.abs(sent) >= FORBIDDEN
        if not ruled_out.any():
            return sent
        sent = np.where(ruled_out, 0, sent)
        cells = np.minimum(self._model.cell >> dual.drop, FORBIDDEN >> dual.bits) << dual.bits
        allowed = self._model.cell < self._model.forbidden
        for mine, other in (self._message, self._message[::-1]):
            least = np.full(len(sent), FORBIDDEN)
            np.minimum.at(least, mine, np.where(allowed, cells - sent[other], FORBIDDEN))
            own = np.zeros(len(sent), dtype=bool)
            own[mine] = True
            sent = np.where(ruled_out & own & (least < FORBIDDEN), least, sent)
        return sent

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
        return 4 * ((self._most << self._scale) + sum(map(abs, self._messages.tolist())) + sum(paid.tolist())) + 1

    @cached_property
    def _costs(self) -> tuple[Any, Any]:
        """Costs of values and cells after messages and prices."""
        model, kind = self._model, np.int64 if self._much.bit_length() <= SUM_BITS else object
        messages, (to_tail, to_head) = self._messages.astype(kind), self._message
        values = (model.unary.astype(kind) << self._scale) + self._paid[0].astype(kind)
        np.add.at(values, self._row, messages)
        allowed = model.cell < model.forbidden
        cells = (np.where(allowed, model.cell, 0).astype(kind) << self._scale) - messages[to_tail] - messages[to_head]
        return values, np.where(allowed, cells, self._much)

    @cached_property
    def _low(self) -> list[Any]:
        """The least cost of every variable, and of every pair."""
        starts = self._model.start, self._model.cell_start
        return [
            np.minimum.reduceat(costs, start[:-1]) if len(costs) else costs
            for costs, start in zip(self._costs, starts, strict=True)
        ]

    @property
    def _least(self) -> int:
        """The bound, in units of the messages."""
        return self._paid[1] + sum(sum(low.tolist()) for low in self._low)

    @property
    def _room(self) -> int:
        """What makes the bound exceed the cut-off less 1: costs are whole numbers."""
        return (self._cutoff - 1 << self._scale) + 1 - self._least

    @property
    def _above(self) -> list[Any]:
        """What the costs of values and cells exceed the least ones by."""
        parts = self._problem.variable, np.repeat(np.arange(len(self._model.tail)), np.diff(self._model.cell_start))
        above = [costs - low[part] for costs, low, part in zip(self._costs, self._low, parts, strict=True)]
        above[1] = np.where(self._model.cell < self._model.forbidden, above[1], self._much)
        return above


def _step(priced: tuple[Any, int]) -> int:
    return int(priced[0].step)
