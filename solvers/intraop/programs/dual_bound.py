"""The bound that dual values of a program prove, in exact integers whatever their rounding."""

from __future__ import annotations

import time

import numpy as np

from instances.files.columns import Floats, Ints
from solvers.intraop._kernels import FORBIDDEN, Trws
from solvers.intraop.network.ragged import spread
from solvers.intraop.programs.floating_point import FloatProgram
from solvers.intraop.programs.integer_program import IntegerProgram, costly_pairs
from solvers.intraop.programs.memory_rows import MemoryRows

#: Costs below ``top`` come to this much, scaled: room for fractions of dual values.
FINE = 2**46
#: Nothing that is added up for one value or cell exceeds this.
LARGEST = 2**60
#: Messages are passed on where ``top`` is at most this.
LARGEST_TOP = 2**56
#: Dual values beyond, which an engine in trouble may give, are cut off.
MOST_DUAL = 1e30
#: Passes between two looks at what they gain, and the fraction of the bound that is enough to go on.
SWEEPS, GAIN = 10, 1e-6
#: Bits of a multiplier beyond those of costs: their rounding costs less than one unit for each variable.
MULTIPLIER_BITS = 64


def proved(floats: FloatProgram, dual: Floats) -> int:
    """Lower bound on the cost of any assignment that fits, in costs of the model, from dual values of shape (rows,).

    Those of the margins become integer messages, which move costs from cells to values, and those of the rows of memory
    become integer multipliers. Any messages, and any multipliers from 0 on, give a bound: the least of every table,
    and the least of every variable, its memory included, less what the room is worth. The program must have a row of
    memory a step, without sums, and each of its tables an allowed cell.
    """
    program, model = floats.program, floats.program.model
    bits, message, (priced, worth) = _whole(floats, dual)
    to_value, of_cell = _messages(program, message)
    value = (np.minimum(model.unary, floats.top) << bits) + to_value + priced
    value[model.unary >= model.forbidden] = 2 * LARGEST
    cell = (np.minimum(program.tables.cost, floats.top) << bits) - of_cell
    total = _sum_of_least(value, model.start) + _sum_of_least(cell, program.tables.start) - worth
    return min(floats.top, -(-total >> bits))


def polished(floats: FloatProgram, dual: Floats, until: float) -> int:
    """The same after messages have been passed on from those, under the same multipliers, while that gains something.

    Of use where an engine did not get far with the messages. The model must have tables of two variables only. It is 0
    where numbers are too large.
    """
    model = floats.program.model
    bits, message, (priced, worth) = _whole(floats, dual)
    if abs(worth) > LARGEST or floats.top > LARGEST_TOP:
        return 0
    unary, cell = (np.minimum(costs, floats.top) << bits for costs in (model.unary, model.cell))
    network = Trws(model.start, model.tail, model.head, cell, unary, floats.top << bits)
    first = np.zeros(int(network.message[-1]), dtype=np.int64)
    pair = costly_pairs(model)
    first[spread(network.message[pair], np.diff(network.message)[pair])] = message
    network.reparametrise(np.where(network.cost < FORBIDDEN, network.cost + priced, FORBIDDEN), -worth, first)
    if network.bound < -LARGEST:
        return 0
    before = -FORBIDDEN
    while time.monotonic() < until and network.bound < network.top and _gains(before, network.bound):
        before = network.bound
        network.sweep(SWEEPS)
    return min(floats.top, -(-network.bound >> bits))


def _gains(before: int, now: int) -> bool:
    return now - before > GAIN * abs(before)


def _whole(floats: FloatProgram, dual: Floats) -> tuple[int, Ints, tuple[Ints, int]]:
    """``(bits, message, price)`` in integers: costs times 2**bits, one message a margin, and what `price` says."""
    program, values = floats.program, len(floats.program.model.unary)
    bits = max(0, FINE.bit_length() - 1 - floats.top.bit_length())
    scale = 2.0**bits / floats.scale
    dual = np.clip(np.nan_to_num(dual), -MOST_DUAL, MOST_DUAL)
    message, row = np.split(dual[program.model.variables :], [len(program.tables.margin_value)])
    count = np.bincount(program.tables.margin_value, minlength=1)
    most = float(LARGEST // 2 ** (3 + int(count.max()).bit_length()))
    whole = np.rint(np.clip(message * scale, -most, most)).astype(np.int64)
    return bits, whole, price(program.memory, np.maximum(0.0, -row) * floats.row_scale * scale, values)


def _messages(program: IntegerProgram, message: Ints) -> tuple[Ints, Ints]:
    """Messages as received by the values and as sent by the cells: shapes (values,) and (cells,)."""
    tables = program.tables
    value, cell = np.zeros(len(program.model.unary), dtype=np.int64), np.zeros(len(tables.cost), dtype=np.int64)
    np.add.at(value, tables.margin_value, message)
    np.add.at(cell, tables.margin_cell, np.repeat(message, np.diff(tables.margin_start)))
    return value, cell


def price(memory: MemoryRows, multiplier: Floats, values: int) -> tuple[Ints, int]:
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
