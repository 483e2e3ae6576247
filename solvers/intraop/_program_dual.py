"""The bound that dual values of a program prove, in exact integers whatever their rounding."""

from __future__ import annotations

import numpy as np

from instances.columns import Floats, Ints
from solvers.intraop._program import Program
from solvers.intraop._program_float import FloatProgram
from solvers.intraop._program_memory import Rows

#: Costs below ``top`` come to this much, scaled: room for fractions of dual values.
FINE = 2**46
#: Nothing that is added up for one value or cell exceeds this.
LARGEST = 2**60
#: Dual values beyond, which an engine in trouble may give, are cut off.
MOST_DUAL = 1e30
#: Bits of a multiplier beyond those of costs: their rounding costs less than one unit for each variable.
MULTIPLIER_BITS = 64


def proved(floats: FloatProgram, dual: Floats) -> int:
    """What every assignment that fits costs at least, in costs of the model, by dual values of shape (rows,).

    Those of the margins become integer messages, which move costs from cells to values, and those of the rows of memory
    become integer multipliers. Any messages, and any multipliers from 0 on, give a bound: the least of every table,
    and the least of every variable, its memory included, less what the room is worth. The program must have a row of
    memory a step, without sums, and each of its tables an allowed cell.
    """
    program, model = floats.program, floats.program.model
    bits = max(0, FINE.bit_length() - 1 - floats.top.bit_length())
    scale = 2.0**bits / floats.scale
    dual = np.clip(np.nan_to_num(dual), -MOST_DUAL, MOST_DUAL)
    message, row = np.split(dual[model.variables :], [len(program.tables.margin_value)])
    multiplier = np.maximum(0.0, -row) * floats.row_scale * scale
    to_value, of_cell = _messages(program, message * scale)
    priced, worth = price(program.memory, multiplier, len(model.unary))
    value = (np.minimum(model.unary, floats.top) << bits) + to_value + priced
    value[model.unary >= model.forbidden] = 2 * LARGEST
    cell = (np.minimum(program.tables.cost, floats.top) << bits) - of_cell
    total = _sum_of_least(value, model.start) + _sum_of_least(cell, program.tables.start) - worth
    return min(floats.top, -(-total >> bits))


def _messages(program: Program, message: Floats) -> tuple[Ints, Ints]:
    """What the values get, and what the cells give: shapes (values,) and (cells,)."""
    tables = program.tables
    value, cell = np.zeros(len(program.model.unary), dtype=np.int64), np.zeros(len(tables.cost), dtype=np.int64)
    count = np.bincount(tables.margin_value, minlength=1)
    most = float(LARGEST // 2 ** (3 + int(count.max()).bit_length()))
    whole = np.rint(np.clip(message, -most, most)).astype(np.int64)
    np.add.at(value, tables.margin_value, whole)
    np.add.at(cell, tables.margin_cell, np.repeat(whole, np.diff(tables.margin_start)))
    return value, cell


def price(memory: Rows, multiplier: Floats, values: int) -> tuple[Ints, int]:
    """``(of_value, worth)``: in every assignment that fits the values chosen come to ``worth`` at most.

    ``multiplier``, shape (rows,), is what a unit of memory costs in each row; it is rounded, and the products are not.
    """
    some = np.flatnonzero(multiplier)
    factor = {int(row): int(float(min(multiplier[row], LARGEST)) * 2.0**MULTIPLIER_BITS) for row in some}
    exact = np.zeros(values, dtype=object)
    for row, much in factor.items():
        part = slice(memory.start[row], memory.start[row + 1])
        exact[memory.column[part]] += memory.use[part].astype(object) * much
    worth = sum(much * int(memory.room[row]) for row, much in factor.items())
    most = np.full(values, LARGEST // 4, dtype=object)  # to charge less never makes a bound false
    return np.minimum(exact >> MULTIPLIER_BITS, most).astype(np.int64), worth >> MULTIPLIER_BITS


def _sum_of_least(of_row: Ints, start: Ints) -> int:
    """The least of every row ``start[i]:start[i + 1]``, added up."""
    return sum(np.minimum.reduceat(of_row, start[:-1]).tolist()) if len(start) > 1 else 0
