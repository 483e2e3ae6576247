"""Lagrangian lower bounds in exact integers: a memory multiplier per step, and message passing in the network.

Good multipliers and messages are found in floating point with a soft minimum that becomes ever harder (Savchynskyy et
al., UAI 2012), as coordinate ascent with the plain minimum gets stuck on steps with nearly the same nodes. Their bound
is then computed in integers.
"""

from __future__ import annotations

import copy
import dataclasses
import time
from collections.abc import Callable, Iterable

import numpy as np

from shardmark.instances.files.columns import Floats, Ints
from shardmark.solvers.intraop._kernels import FORBIDDEN, NO_USE, SoftTrws, Trws
from shardmark.solvers.intraop.cfn.multipliers import Multipliers, StepMultiplier
from shardmark.solvers.intraop.network.model import Mask
from shardmark.solvers.intraop.network.ragged import argmin
from shardmark.solvers.intraop.network.reduced_problem import Problem

#: Scaled value of ``top``: leaves room for fractions of messages.
FINE = 2**56
#: Units of memory per limit, rounded down.
UNITS = 2**24
#: Softness, as a fraction of the bound per variable: the first, the first if multipliers are given, the last.
SOFT, WARM, HARD = 1.0, 0.2, 0.001
#: First and last softness for the bound of a part of a problem, as multiples of the gap of the whole. With a larger
#: first one, memory that binds only slightly loses its price.
SOFTEST, HARDEST = 10.0, 0.02
#: Factors on the softness per stage above `MIDDLE`, where assignments rounded from messages improve fast, and below.
FAST, SLOW = 0.5, 0.8
#: Softness, as a fraction of the bound per variable, below which it falls slowly: there the bound rises.
MIDDLE = 0.02
#: Sweeps between two moves of the multipliers.
SWEEPS = 5
#: Moves between two searches for further overloaded steps.
LOOK = 4
#: Fewest and most moves per stage.
MOVES = range(4, 20)
#: A stage ends once expected memory is within this fraction of the limit.
SETTLED = 0.01
#: Exact sweeps that evaluate a stage.
PROOF = 5
#: Exact sweeps between two checks of progress at the end.
POLISH = 10
#: Relative gain of a check that justifies more sweeps.
GAIN = 3e-5
#: Least weight of all values of a variable together, to divide by.
LEAST_WEIGHT = 1e-300


class Dual:
    """The Lagrangian bound of a problem, for assignments that cost less than ``top``, in costs of the model.

    Any multipliers and messages give a bound; `climb` improves them. All numbers are integers: costs divided by
    2**drop, rounded down, times 2**bits, and memory in units of 2**grain bytes.
    """

    def __init__(self, problem: Problem, top: int, multipliers: dict[int, float] | None = None) -> None:
        model, limit = problem.model, problem.timeline.limit
        self.problem = problem
        self.top = top = min(top, model.forbidden)
        self.drop = max(0, top.bit_length() - FINE.bit_length() + 1)
        self.bits = max(0, FINE.bit_length() - 1 - top.bit_length())
        self.grain = max(0, limit.bit_length() - UNITS.bit_length())
        end = max(0, ((top - 1) >> self.drop) + 1)
        cell, unary = (np.minimum(costs >> self.drop, end) << self.bits for costs in (model.cell, model.unary))
        self.messages = Trws(model.start, model.tail, model.head, cell, unary, end << self.bits)
        self._cost = self.messages.cost.copy()
        self._proved: list[tuple[StepMultiplier, int]] = []
        self._soft: SoftTrws | None = None
        self._softness = 1.0
        chains = [np.bincount(ends, minlength=model.variables) for ends in (model.tail, model.head)]
        self._prices = Multipliers(problem, self.grain, np.maximum(1, np.maximum(*chains)))
        for step, multiplier in (multipliers or {}).items():
            self._note_room(self._prices.add(step, multiplier / self._per_byte))

    @property
    def _per_byte(self) -> float:
        """Price of a byte, in costs of the model, at a multiplier of 1 per unit of memory."""
        return 2.0 ** (self.drop - self.bits - self.grain)

    @property
    def multipliers(self) -> dict[int, float]:
        """Price of a byte in every step that has one."""
        return self.per_byte(self._proved)

    def per_byte(self, priced: Iterable[tuple[StepMultiplier, int]]) -> dict[int, float]:
        """Convert prices per unit of memory rows to prices per byte of their steps, those above 0."""
        return {row.step: multiplier * self._per_byte for row, multiplier in priced if multiplier}

    @property
    def priced(self) -> list[tuple[StepMultiplier, int]]:
        """The memory rows of the bound with their prices per unit."""
        return list(self._proved)

    @property
    def bound(self) -> int:
        """Lower bound on the cost of any assignment, in costs of the model; ``top`` if none costs less."""
        return self.in_costs(self.messages.bound)

    def in_costs(self, bound: int) -> int:
        """Convert a bound of messages to costs of the model, at most ``top``."""
        return min(self.top, -(-bound >> self.bits) << self.drop)

    @property
    def closed(self) -> bool:
        """True if no assignment costs less than ``top``."""
        return self.messages.bound >= self.messages.top

    def price(self) -> Ints:
        """Price of the memory of every value, shape (rows,), in costs of the model, rounded down."""
        return self._priced() >> self.bits << self.drop

    def _priced(self) -> Ints:
        total = np.zeros(len(self._cost), dtype=np.int64)
        for row, multiplier in self._proved:
            total[row.at] += row.usage * multiplier
        return total

    def values(self) -> Ints:
        """An assignment, shape (v,), of low cost plus price of memory; it need not fit."""
        return argmin(self.messages.cost, self.problem.model.start) if self._soft is None else self._soft.round()

    def weights(self) -> Floats:
        """Weights of values, shape (rows,), that add up to 1 per variable: those of the last softened messages."""
        if self._soft is None:
            return 1 / np.repeat(self.problem.model.sizes, self.problem.model.sizes)
        return self._weights(self._soft, self._softness)

    def halves(self, values: Mask, cells: Mask) -> tuple[int, list[tuple[Mask, Mask]]]:
        """Split masks of values and cells by one variable: values of low memory payment, and the others.

        Returns the variable, the one whose payment varies most under the weights of the last softened messages, and the
        two pairs of masks.
        """
        model, variable = self.problem.model, self.problem.variable
        starts, price = model.start[:-1], self.price().astype(np.float64)
        weight = np.where(values, self.weights(), 0.0)
        weight /= np.maximum(np.add.reduceat(weight, starts), LEAST_WEIGHT)[variable]
        mean = np.add.reduceat(weight * price, starts)
        variance = np.add.reduceat(weight * (price - mean[variable]) ** 2, starts)
        several = np.add.reduceat(values.astype(np.int64), starts) > 1
        chosen = int(np.argmax(np.where(several, variance, -1.0)))
        own = values & (variable == chosen)
        more = own & (price > mean[chosen])
        if not more.any() or (more == own).all():  # equal payments: split off the likeliest value
            rows = np.flatnonzero(own)
            more = own.copy()
            more[rows[np.argmax(weight[rows])]] = False
        return chosen, [(values & ~(own & more), cells), (values & ~(own & ~more), cells)]

    def prune(self, top: int | None = None) -> Problem | None:
        """Restrict the problem to values and cells of assignments below ``top``, by default its own; None if empty."""
        top = self.top if top is None else top
        return None if self.bound >= top else self.problem.restrict(*self._below(top))

    def left(self, top: int) -> int:
        """Number of values and cells that assignments below ``top`` may contain."""
        return 0 if self.bound >= top else sum(int(allowed.sum()) for allowed in self._below(top))

    def _below(self, top: int) -> tuple[Mask, Mask]:
        """Masks of the values and cells of assignments below ``top``, which is above the bound."""
        return self.messages.prune(min(self.messages.top, self.scaled_top(top)))

    def scaled_top(self, top: int) -> int:
        """Convert a top, in costs of the model, to the scale of the messages."""
        return ((top - 1 >> self.drop) + 1) << self.bits

    def part(self, messages: Trws, priced: list[tuple[StepMultiplier, int]]) -> Dual:
        """The bound for the assignments that messages allow, found with the same costs and these prices."""
        result = copy.copy(self)
        result.messages, result._proved, result._soft = messages, list(priced), None
        result._cost = np.where(messages.cost < FORBIDDEN, self._cost, FORBIDDEN)
        result._prices = self._prices.emptied()
        result._prices.rows = {
            row.step: dataclasses.replace(row, multiplier=float(price), idle=0) for row, price in priced
        }
        return result

    def climb(
        self,
        until: float,
        note: Callable[[], None] = lambda: None,
        *,
        warm: float = WARM,
        hard: float = HARD,
        enough: Callable[[], bool] = lambda: False,
    ) -> None:
        """Raise the bound until it gains little, time is up or ``enough`` returns True; call ``note`` as it rises.

        ``warm`` is the first softness if multipliers are given, ``hard`` the last.
        """
        began = time.monotonic()
        self.messages.sweep(PROOF)
        until -= time.monotonic() - began  # evaluating a stage takes as long
        self._cost = np.where(self.messages.cost < FORBIDDEN, self._cost, FORBIDDEN)  # keep forbidden values forbidden
        soft = self._soft = SoftTrws(self.messages, self._cost.astype(np.float64))
        for row in self._prices.rows.values():
            soft.cost[row.at] += row.multiplier * row.usage
        fraction = warm if self._prices.rows else SOFT
        while fraction > hard and not self.closed and time.monotonic() < until and not enough():
            self._stage(soft, fraction, until)
            if self._adopt(soft):
                note()
            fraction *= FAST if fraction > MIDDLE else SLOW
        before = -FORBIDDEN
        while not (self.closed or enough()) and self.messages.bound - before > GAIN * abs(before):
            if time.monotonic() > until:
                break
            before = self.messages.bound
            self.messages.sweep(POLISH)
        note()

    def _stage(self, soft: SoftTrws, fraction: float, until: float) -> None:
        """Pass messages at one softness until expected memory nearly fits, or the moves are used up."""
        softness = max(1.0, fraction * abs(self.messages.bound) / max(1, self.problem.model.variables))
        self._softness = softness
        for moves in range(MOVES.stop):
            if self.closed or time.monotonic() > until:
                return
            soft.sweep(SWEEPS, softness)
            weight = self._weights(soft, softness)
            if moves % LOOK == 0 and self.problem.timeline.exact:
                for row in self._prices.look(weight):
                    self._note_room(row)
            if self._prices.move(weight, softness, soft.cost) < SETTLED and moves + 1 >= MOVES.start:
                return

    def _note_room(self, row: StepMultiplier) -> None:
        if row.room < 0:
            self.messages.bound = self.messages.top  # nothing fits into this step

    def _weights(self, soft: SoftTrws, softness: float) -> Floats:
        weight = np.exp(soft.belief / -softness)
        sums = np.add.reduceat(weight, self.problem.model.start[:-1])
        result: Floats = weight / sums[self.problem.variable]
        return result

    def _adopt(self, soft: SoftTrws) -> bool:
        """Adopt multipliers and messages if they prove a better bound than the present ones; return True if so."""
        if self.closed:
            return True
        before, proved = self.messages.state, self._proved
        self._proved = [(row, min(int(row.multiplier), largest_multiplier(row))) for row in self._prices.rows.values()]
        cost = np.where(self._cost < FORBIDDEN, np.minimum(self._cost + self._priced(), 2 * FINE), FORBIDDEN)
        constant = -sum(multiplier * row.room for row, multiplier in self._proved)
        message = np.rint(np.clip(soft.reparametrised()[1], -4 * FINE, 4 * FINE)).astype(np.int64)
        self.messages.reparametrise(cost, constant, message)
        if self.messages.bound > NO_USE:
            self.messages.sweep(PROOF)
        if self.messages.bound > before[-1]:
            return True
        self.messages.state, self._proved = before, proved
        return False


def largest_multiplier(row: StepMultiplier) -> int:
    """Largest integer multiplier of a row whose products stay within `FINE`."""
    return FINE // max(1, row.room, int(row.usage.max(initial=0)))
