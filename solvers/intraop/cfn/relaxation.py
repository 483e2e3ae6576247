"""The integer program over the reduced costs of a Lagrangian bound, by HiGHS, whose linear relaxation is tight.

Messages and multipliers are exact integers. An assignment costs the bound, plus the reduced costs of its values and
cells, plus the price of unused memory. HiGHS minimises only the latter two in floating point; they are small compared
with the bound, and so is the loss by rounding.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from instances.files.columns import Ints
from solvers.intraop.cfn.exact import ExactResult
from solvers.intraop.cfn.lagrangian import Dual
from solvers.intraop.cfn.multipliers import StepMultiplier
from solvers.intraop.network.model import Mask, Model, Wide
from solvers.intraop.network.ragged import offsets, within
from solvers.intraop.network.reduced_problem import Problem, worst_steps
from solvers.intraop.programs.floating_point import FloatProgram
from solvers.intraop.programs.integer_program import IntegerProgram, Tables
from solvers.intraop.programs.mathopt import minimise
from solvers.intraop.programs.memory_rows import MemoryRows, memory_of_steps

#: Largest fraction of the time for the bound.
BOUND = 0.2
#: Last softness of the bound: brings it close to the linear relaxation.
HARD = 1e-5
#: Relative margin of HiGHS's cutoff above ``top``.
BEYOND = 1e-6
#: Memory rows added at once.
MORE_ROWS = 10


def solve(
    problem: Problem, top: int, multipliers: dict[int, float], until: float, *, seed: int, found: Callable[[Ints], None]
) -> ExactResult:
    """Search for the best assignment below ``top`` until a time, on one core; ``found`` receives solutions.

    HiGHS reports only when it ends. Memory rows are added when solutions violate them.
    """
    dual = Dual(problem, top, multipliers)
    now = time.monotonic()
    dual.climb(now + BOUND * (until - now), hard=HARD)
    steps, bound = [row.step for row, _ in dual.priced], dual.bound
    steps += worst_steps(problem.overload(dual.values()), MORE_ROWS, steps)
    while not dual.closed:
        values, cells = dual.messages.prune()
        if not np.logical_or.reduceat(values, problem.model.start[:-1]).all():
            break
        left = _ReducedCostProgram(dual, _reduced_cost_model(dual, values, cells), steps)
        answer = minimise(left, until, integer=True, **_parameters(left, seed))
        if answer is None or answer.infeasible:
            return ExactResult(bound, None, False) if answer is None else ExactResult(None, None, True)
        bound = max(bound, left.proved(answer.bound))
        if not len(answer.column):
            return ExactResult(bound, None, False)
        value = left.program.values(answer.column)
        found(value)
        over = problem.overload(value)
        if (over <= 0).all():
            return ExactResult(bound, value, answer.optimal)
        more = worst_steps(over, MORE_ROWS, steps)
        if not more or time.monotonic() > until:
            return ExactResult(bound, None, False)
        steps += more
    return ExactResult(None, None, True)


def _parameters(left: _ReducedCostProgram, seed: int) -> dict[str, Any]:
    """One thread, no gap tolerance, and a cutoff at ``top``."""
    cutoff = left.top * left.scale * (1 + BEYOND) + BEYOND
    doubles = {"mip_rel_gap": 0.0, "mip_abs_gap": BEYOND, "objective_bound": cutoff}
    return {"random_seed": seed % 2**31, "highs": {"string_options": {"parallel": "off"}, "double_options": doubles}}


def _reduced_cost_model(dual: Dual, values: Mask, cells: Mask) -> Model:
    """The model with reduced costs, of the values and cells that assignments below ``top`` may contain."""
    model, (cost, sent, bound) = dual.problem.model, dual.messages.state
    top = dual.messages.top - bound
    rows, columns = model.sizes[model.tail], model.sizes[model.head]
    pair = np.repeat(np.arange(len(rows)), rows * columns)
    row, column = np.divmod(within(rows * columns), columns[pair])
    first = offsets(rows + columns)[pair]
    given = np.where(cells, sent[first + row] + sent[first + rows[pair] + column], 0)
    return dataclasses.replace(
        model,
        unary=np.where(values, cost, top),
        cell=np.where(cells, _scaled(dual, model.cell) - given, top),
        wide=tuple(Wide(scope, np.minimum(_scaled(dual, table), top)) for scope, table in model.wide),
        forbidden=top,
    )


def _scaled(dual: Dual, costs: Ints) -> Ints:
    """Costs of the model on the scale of the messages, capped at their ``top``."""
    result: Ints = np.minimum(costs >> dual.drop, dual.messages.top >> dual.bits) << dual.bits
    return result


class _ReducedCostProgram(FloatProgram):
    """The program on reduced costs, with a column per priced step for its unused memory.

    ``top``  cutoff on the reduced costs
    """

    def __init__(self, dual: Dual, rest: Model, steps: list[int]) -> None:
        self.dual = dual
        tables = Tables.of(rest)
        first = len(rest.unary) + len(tables.cost)
        priced = [(row, multiplier) for row, multiplier in dual.priced if multiplier]
        price = np.minimum(np.array([multiplier for _, multiplier in priced], dtype=np.int64), rest.forbidden)
        room = np.array([row.room for row, _ in priced], dtype=np.int64)
        most = np.maximum(1, np.minimum(room, rest.forbidden // np.maximum(price, 1) + 1))
        memory = _with_unused(memory_of_steps(dual.problem, steps), [row for row, _ in priced], most, first)
        super().__init__(IntegerProgram(rest, tables, memory), rest.forbidden)
        self.cost[first:] = price * most.astype(np.float64) * self.scale

    def proved(self, bound: float) -> int:
        """Convert HiGHS's bound to a lower bound in costs of the problem."""
        total = self.dual.messages.bound + self.bound(bound)
        return min(self.dual.top, -(-total >> self.dual.bits) << self.dual.drop)


def _with_unused(rows: MemoryRows, priced: list[StepMultiplier], most: Ints, first: int) -> MemoryRows:
    """Add an equation per priced row: memory used plus the column for unused memory fills the room."""
    count = np.array([len(row.at) + 1 for row in priced], dtype=np.int64)
    number = np.repeat(np.arange(len(priced)), count)
    entries = [np.repeat(np.arange(len(rows.room)), np.diff(rows.start)), len(rows.room) + number]
    columns = [rows.column, *(np.append(row.at, first + k) for k, row in enumerate(priced))]
    uses = [rows.use, *(-np.append(row.usage, 1) for row in priced)]
    room = np.concatenate([rows.room, -np.array([row.room for row in priced], dtype=np.int64)])
    return MemoryRows.of(np.concatenate(entries), np.concatenate(columns), np.concatenate(uses), room, most, rows.unit)
