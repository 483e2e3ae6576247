"""The integer program of a model as flat arrays: one-hot values, and a column per cell of a table.

The formulation of XLA's auto-sharding: one strategy per node, one cell per edge with the strategies of its ends as
margins, and a memory row per time step with a maximal set of live nodes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from shardmark.instances.files.columns import Ints
from shardmark.solvers.intraop.network.model import Model
from shardmark.solvers.intraop.network.ragged import argmin, offsets, spread, within
from shardmark.solvers.intraop.network.reduced_problem import Problem
from shardmark.solvers.intraop.programs.memory_rows import MemoryRows, memory_of_all_steps, memory_of_steps

#: Seconds that an engine may overrun its time limit, per entry of its program.
NOTICE = 2e-6
#: Largest fraction of the time reserved for the overrun.
LARGEST_NOTICE = 0.25


@dataclass(frozen=True, eq=False)
class Tables:
    """The allowed cells of all tables, table by table, and their margins; all arrays int64.

    ``start``         shape (tables + 1,): the cells of table e are ``start[e]:start[e + 1]``
    ``cost``          shape (cells,)
    ``margin_value``  shape (margins,): the model's row of the value to which the margin's cells sum
    ``margin_start, margin_cell``  those cells
    """

    start: Ints
    cost: Ints
    margin_value: Ints
    margin_start: Ints
    margin_cell: Ints

    @classmethod
    def of(cls, model: Model) -> Tables:
        """The tables of a model, except all-zero ones."""
        count, cost, value, cell, margin = zip(_pairs(model), *_wide(model), strict=True)
        first_cell = offsets(np.array([len(part) for part in cost]))
        first_margin = offsets(np.array([len(part) for part in value]))
        margins = np.concatenate([part + first for part, first in zip(margin, first_margin, strict=False)])
        cells = np.concatenate([part + first for part, first in zip(cell, first_cell, strict=False)])
        order = np.argsort(margins, kind="stable")
        return cls(
            start=offsets(np.concatenate(count)),
            cost=np.concatenate(cost),
            margin_value=np.concatenate(value),
            margin_start=offsets(np.bincount(margins, minlength=int(first_margin[-1]))),
            margin_cell=cells[order],
        )


_Part = tuple[Ints, Ints, Ints, Ints, Ints]  # cells of every table, their costs, values of margins; cells and margins


def _pairs(model: Model) -> _Part:
    """Allowed cells and margins of all pairs; margins are per value of the tail, then of the head."""
    pair = costly_pairs(model)
    tail, head = model.tail[pair], model.head[pair]
    rows, columns = model.sizes[tail], model.sizes[head]
    place = spread(model.cell_start[pair], rows * columns)
    allowed = np.flatnonzero(model.cell[place] < model.forbidden)
    of_pair = np.repeat(np.arange(len(pair)), rows * columns)[allowed]
    row, column = np.divmod(within(rows * columns)[allowed], columns[of_pair])
    first = offsets(rows + columns)
    ends = np.stack([tail, head], axis=1).ravel()
    value = spread(model.start[ends], model.sizes[ends])
    margin = np.concatenate([first[of_pair] + row, first[of_pair] + rows[of_pair] + column])
    count = np.bincount(of_pair, minlength=len(pair))
    return count, model.cell[place[allowed]], value, np.tile(np.arange(len(allowed)), 2), margin


def costly_pairs(model: Model) -> Ints:
    """The pairs with a non-zero cell, which have a table in the program."""
    largest = np.maximum.reduceat(model.cell, model.cell_start[:-1]) if len(model.tail) else model.tail
    return np.flatnonzero(largest > 0)


def _wide(model: Model) -> Iterator[_Part]:
    """Allowed cells and margins of every table of three variables or more."""
    for scope, cost in model.wide:
        place = np.argwhere(cost < model.forbidden)
        first = offsets(np.array(cost.shape))
        variables = np.array(scope)
        value = spread(model.start[variables], model.sizes[variables])
        cell = np.tile(np.arange(len(place)), len(scope))
        margin = (place + first[:-1]).T.ravel()
        yield np.array([len(place)]), cost[tuple(place.T)], value, cell, margin


@dataclass(frozen=True, eq=False)
class IntegerProgram:
    """Minimise the cost of non-negative integer columns: the model's values, then cells, then memory sums.

    ``tables``  the cells that have columns: the allowed ones
    ``memory``  memory rows over values and, from column ``first_sum`` on, sums of memory
    """

    model: Model
    tables: Tables
    memory: MemoryRows

    @classmethod
    def of(cls, problem: Problem, steps: Iterable[int] | None = None) -> IntegerProgram:
        """Build the program of a problem with the memory of some steps, by default of all that may bind."""
        tables = Tables.of(problem.model)
        if steps is None:
            return cls(problem.model, tables, memory_of_all_steps(problem, len(problem.variable) + len(tables.cost)))
        return cls(problem.model, tables, memory_of_steps(problem, steps))

    @property
    def first_sum(self) -> int:
        """Number of columns for values and cells; all of these are 0 or 1."""
        return len(self.model.unary) + len(self.tables.cost)

    @property
    def cost(self) -> Ints:
        """Cost of every column, shape (columns,)."""
        nothing = np.zeros(len(self.memory.most), dtype=np.int64)
        return np.concatenate([self.model.unary, self.tables.cost, nothing])

    @property
    def upper(self) -> Ints:
        """Upper bound of every column, shape (columns,); 0 if it is forbidden."""
        value = (self.model.unary < self.model.forbidden).astype(np.int64)
        return np.concatenate([value, np.ones(len(self.tables.cost), dtype=np.int64), self.memory.most])

    @property
    def entries(self) -> int:
        """Size of the program: number of non-zero coefficients plus number of columns."""
        tables = self.tables
        rows = len(self.model.unary) + len(tables.margin_cell) + len(tables.margin_value) + len(self.memory.column)
        return rows + self.first_sum + len(self.memory.most)

    def notice(self, seconds: float) -> float:
        """Seconds before the end at which an engine must be told to stop."""
        return min(LARGEST_NOTICE * seconds, NOTICE * self.entries)

    def margins(self) -> tuple[Ints, Ints]:
        """Return ``(start, column)``: for every margin the column of its value, then those of its cells."""
        tables = self.tables
        count = np.diff(tables.margin_start)
        start = offsets(count + 1)
        column = np.empty(int(start[-1]), dtype=np.int64)
        column[start[:-1]] = tables.margin_value
        column[spread(start[:-1] + 1, count)] = tables.margin_cell + len(self.model.unary)
        return start, column

    def columns(self, value: Ints) -> Ints:
        """Values of the columns, shape (columns,), under an assignment of shape (v,) without forbidden cells."""
        tables, memory, sums = self.tables, self.memory, len(self.memory.most)
        column = np.concatenate([np.zeros(len(self.model.unary), dtype=np.int64), np.ones_like(tables.cost)])
        column[self.model.start[:-1] + value] = 1
        missed = np.repeat(column[tables.margin_value] == 0, np.diff(tables.margin_start))
        column[tables.margin_cell[missed] + len(self.model.unary)] = 0
        column = np.concatenate([column, np.zeros_like(memory.most)])
        if sums:
            used = memory.use * column[memory.column]
            column[self.first_sum :] = np.add.reduceat(used, memory.start[:-1])[:sums]
        return column

    def values(self, column: NDArray) -> Ints:
        """Assignment, shape (v,): for each variable, the value of largest column; columns have shape (columns,)."""
        return argmin(-column[: len(self.model.unary)], self.model.start)
