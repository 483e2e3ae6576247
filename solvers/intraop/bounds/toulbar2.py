"""Lagrangian lower bounds whose inner problem toulbar2 minimises."""

from __future__ import annotations

import time

import numpy as np

from shardmark.instances.files.columns import Ints
from shardmark.instances.intraop import Instance
from shardmark.solvers.intraop.cfn.lagrangian import Dual
from shardmark.solvers.intraop.network.reduced_problem import worst_steps
from shardmark.solvers.intraop.programs.baseline import Task, prove
from shardmark.solvers.intraop.programs.cpsat_search import confirmed
from shardmark.solvers.intraop.programs.dual_bound import price
from shardmark.solvers.intraop.programs.memory_rows import memory_of_steps
from shardmark.solvers.intraop.programs.toulbar2 import bounded
from shardmark.solvers.intraop.programs.toulbar2_network import BUDGET, Network, Status
from shardmark.solvers.registry import Run, bound

#: Fraction of the time for the first multipliers.
FIRST = 0.2
#: Overloaded steps that get a multiplier at once.
MORE_ROWS = 3
#: Factor on the subgradient step if the bound did not rise.
SHORTER = 0.9
#: Step factor at which the search ends.
LEAST_STEP = 0.001


@bound(
    track="intraop",
    source="Soft Constraints, Strong Solutions, Equation (5); Polyak 1969 for the multipliers",
    deterministic=False,
)
def toulbar2(instance: Instance, run: Run) -> None:
    """Minimise the reduced network under memory prices, adjusted by subgradient steps (toulbar2).

    The first prices are those of `lagrange`, whose bounds come from messages alone. Prices are rounded to integers, and
    their value is computed exactly; toulbar2 minimises in integers, but its search is not checked. Its claim that
    nothing fits counts only if CP-SAT agrees and no solution is known.
    """
    prove(instance, run, confirmed(_engine))


def _engine(task: Task) -> bool:
    dual = Dual(task.problem, task.top)
    dual.climb(time.monotonic() + FIRST * task.remaining())
    if dual.closed:  # the first solution is optimal, or nothing is allowed
        task.prove(dual.bound)
        return False
    lagrangian = _Lagrangian(task, dual.multipliers)
    while task.remaining() and lagrangian.open:
        lagrangian.improve()
    return lagrangian.possible


class _Lagrangian:
    """The network under memory prices: ``multipliers``, the price of a byte in every step that has one."""

    def __init__(self, task: Task, multipliers: dict[int, float]) -> None:
        self.task, self.multipliers = task, multipliers
        self.network = Network(task.problem.model)
        self.open = self.possible = True
        self.best, self._step = 0, 1.0

    def improve(self) -> None:
        """Minimise under the multipliers, report the bound, and adapt the multipliers to the memory used."""
        penalty, worth = self._penalty()
        for found in bounded(self.network, penalty, self.task.remaining):
            if found.status == Status.IMPOSSIBLE:
                self.open = self.possible = False
                return
            proven = -(-(found.bound - worth) // self.network.scale)
            self.task.prove(proven)
            if found.status == Status.OPTIMAL and found.value is not None:
                self._move(found.value, proven)
                return
        self.open = False

    def _penalty(self) -> tuple[Ints, int]:
        """Price of each value's memory, shape (rows,), and of the available memory, in network costs."""
        rows = memory_of_steps(self.task.problem, self.multipliers)
        unit = np.array(list(self.multipliers.values())) * rows.unit * float(self.network.scale)
        start = self.task.problem.model.start[:-1]
        while True:
            penalty, worth = price(rows, unit, len(self.task.problem.variable))
            if sum(np.maximum.reduceat(penalty, start).tolist()) < BUDGET:
                return penalty, worth
            unit = unit / 2  # any multipliers give a bound

    def _move(self, value: Ints, proven: int) -> None:
        """Take a Polyak step along the subgradient, with the first solution's cost as target.

        If the minimum fits and uses up all priced memory, its cost is the bound, and the search ends.
        """
        over = self.task.problem.overload(value)
        if proven <= self.best:
            self._step *= SHORTER
        self.best = max(self.best, proven)
        for step in worst_steps(over, MORE_ROWS):
            self.multipliers.setdefault(step, 0.0)
        gradient = {step: float(over[step]) for step in self.multipliers}
        length = sum(excess * excess for step, excess in gradient.items() if excess > 0 or self.multipliers[step] > 0)
        if not length or self._step < LEAST_STEP or self.best >= self.task.top:
            self.open = False
            return
        stride = self._step * (self.task.top - proven) / length
        self.multipliers = {
            step: max(0.0, multiplier + stride * gradient[step]) for step, multiplier in self.multipliers.items()
        }
