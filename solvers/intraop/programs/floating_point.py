"""Programs scaled for floating-point engines, and their bounds converted to safe integers."""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np

from shardmark.instances.files.columns import Floats, Ints
from shardmark.solvers.intraop.network.ragged import offsets
from shardmark.solvers.intraop.programs.integer_program import IntegerProgram

#: Scaled value of the best known cost: far above absolute tolerances of 1e-9 to 1e-6, small enough for doubles.
COST_SCALE = 2.0**20
#: Scaled value of the largest coefficient of a memory row.
ROW_SCALE = 2.0**10
#: Error that SCIP accepts in reduced costs of columns in [0, 1].
DUAL_TOLERANCE = 1e-7
#: Further relative loss of every bound: cuts, propagation and pruning have relative tolerances up to 1e-6.
RELATIVE_TOLERANCE = 1e-6


def integer_below(value: float) -> int:
    """The largest integer that is certainly at most the number that was rounded to ``value``."""
    return int(value if value < 2**53 else math.nextafter(value, 0.0))


class FloatProgram:
    """A program for assignments that cost less than ``top``, all of whose columns range from 0 to 1.

    Memory sums are scaled by their maxima, memory rows and costs by powers of two; costs are capped at ``top``. Rows
    come in the order: the model's variables, margins, memory.
    """

    def __init__(self, program: IntegerProgram, top: int) -> None:
        self.program, self.top = program, top
        self.scale = min(1.0, COST_SCALE / 2.0 ** top.bit_length())
        self.cost: Floats = np.minimum(program.cost, top) * self.scale
        self.integer = np.arange(len(self.cost)) < len(program.model.unary)

    @cached_property
    def upper(self) -> Floats:
        """Upper bound of every column, shape (columns,)."""
        return np.minimum(self.program.upper, 1).astype(np.float64)

    @cached_property
    def rows(self) -> tuple[Ints, Ints, Floats, Floats, Floats]:
        """Return ``(start, column, value, low, high)``: entries per row, columns ascending, and bounds of its sum."""
        model, memory = self.program.model, self.program.memory
        margin_start, margin_column = self.program.margins()
        margin = np.ones(len(margin_column))
        margin[margin_start[:-1]] = -1.0
        use, factor = self._memory
        start = np.concatenate([np.diff(part) for part in (model.start, margin_start, memory.start)])
        column = np.concatenate([np.arange(len(model.unary)), margin_column, memory.column])
        equal = np.concatenate([np.ones(model.variables), np.zeros(len(margin_start) - 1)])
        low = np.concatenate([equal, np.full(len(factor), -np.inf)])
        high = np.concatenate([equal, memory.room * factor])
        return offsets(start), column, np.concatenate([np.ones(len(model.unary)), margin, use]), low, high

    @property
    def row_scale(self) -> Floats:
        """Scale factor of every memory row, shape (memory rows,)."""
        return self._memory[1]

    @cached_property
    def _memory(self) -> tuple[Floats, Floats]:
        """Entries of the memory rows, and the scale factor of each."""
        memory, first = self.program.memory, self.program.first_sum
        use = memory.use.astype(np.float64)
        summed = memory.column >= first
        use[summed] *= memory.most[memory.column[summed] - first]
        count = np.diff(memory.start)
        factor = np.ones(len(count))
        some = np.flatnonzero(count)
        largest = np.maximum.reduceat(np.abs(use), memory.start[some]) if len(some) else use
        factor[some] = np.minimum(1.0, ROW_SCALE / 2.0 ** np.frexp(largest)[1])
        return use * np.repeat(factor, count), factor

    def columns(self, value: Ints) -> Floats:
        """Values of the columns, shape (columns,), under an assignment of shape (v,)."""
        column = self.program.columns(value).astype(np.float64)
        column[self.program.first_sum :] /= self.program.memory.most
        return column

    def bound(self, dual: float) -> int:
        """Convert an engine's bound to costs of the model, lowered by its possible rounding error."""
        if not dual > 0:
            return 0
        owed = DUAL_TOLERANCE * (len(self.cost) + 1)
        return max(0, math.ceil(min(self.top, (dual - owed) * (1 - RELATIVE_TOLERANCE) / self.scale)))
