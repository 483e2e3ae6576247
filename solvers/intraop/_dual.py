"""Lower bounds from multipliers of memory, a step each, and message passing in the network; exact integers."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np

from instances.columns import Ints
from solvers.intraop._problem import Problem, worst_steps
from solvers.native import NEVER, Messages

#: Costs below the one that ends the search come to this much, scaled: room for fractions of messages.
FINE = 2**56
#: Memory is measured in so many units a limit, rounded down: what fits in bytes fits in units.
UNITS = 2**24
#: Passes over the network between two changes of the multipliers, and changes between two looks for further steps.
SWEEPS, CHANGES = 5, 5
#: Steps with multipliers, at most; those added at once; fraction of the limit that counts as an overload.
MOST_STEPS, MORE_STEPS, OVERLOAD = 60, 3, 0.001
#: The bound has converged when it gains less than the fraction in so many changes.
GAIN, PATIENCE = 1e-5, 40
#: First changes that go all the way to the best multiplier; later ones go half of it.
FULL_STEPS = 20
#: First changes that are left out where multipliers are given: messages have to follow them first.
STILL = 20
#: What a newer assignment weighs in the average, whose memory says where steps need multipliers.
NEWER = 0.1
#: A multiplier is found to this fraction.
FRACTION = 4096


@dataclass(eq=False)
class _Row:
    """One step's memory: the values that use some, by variable, in units above the variable's least."""

    step: int
    at: Ints
    start: Ints
    usage: Ints
    room: int
    multiplier: int = 0


class Dual:
    """The Lagrangian bound of a problem, for assignments that cost less than ``top`` in costs of the model.

    Any multipliers and messages give a bound; `climb` makes them better. All numbers are integers: costs divided by
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
        self.messages = Messages(model.start, model.tail, model.head, cell, unary, end << self.bits)
        self.rows: list[_Row] = []
        self.average = np.zeros(len(model.unary))
        for step, multiplier in (multipliers or {}).items():
            self._add(step, int(multiplier * 2.0 ** (self.bits + self.grain - self.drop)))

    @property
    def multipliers(self) -> dict[int, float]:
        """Cost of a byte in every step that has such a price."""
        scale = 2.0 ** (self.bits + self.grain - self.drop)
        return {row.step: row.multiplier / scale for row in self.rows if row.multiplier}

    @property
    def bound(self) -> int:
        """What an assignment costs at least, in costs of the model; ``top`` if none costs less."""
        return min(self.top, -(-self.messages.bound >> self.bits) << self.drop)

    @property
    def closed(self) -> bool:
        """Whether no assignment costs less than ``top``."""
        return self.messages.bound >= self.messages.top

    def price(self) -> Ints:
        """What the memory of every value costs, shape (rows,), in costs of the model; rounded down."""
        total = np.zeros(len(self.messages.cost), dtype=np.int64)
        for row in self.rows:
            total[row.at] += row.usage * row.multiplier
        return total >> self.bits << self.drop

    def values(self) -> Ints:
        """The value of every variable that costs least at present, shape (v,)."""
        return self.problem.first_values(self.messages.cost)

    def climb(self, until: float) -> None:
        """Raise the bound to where it gains little more, or until a time."""
        history: list[int] = []
        still = STILL if self.rows else 0
        while not self.closed and time.monotonic() < until:
            self.messages.sweep(SWEEPS)
            history.append(self.messages.bound)
            if self.closed or (len(history) > PATIENCE and _stalls(history[-PATIENCE - 1], history[-1])):
                break
            chosen = self.problem.model.start[:-1] + self.values()
            self.average *= 1 - NEWER
            self.average[chosen] += NEWER if len(history) > 1 else 1.0
            if len(history) % CHANGES == 0:
                self._add_steps()
            for row in () if self.closed or len(history) < still else self.rows:
                change = self._best_change(row)
                self._move(row, change if len(history) < FULL_STEPS else int(change / 2))
        self.messages.sweep(1)

    def prune(self) -> Problem | None:
        """The problem without what no assignment below ``top`` contains; None if there is none."""
        return None if self.closed else self.problem.keep(*self.messages.prune())

    def _add_steps(self) -> None:
        """Give multipliers to steps that the average assignment overloads, if memory is counted exactly."""
        timeline = self.problem.timeline
        if not timeline.exact:
            return
        over = self.problem.expected(self.average) - self.problem.room - OVERLOAD * timeline.limit
        known = {row.step for row in self.rows}
        for step in worst_steps(over, MORE_STEPS):
            if step not in known and len(self.rows) < MOST_STEPS:
                self._add(step, 0)

    def _add(self, step: int, multiplier: int) -> None:
        memory, model = self.problem.memory(step), self.problem.model
        least = np.minimum.reduceat(memory, model.start[:-1])
        room = (int(self.problem.room[step]) - int(least.sum())) >> self.grain
        above = (memory - least[self.problem.variable]) >> self.grain
        varies = np.maximum.reduceat(above, model.start[:-1]) > 0
        at = np.flatnonzero(varies[self.problem.variable])
        start = np.concatenate([[0], np.cumsum(model.sizes[varies])])
        row = _Row(step, at, start, above[at], room)
        self.rows.append(row)
        if room < 0:
            self.messages.bound = self.messages.top  # nothing fits into this step
        elif multiplier * max(1, room, int(above.max(initial=0))) < FINE:
            self._move(row, multiplier)

    def _move(self, row: _Row, change: int) -> None:
        """Change a multiplier; what is a bound for assignments that fit stays one, also where a cost is cut off."""
        if not change:
            return
        cost = self.messages.cost[row.at]
        self.messages.cost[row.at] = np.where(cost < NEVER, np.minimum(cost + change * row.usage, 2 * FINE), NEVER)
        self.messages.bound -= change * row.room
        row.multiplier += change

    def _best_change(self, row: _Row) -> int:
        """The change of a multiplier that raises the bound most while messages stay."""
        cost = self.messages.cost[row.at]
        open_ = cost < NEVER
        count = np.add.reduceat(open_.astype(np.int64), row.start[:-1]) if len(row.at) else row.at
        line = _Line(cost[open_], row.usage[open_], np.repeat(np.arange(len(count)), count), row.room)
        least, most = line.slopes(0)
        if least <= 0 <= most:
            return 0
        if least > 0:
            step, low = max(1, row.multiplier // 8, 2**10), 0
            largest = max(0, FINE // max(1, row.room, int(row.usage.max())) - row.multiplier)
            while step < largest and line.slopes(step)[0] > 0:
                low, step = step, 4 * step
            return line.crossing(low, min(step, largest), FRACTION)
        return line.crossing(-row.multiplier, 0, FRACTION) if row.multiplier else 0


class _Line:
    """The bound as a function of the change of one multiplier: concave, linear in pieces."""

    def __init__(self, cost: Ints, usage: Ints, variable: Ints, room: int) -> None:
        self._cost, self._usage, self._variable, self._room = cost, usage, variable, room
        self._start = np.flatnonzero(np.diff(variable, prepend=-1))

    def slopes(self, change: int) -> tuple[int, int]:
        """The least and the greatest slope at a change."""
        if not len(self._start):
            return -self._room, -self._room
        total = self._cost + change * self._usage
        best = total == np.minimum.reduceat(total, self._start)[self._variable]
        least = np.minimum.reduceat(np.where(best, self._usage, NEVER), self._start)
        most = np.maximum.reduceat(np.where(best, self._usage, 0), self._start)
        return int(least.sum()) - self._room, int(most.sum()) - self._room

    def crossing(self, low: int, high: int, fraction: int) -> int:
        """About where the slope changes its sign between two changes, on the side of ``low`` or exact."""
        while high - low > 1 + abs(low + high) // fraction:
            middle = (low + high) // 2
            least, most = self.slopes(middle)
            if least <= 0 <= most:
                return middle
            low, high = (middle, high) if least > 0 else (low, middle)
        return low


def _stalls(before: int, now: int) -> bool:
    return now - before <= GAIN * abs(now)
