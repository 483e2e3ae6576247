"""Lower bounds from dual values of a program, in exact integers: valid for any dual values."""

from __future__ import annotations

import time

import numpy as np

from shardmark.instances.files.columns import Floats, Ints
from shardmark.solvers.intraop._kernels import FORBIDDEN, Trws
from shardmark.solvers.intraop.network.ragged import spread
from shardmark.solvers.intraop.programs.floating_point import FloatProgram
from shardmark.solvers.intraop.programs.integer_program import IntegerProgram, costly_pairs
from shardmark.solvers.intraop.programs.memory_rows import MemoryRows

#: Scaled value of ``top``: leaves room for fractions of dual values.
FINE = 2**46
#: Upper bound on the sums per value or cell.
LARGEST = 2**60
#: Largest ``top`` for which message passing continues.
LARGEST_TOP = 2**56
#: Dual values are clipped to this; engines in numerical trouble may exceed it.
MOST_DUAL = 1e30
#: Sweeps between two checks of progress.
SWEEPS = 10
#: Relative gain of a check that justifies more sweeps.
GAIN = 1e-6
#: Fraction bits of multipliers: rounding loses less than one unit per variable.
MULTIPLIER_BITS = 64


def proved(floats: FloatProgram, dual: Floats) -> int:
    """Lower bound on the cost of any assignment that fits, in costs of the model, from dual values of shape (rows,).

    Duals of margins become integer messages, which move costs from cells to values; duals of memory rows become integer
    multipliers. Any messages and non-negative multipliers give a bound: the sum of the minima of all tables, plus the
    minima of all variables including memory prices, less the price of the available memory. The program must have one
    memory row per step, no sum columns, and an allowed cell in each table.
    """
    program, model = floats.program, floats.program.model
    bits, message, (priced, worth) = _whole(floats, dual)
    to_value, of_cell = _messages(program, message)
    value = (np.minimum(model.unary, floats.top) << bits) + to_value + priced
    value[model.unary >= model.forbidden] = 2 * LARGEST
    cell = (np.minimum(program.tables.cost, floats.top) << bits) - of_cell
    total = _sum_of_least(value, model.start) + _sum_of_least(cell, program.tables.start) - worth
    return min(floats.top, -(-total >> bits))


def improved_bound(floats: FloatProgram, dual: Floats, until: float) -> int:
    """The same bound after message passing from these messages, with the same multipliers, as long as it gains.

    Useful if the engine's messages have not converged. The model must have tables of two variables only. Returns 0 if
    numbers are too large.
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
    while time.monotonic() < until and network.bound < network.top and network.bound - before > GAIN * abs(before):
        before = network.bound
        network.sweep(SWEEPS)
    return min(floats.top, -(-network.bound >> bits))


def _whole(floats: FloatProgram, dual: Floats) -> tuple[int, Ints, tuple[Ints, int]]:
    """Return integers ``(bits, message, price)``: scale 2**bits of costs, a message per margin, result of `price`."""
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
    """Return ``(of_value, worth)``: in any fitting assignment, prices of the chosen values sum to at most ``worth``.

    ``multiplier``, shape (rows,), is the price per unit of memory in each row; it is rounded, its products are exact.
    """
    some = np.flatnonzero(multiplier)
    factor = {int(row): int(float(min(multiplier[row], LARGEST)) * 2.0**MULTIPLIER_BITS) for row in some}
    exact = np.zeros(values, dtype=object)
    for row, much in factor.items():
        part = slice(memory.start[row], memory.start[row + 1])
        exact[memory.column[part]] += memory.use[part].astype(object) * much
    worth = sum(much * int(memory.room[row]) for row, much in factor.items())
    most = np.full(values, LARGEST // 4, dtype=object)  # a lower price keeps the bound valid
    return np.minimum(exact >> MULTIPLIER_BITS, most).astype(np.int64), worth >> MULTIPLIER_BITS


def _sum_of_least(of_row: Ints, start: Ints) -> int:
    """Sum of the minima of the rows ``start[i]:start[i + 1]``."""
    return sum(np.minimum.reduceat(of_row, start[:-1]).tolist()) if len(start) > 1 else 0
