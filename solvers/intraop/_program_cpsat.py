"""Programs as CP-SAT reads them, written through the wrapper around its core.

The modelling layer over that is not used: it takes half a second to import, longer than small programs to solve.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from itertools import chain, pairwise
from typing import Any

import numpy as np

from instances.columns import Ints
from solvers.intraop._program import Program
from solvers.intraop._program_memory import Rows

#: CP-SAT adds up coefficients in 64 bits, but compares and reports values of the objective as doubles, after some
#: operations on them: all coefficients together, and the values that matter, stay below.
LARGEST_SUM, LARGEST_VALUE = 2**60, 2**50


def core() -> Any:
    """The wrapper's module, imported where it is needed."""
    from ortools.sat.python import cp_model_helper

    return cp_model_helper


def columns(model: Any, program: Program) -> Iterator[None]:
    """Add the columns of a program to a proto, one a turn."""
    variables = model.variables
    for upper in program.upper.tolist():
        variables.add().domain.extend((0, upper))
        yield


def equations(model: Any, program: Program) -> Iterator[None]:
    """Add one value of every variable, and cells of every margin that add up to its value; one a turn."""
    constraints = model.constraints
    for begin, end in pairwise(program.model.start.tolist()):
        constraints.add().exactly_one.literals.extend(range(begin, end))
        yield
    for row in _rows(*program.margins()):
        linear = constraints.add().linear
        linear.vars.extend(row)
        linear.coeffs.extend([-1] + [1] * (len(row) - 1))
        linear.domain.extend((0, 0))
        yield


def memory(model: Any, rows: Rows) -> Iterator[None]:
    """Add rows of memory, one a turn."""
    constraints = model.constraints
    for column, use, room in zip(
        _rows(rows.start, rows.column), _rows(rows.start, rows.use), rows.room.tolist(), strict=True
    ):
        linear = constraints.add().linear
        linear.vars.extend(column)
        linear.coeffs.extend(use)
        linear.domain.extend((-(2**63), room))
        yield


def write(*parts: Iterator[None]) -> None:
    """Take all turns of the above."""
    deque(chain(*parts), maxlen=0)


def costs(model: Any, cost: Ints, top: int) -> int:
    """Minimise the costs of the columns, shape (columns,), in a unit that is returned, rounded down.

    So a bound times the unit is one on what costs less than ``top``; costs above ``top`` are as bad as that.
    """
    cost = np.minimum(cost, top)
    unit = int(np.gcd.reduce(cost, initial=0)) or 1
    while max(top / LARGEST_VALUE, float(cost.sum(dtype=np.float64)) / LARGEST_SUM) >= unit:
        unit *= 2
    some = np.flatnonzero(cost)
    model.objective.vars.extend(some)
    model.objective.coeffs.extend(cost[some] // unit)
    return unit


def listener(cp_sat: Any, found: Callable[[Ints], None]) -> Any:
    """CP-SAT's callback, which hands on every better solution, shape (columns,).

    Its class cannot be named before the package is imported.
    """

    class Listener(cp_sat.SolutionCallback):
        def OnSolutionCallback(self) -> None:  # noqa: N802
            found(np.array(self.Response().solution))

    return Listener()


def _rows(start: Ints, flat: Ints) -> Iterator[list[int]]:
    """The rows ``flat[start[i]:start[i + 1]]`` as lists."""
    for begin, end in pairwise(start.tolist()):
        yield flat[begin:end].tolist()
