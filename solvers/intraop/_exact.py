"""The integer program of what is left of a problem, by CP-SAT: memory rows are added where solutions violate them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import pairwise
from math import gcd
from typing import Any

import numpy as np
from numpy.typing import NDArray

from instances.columns import Ints
from solvers.intraop._problem import Problem, worst_steps

#: Memory rows added at once.
MORE_ROWS = 3


@dataclass(frozen=True)
class Answer:
    """What a search found out, in costs of the model.

    ``bound``  no assignment that fits costs less; None if there is none at all
    ``value``  shape (v,): the best that fits, None if none was found
    ``done``   whether ``value`` is optimal, or nothing fits
    """

    bound: int | None
    value: Ints | None
    done: bool


class Program:
    """One-hot values, a flag for each allowed cell of a table, and the memory of some steps.

    CP-SAT computes with integers, its relaxations included, so its bound is proved. The coefficients are the costs
    of the model and the bytes of the rows, divided by what they have in common.
    """

    def __init__(self, problem: Problem, steps: Iterable[int]) -> None:
        from ortools.sat.python import cp_model

        self._cp, self.problem, self.program = cp_model, problem, cp_model.CpModel()
        model = problem.model
        self._flag = [self.program.new_bool_var("") for _ in range(len(model.unary))]
        for first, last in pairwise(model.start.tolist()):
            self.program.add_exactly_one(self._flag[first:last])
        self._terms, self._costs = self._flag.copy(), model.unary.tolist()
        for pair, (tail, head) in enumerate(zip(model.tail.tolist(), model.head.tolist(), strict=True)):
            cells = model.cell[model.cell_start[pair] : model.cell_start[pair + 1]]
            self._table((tail, head), cells.reshape(model.sizes[tail], model.sizes[head]))
        for scope, cost in model.wide:
            self._table(scope, cost)
        self.program.minimize(cp_model.LinearExpr.weighted_sum(self._terms, self._costs))
        self._steps: set[int] = set()
        for step in steps:
            self._add_row(step)

    def _table(self, scope: tuple[int, ...], cost: NDArray[np.int64]) -> None:
        """A flag for each allowed cell; those of one value add up to the flag of the value."""
        place = np.argwhere(cost < self.problem.model.forbidden)
        flags = [self.program.new_bool_var("") for _ in range(len(place))]
        self._terms += flags
        self._costs += cost[tuple(place.T)].tolist()
        for axis, variable in enumerate(scope):
            rows: list[list[Any]] = [[] for _ in range(cost.shape[axis])]
            for flag, value in zip(flags, place[:, axis].tolist(), strict=True):
                rows[value].append(flag)
            first = int(self.problem.model.start[variable])
            for value, row in enumerate(rows):
                self.program.add(sum(row) == self._flag[first + value])

    def _add_row(self, step: int) -> None:
        self._steps.add(step)
        memory, room = self.problem.memory(step), int(self.problem.room[step])
        row = np.flatnonzero(memory)
        common = gcd(*memory[row].tolist()) or 1
        expression = self._cp.LinearExpr.weighted_sum([self._flag[i] for i in row], (memory[row] // common).tolist())
        self.program.add(expression <= room // common)

    def solve(self, top: int, until: float, *, cores: int, seed: int, found: Callable[[Ints], None]) -> Answer:
        """Search until a time, or until nothing can cost less than ``top``.

        ``found`` gets every better assignment, whether it fits or not.
        """
        bound = 0
        while True:
            solver = self._cp.CpSolver()
            solver.parameters.num_workers = cores
            solver.parameters.random_seed = seed % 2**31
            solver.parameters.max_time_in_seconds = max(0.0, until - time.monotonic())
            solver.best_bound_callback = _stopper(solver, top)
            listener = _listener(self._cp, self._flag, self.problem, found)
            status = solver.solve(self.program, listener)
            if status == self._cp.INFEASIBLE:
                return Answer(None, None, True)
            bound = max(bound, int(solver.response_proto.inner_objective_lower_bound))
            if status not in (self._cp.OPTIMAL, self._cp.FEASIBLE):
                return Answer(bound, None, False)
            value = _values(self.problem, [solver.boolean_value(flag) for flag in self._flag])
            over = self.problem.overload(value)
            if (over <= 0).all():
                return Answer(bound, value, status == self._cp.OPTIMAL)
            steps = [step for step in worst_steps(over, MORE_ROWS) if step not in self._steps]
            if time.monotonic() > until or bound >= top:
                return Answer(bound, None, False)
            for step in steps:
                self._add_row(step)


def _stopper(solver: Any, top: int) -> Callable[[float], None]:
    def stop(bound: float) -> None:
        if bound >= top:
            solver.stop_search()

    return stop


def _values(problem: Problem, flags: list[bool]) -> Ints:
    return np.flatnonzero(flags) - problem.model.start[:-1]


def _listener(cp_model: Any, flags: list[Any], problem: Problem, found: Callable[[Ints], None]) -> Any:
    """CP-SAT's callback; its class cannot be named before the package is imported."""

    class Listener(cp_model.CpSolverSolutionCallback):
        def on_solution_callback(self) -> None:
            found(_values(problem, [self.boolean_value(flag) for flag in flags]))

    return Listener()
