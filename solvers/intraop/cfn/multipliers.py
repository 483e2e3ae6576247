"""Memory multipliers per step, moved jointly by Newton's method until expected memory fits."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from shardmark.instances.files.columns import Floats, Ints
from shardmark.solvers.intraop.network.reduced_problem import Problem, worst_steps

#: Most steps with multipliers.
MOST_STEPS = 60
#: Most steps added at once.
MORE_STEPS = 3
#: Overload, as a fraction of the limit, that adds a step.
OVERLOAD = 0.001
#: A step is dropped after this many moves with multiplier 0.
IDLE = 20
#: Factor on the curvature, which is computed for independent variables: the network spreads a change.
DAMPING = 1.5
#: A move at most doubles a multiplier and adds a price that costs the average value this many softnesses.
REACH = 10.0
#: Most rounds of coordinate ascent per move.
ROUNDS = 100
#: Relative change at which the coordinate ascent ends.
DONE = 1e-4


@dataclass(eq=False)
class StepMultiplier:
    """Memory of one step in units above each variable's least: the values that use any, and the multiplier."""

    step: int
    at: Ints
    usage: Ints
    room: int
    multiplier: float = 0.0
    idle: int = 0


class Multipliers:
    """Memory multipliers of some time steps.

    ``rows``   by number of the step
    ``grain``  units of memory are 2**grain bytes, rounded down: what fits in bytes fits in units
    """

    def __init__(self, problem: Problem, grain: int, chains: Ints | Floats) -> None:
        self.problem, self.grain = problem, grain
        self.rows: dict[int, StepMultiplier] = {}
        self._chains = chains.astype(np.float64)
        self._table: _Table | None = None  # built on demand

    def emptied(self) -> Multipliers:
        """The same without any row."""
        return Multipliers(self.problem, self.grain, self._chains)

    def add(self, step: int, multiplier: float = 0.0) -> StepMultiplier:
        """Add a step with a multiplier, in cost per unit."""
        problem, model = self.problem, self.problem.model
        memory = problem.memory(step)
        least = np.minimum.reduceat(memory, model.start[:-1])
        above = (memory - least[problem.variable]) >> self.grain
        varies = np.maximum.reduceat(above, model.start[:-1]) > 0
        at = np.flatnonzero(varies[problem.variable])
        room = (int(problem.room[step]) - int(least.sum())) >> self.grain
        row = self.rows[step] = StepMultiplier(step, at, above[at], room, multiplier)
        self._table = None
        return row

    def look(self, weight: Floats) -> list[StepMultiplier]:
        """Add steps whose expected memory under weights of values, shape (rows,), is above the limit."""
        over = self.problem.expected(weight) - self.problem.room - OVERLOAD * self.problem.timeline.limit
        fresh = worst_steps(over, MORE_STEPS, self.rows)
        return [self.add(step) for step in fresh[: MOST_STEPS - len(self.rows)]]

    def move(self, weight: Floats, softness: float, cost: Floats) -> float:
        """Change all multipliers by Newton's method, and ``cost``, shape (rows,), with them.

        ``weight``, shape (rows,), holds the values' weights at the softness. Returns the largest violation as a
        fraction of the limit: expected memory above it, or below it at a positive price.
        """
        rows = list(self.rows.values())
        if not rows:
            return 0.0
        if self._table is None:
            self._table = _Table.of(rows, self.problem.variable)
        excess, curvature = self._table.derivatives(weight, softness * self._chains)
        multiplier = np.array([row.multiplier for row in rows])
        highest = multiplier + REACH * softness / self._table.typical
        change = _box_maximum(excess, DAMPING * curvature, -multiplier, highest)
        for row, by in zip(rows, change.tolist(), strict=True):
            cost[row.at] += by * row.usage
            row.multiplier = max(0.0, row.multiplier + by)
            row.idle = 0 if row.multiplier else row.idle + 1
        if any(row.idle > IDLE for row in rows):
            self.rows = {step: row for step, row in self.rows.items() if row.idle <= IDLE}
            self._table = None
        misses = np.where(multiplier > 0, np.abs(excess), np.maximum(excess, 0.0))
        return float(misses.max()) / max(1, self.problem.timeline.limit >> self.grain)


@dataclass(eq=False)
class _Table:
    """Dense memory rows, ``usage`` of shape (steps, columns), over the values that use memory in any step.

    ``typical``  shape (steps,): mean memory of the values that use any, at least 1
    """

    at: Ints
    variable: Ints
    start: Ints
    usage: Floats
    room: Floats
    typical: Floats

    @classmethod
    def of(cls, rows: list[StepMultiplier], variable: Ints) -> _Table:
        uses = np.zeros(len(variable), dtype=bool)
        for row in rows:
            uses[row.at] = True
        at, place = np.flatnonzero(uses), np.cumsum(uses) - 1
        usage = np.zeros((len(rows), len(at)))
        for line, row in zip(usage, rows, strict=True):
            line[place[row.at]] = row.usage
        start = np.flatnonzero(np.diff(variable[at], prepend=-1))
        room = np.array([row.room for row in rows], dtype=np.float64)
        typical = np.array([max(1.0, float(row.usage.mean())) if len(row.at) else 1.0 for row in rows])
        return cls(at, variable[at][start], start, usage, room, typical)

    def derivatives(self, weight: Floats, softness: Floats) -> tuple[Floats, Floats]:
        """Excess of expected memory, shape (steps,), and its negative Jacobian in the multipliers, (steps, steps).

        Variables are treated as independent, each at its softness, shape (v,).
        """
        if not len(self.start):
            return -self.room, np.zeros((len(self.room), len(self.room)))
        weighted = self.usage * weight[self.at]
        mean = np.add.reduceat(weighted, self.start, axis=1)
        of_variable = softness[self.variable]
        of_value = np.repeat(of_variable, np.diff(self.start, append=len(self.at)))
        squares = np.einsum("ik,jk->ij", weighted / of_value, self.usage)
        return mean.sum(axis=1) - self.room, squares - np.einsum("ik,jk->ij", mean / of_variable, mean)


def _box_maximum(gradient: Floats, curvature: Floats, low: Floats, high: Floats) -> Floats:
    """Maximise g x - x C x / 2 for ``low`` <= x <= ``high`` by coordinate ascent; shape (n,)."""
    x = np.zeros(len(gradient))
    bends, lows, highs = curvature.diagonal().tolist(), low.tolist(), high.tolist()
    coordinates = list(zip(gradient.tolist(), curvature, bends, lows, highs, strict=True))
    for _ in range(ROUNDS):
        before = x.copy()
        for i, (rise, row, bend, least, most) in enumerate(coordinates):
            slope = rise - float(row @ x)
            if abs(slope) < bend * (most - least):
                x[i] = min(max(float(x[i]) + slope / bend, least), most)
            elif slope:
                x[i] = most if slope > 0 else least
        if (np.abs(x - before) <= DONE * np.abs(x)).all():
            break
    return x
