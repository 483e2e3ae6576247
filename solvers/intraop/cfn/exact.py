"""The integer program of a pruned problem, by CP-SAT; memory rows are added when solutions violate them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from shardmark.instances.files.columns import Ints
from shardmark.solvers._cpsat import answer, core, set_up
from shardmark.solvers.intraop.network.reduced_problem import Problem, worst_steps
from shardmark.solvers.intraop.programs.cpsat import columns, costs, equations, memory, write
from shardmark.solvers.intraop.programs.integer_program import IntegerProgram
from shardmark.solvers.intraop.programs.memory_rows import memory_of_steps

#: Memory rows added at once.
MORE_ROWS = 3


@dataclass(frozen=True)
class ExactResult:
    """Result of an exact search, in costs of the model.

    ``bound``  lower bound on the cost of any assignment that fits; None if there is none
    ``value``  shape (v,): the best assignment that fits, None if none was found
    ``done``   True if the search is complete: ``value`` is optimal if it costs ``bound``, or nothing fits
    """

    bound: int | None
    value: Ints | None
    done: bool


class MemoryRowSearch:
    """One-hot values, a flag per allowed cell of a table, and the memory of some steps.

    CP-SAT's rows and cuts are integers, but its objective values are doubles. Costs are therefore rounded down to
    multiples of a unit that keeps them exact; with unit 1, the optimum is that of the problem. CP-SAT's bounds and its
    claim that nothing costs less than ``top`` are trusted; the costs of solutions are computed again.
    """

    def __init__(self, problem: Problem, steps: Iterable[int]) -> None:
        self._cp, self.problem, self._steps = core(), problem, list(steps)
        self._model = self._cp.CpModelProto()
        program = IntegerProgram.of(problem, self._steps)
        write(columns(self._model, program), equations(self._model, program), memory(self._model, program.memory))
        self._cost, self._unit = program.cost, 1

    def solve(self, top: int, until: float, *, seed: int, found: Callable[[Ints], None]) -> ExactResult:
        """Search on one core until the time ``until``, or until nothing can cost less than ``top``.

        ``found`` receives every improving assignment, even if it does not fit.
        """
        self._model.clear_objective()
        self._unit, bound = costs(self._model, self._cost, top), 0
        while True:
            response = self._search(top, until - time.monotonic(), seed, found)
            if response.status == self._cp.INFEASIBLE:
                return ExactResult(None, None, True)
            bound = max(bound, self._unit * response.inner_objective_lower_bound)
            if response.status not in (self._cp.OPTIMAL, self._cp.FEASIBLE):
                return ExactResult(bound, None, False)
            value = self._values(np.array(response.solution))
            over = self.problem.overload(value)
            if (over <= 0).all():
                return ExactResult(bound, value, response.status == self._cp.OPTIMAL)
            steps = worst_steps(over, MORE_ROWS, self._steps)
            if not steps or time.monotonic() > until or bound >= top:
                return ExactResult(bound, None, False)
            self._steps += steps
            write(memory(self._model, memory_of_steps(self.problem, steps)))

    def _search(self, top: int, seconds: float, seed: int, found: Callable[[Ints], None]) -> Any:
        """CP-SAT's response on the present rows."""
        parameters = self._cp.SatParameters()
        set_up(parameters, 1, seed, seconds)
        return answer(
            self._model,
            parameters,
            lambda column: found(self._values(np.array(column))),
            lambda bound: self._unit * bound >= top,
        )

    def _values(self, column: Ints) -> Ints:
        """The value of every variable, shape (v,), in a solution of shape (columns,)."""
        return np.flatnonzero(column[: len(self.problem.variable)]) - self.problem.model.start[:-1]
