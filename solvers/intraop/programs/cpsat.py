"""Integer programs as CP-SAT protos, written part by part."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from itertools import chain, pairwise
from typing import Any

import numpy as np

from shardmark.instances.files.columns import Ints
from shardmark.solvers._cpsat import LOWEST, add_row
from shardmark.solvers.intraop.programs.integer_program import IntegerProgram
from shardmark.solvers.intraop.programs.memory_rows import MemoryRows

#: Upper bound on the sum of coefficients, which CP-SAT computes in 64 bits.
LARGEST_SUM = 2**60
#: Upper bound on objective values, which CP-SAT compares and reports as doubles after some operations.
LARGEST_VALUE = 2**50


def columns(model: Any, program: IntegerProgram) -> Iterator[None]:
    """Add the columns of a program to a proto, one per iteration."""
    variables = model.variables
    for upper in program.upper.tolist():
        variables.add().domain.extend((0, upper))
        yield


def equations(model: Any, program: IntegerProgram) -> Iterator[None]:
    """Add one-value-per-variable and margin constraints, one per iteration."""
    constraints = model.constraints
    for begin, end in pairwise(program.model.start.tolist()):
        constraints.add().exactly_one.literals.extend(range(begin, end))
        yield
    for row in _rows(*program.margins()):
        add_row(model, row, [-1] + [1] * (len(row) - 1), 0, 0)
        yield


def memory(model: Any, rows: MemoryRows) -> Iterator[None]:
    """Add memory rows, one per iteration."""
    for column, use, room in zip(
        _rows(rows.start, rows.column), _rows(rows.start, rows.use), rows.room.tolist(), strict=True
    ):
        add_row(model, column, use, LOWEST, room)
        yield


def write(*parts: Iterator[None]) -> None:
    """Exhaust the iterators above."""
    deque(chain(*parts), maxlen=0)


def costs(model: Any, cost: Ints, top: int) -> int:
    """Minimise the costs of the columns, shape (columns,), rounded down to multiples of a unit, which is returned.

    A bound times the unit is a bound on assignments below ``top``; costs above ``top`` are capped to it.
    """
    cost = np.minimum(cost, top)
    unit = int(np.gcd.reduce(cost, initial=0)) or 1
    while max(top / LARGEST_VALUE, float(cost.sum(dtype=np.float64)) / LARGEST_SUM) >= unit:
        unit *= 2
    some = np.flatnonzero(cost)
    model.objective.vars.extend(some)
    model.objective.coeffs.extend(cost[some] // unit)
    return unit


def _rows(start: Ints, flat: Ints) -> Iterator[list[int]]:
    """The rows ``flat[start[i]:start[i + 1]]`` as lists."""
    for begin, end in pairwise(start.tolist()):
        yield flat[begin:end].tolist()
