"""The core's kernels for networks of cost functions: messages, contraction, and blocks of variables."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from solvers.native import Floats, Longs, array_in, array_out, check, ffi, floats, lib, shaped

#: The cost, in a network of cost functions, of what is not allowed.
NEVER = 2**60


def contract_tables(
    old: tuple[Longs, Longs, Longs, Longs, Longs],
    how: tuple[Longs, Longs, Longs, Longs],
    target: Longs,
    cells: int,
    forbidden: int,
) -> tuple[Longs, Longs]:
    """The cells of new pairs and the costs of new values, ``(cell, row)``, that old pairs add up to.

    ``old``        ``(start, tail, head, cell_start, cell)``, as in `CostNetwork`, but pairs may recur
    ``how``        ``(start, root, value_start, value)``: rows of the new variables, shape (w + 1,); the new variable of
                   every old one x, and its value beside each value of that, ``value[value_start[x]:]``
    ``target``     shape (p,): first of the new cells of a pair, row-major over its new variables, lower index first;
                   -1 where a pair's costs belong to values
    ``cells``      number of new cells
    ``forbidden``  what costs and sums from here on become; all others together are less
    """
    start, tail, head, cell_start, cell = (np.ascontiguousarray(column) for column in old)
    new_start, root, value_start, value = (np.ascontiguousarray(column) for column in how)
    new_cell, row = np.zeros(cells, dtype=np.int64), np.zeros(int(new_start[-1]), dtype=np.int64)
    columns = (tail, head, cell_start, cell, np.diff(start), root, value_start, value, np.diff(new_start), new_start)
    pointers = [array_in(column) for column in (*columns, shaped(target, (len(tail),)))]
    check(lib.shard_contract(len(tail), *pointers, forbidden, array_out(new_cell), array_out(row)))
    return new_cell, row


class CostNetwork:
    """Variables with domains and a table of costs for each pair of them, as the core sees it.

    ``start``       shape (v + 1,): the values of variable i are the rows ``start[i]:start[i + 1]``
    ``tail, head``  shape (p,): pair e joins two variables, ``tail[e] < head[e]``, no two of them twice
    ``cell``        the costs of all pairs, row-major, the head's value running fastest; `NEVER`: not allowed
    ``message``     shape (p + 1,): where the numbers of a pair begin, one for each value of its tail, then of its head

    All int64, and no cost is negative.
    """

    def __init__(self, start: Longs, tail: Longs, head: Longs, cell: Longs) -> None:
        sizes = np.diff(start)
        ends, others = np.concatenate([tail, head]), np.concatenate([head, tail])
        arc_start, cell_start = (np.zeros(count + 1, dtype=np.int64) for count in (len(sizes), len(tail)))
        self.start, self.tail, self.head, self.message = start, tail, head, cell_start.copy()
        np.cumsum(np.bincount(ends, minlength=len(sizes)), out=arc_start[1:])
        np.cumsum(sizes[tail] + sizes[head], out=self.message[1:])
        np.cumsum(sizes[tail] * sizes[head], out=cell_start[1:])
        arc = np.lexsort((others, ends)) % max(1, len(tail))
        columns = (start, tail, head, cell_start, shaped(cell, (int(cell_start[-1]),)), self.message, arc_start, arc)
        self._columns = [array_in(np.ascontiguousarray(column, dtype=np.int64)) for column in columns]
        self.struct = ffi.new("struct shard_network *", (len(sizes), len(tail), *self._columns))

    def undominated(self, cost: Longs, usage_start: Longs, usage: Longs, keep: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Values, shape (rows,), that remain when those go that others replace, at no more cost and memory.

        ``cost``         shape (rows,): of every value; all costs together stay below 2^58
        ``usage_start``  shape (v + 1,): value k of variable i uses, in w spans of time, the memory
        ``usage``        ``usage[usage_start[i] + k * w:][:w]``
        ``keep``         shape (v,): variables to be left alone
        """
        value = np.ones(len(cost), dtype=np.int8)
        columns = (array_in(cost), array_in(usage_start), array_in(usage), array_in(keep.astype(np.int8)))
        check(lib.shard_dominate(self.struct, *columns, array_out(value)))
        return value.astype(bool)

    def followers(self, cost: Longs, usage_start: Longs, usage: Longs, keep: NDArray[np.bool_]) -> tuple[Longs, Longs]:
        """``(follow, choice)``: variables of one pair whose best value is a function of the other end's; see above.

        ``follow``  shape (v,): the other end, which follows nobody, or -1
        ``choice``  shape (message[-1],): at the values of the end that is followed, the value that goes with each
        """
        follow = np.empty(len(self.start) - 1, dtype=np.int64)
        choice = np.full(int(self.message[-1]), -1, dtype=np.int64)
        columns = (array_in(cost), array_in(usage_start), array_in(usage), array_in(keep.astype(np.int8)))
        check(lib.shard_follow(self.struct, *columns, array_out(follow), array_out(choice)))
        return follow, choice


class Messages(CostNetwork):
    """A network whose costs move such that a lower bound rises, exact in integers.

    ``cost``   shape (rows,), int64, not negative at first: of every value, messages included
    ``bound``  what every assignment that costs less than ``top`` costs at least beside ``cost``; ``top`` if none

    Costs of ``top``, at most 2^56, or more count as not allowed, and `NEVER` says so. Kolmogorov, PAMI 2006 and 2015.
    """

    def __init__(self, start: Longs, tail: Longs, head: Longs, cell: Longs, cost: Longs, top: int) -> None:
        if not 0 <= top <= 2**56:
            raise ValueError(f"top: expected 0 to 2^56, found {top}")
        super().__init__(start, tail, head, np.where(cell < top, cell, NEVER))
        self.top, self.bound = top, 0
        self.cost = np.where(shaped(cost, (int(start[-1]),)) < top, cost, NEVER)
        self._sent = np.zeros(int(self.message[-1]), dtype=np.int64)
        self._cells = len(cell)

    def sweep(self, count: int) -> None:
        """Raise ``bound`` by so many passes over all variables, there and back."""
        bound = ffi.new("int64_t *", self.bound)
        check(lib.shard_messages(self.struct, self.top, count, array_out(self.cost), array_out(self._sent), bound))
        self.bound = bound[0]

    @property
    def state(self) -> tuple[Longs, Longs, int]:
        """All that `sweep` and `adopt` change, to be set again as it was."""
        return self.cost.copy(), self._sent.copy(), self.bound

    @state.setter
    def state(self, state: tuple[Longs, Longs, int]) -> None:
        self.cost, self._sent, self.bound = state

    def adopt(self, cost: Longs, bound: int, message: Longs) -> None:
        """Begin anew with other costs of values, shape (rows,), and ``bound``, and move costs as messages say.

        ``message``  shape (message[-1],), each at most 2^58 in absolute value: what values should get of the tables
        """
        self.cost, constant = cost.copy(), ffi.new("int64_t *", bound)
        self._sent = shaped(message, self._sent.shape).copy()
        check(lib.shard_adopt(self.struct, self.top, array_out(self.cost), array_out(self._sent), constant))
        self.bound = constant[0]

    def prune(self, top: int | None = None) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """``(values, cells)``, shapes (rows,) and (cells,): what an assignment below ``top`` may contain.

        ``top`` may be lower than the network's own, but is above ``bound``.
        """
        top = self.top if top is None else top
        values, cells = np.empty(len(self.cost), dtype=np.int8), np.empty(self._cells, dtype=np.int8)
        columns = array_in(self.cost), array_in(self._sent), self.bound, array_out(values), array_out(cells)
        check(lib.shard_prune(self.struct, top, *columns))
        return values.astype(bool), cells.astype(bool)


class Effort(NamedTuple):
    """Size of a neighbourhood: variables, cells of the largest eliminated table, cells of all its tables."""

    size: int
    width: float
    cells: float


class Field:
    """A network of cost functions whose values use memory over time, for searches; see ``blocks.h`` for the layout.

    ``start``   shape (v + 1,): the values of variable i are the rows ``start[i]:start[i + 1]``
    ``cost``    shape (rows,), float64: of every value
    ``tables``  ``(scope_start, scope, cell)``: table f is over the variables ``scope[scope_start[f]:scope_start[f +
                1]]``, all distinct; the costs of all tables one after another, the last variable running fastest
    ``memory``  ``(node_start, begin, end, usage_start, usage)``: the nodes of every variable, the steps in which each
                is in memory, and what each uses under every value
    ``room``    shape (steps,): memory that there is
    """

    def __init__(
        self,
        start: Longs,
        cost: Floats,
        tables: tuple[Longs, Longs, Floats],
        memory: tuple[Longs, Longs, Longs, Longs, Longs],
        room: Longs,
    ) -> None:
        scope_start, scope, cell = tables
        variables, count, sizes = len(start) - 1, len(scope_start) - 1, np.diff(start)
        cell_start, arc_start = np.zeros(count + 1, dtype=np.int64), np.zeros(variables + 1, dtype=np.int64)
        if count:
            np.cumsum(np.multiply.reduceat(sizes[scope], scope_start[:-1]), out=cell_start[1:])
        np.cumsum(np.bincount(scope, minlength=variables), out=arc_start[1:])
        arc = np.repeat(np.arange(count), np.diff(scope_start))[np.argsort(scope, kind="stable")]
        self.rows, self.variables, self.steps = len(cost), variables, len(room)
        longs = (scope_start, scope, cell_start), (arc_start, arc, *memory, room)
        cell = floats(cell, (int(cell_start[-1]),))
        left, right = ([array_in(np.ascontiguousarray(column, dtype=np.int64)) for column in part] for part in longs)
        self._columns = [
            array_in(np.ascontiguousarray(start)),
            array_in(floats(cost, (int(start[-1]),))),
            *left,
            array_in(cell),
            *right,
        ]
        self._struct = ffi.new("struct shard_field *", (variables, count, len(room), *self._columns))

    def improve_by_blocks(
        self, price: Floats, value: Longs, load: Longs, effort: Effort, work: float, random: NDArray[np.uint64]
    ) -> float:
        """Improve an assignment by large neighbourhoods, in place; by how much cost and price have become less.

        ``price``   shape (rows,): what the memory of every value is worth
        ``value``   shape (v,): the assignment
        ``load``    shape (steps,): memory in use, changed with it
        ``work``    cells of tables that are computed, about; ``random`` is the state of the random numbers
        """
        gain = ffi.new("double *")
        size, width, cells = effort
        price, value, load = (
            floats(price, (self.rows,)),
            shaped(value, (self.variables,)),
            shaped(load, (self.steps,)),
        )
        columns = array_out(random), array_out(value), array_out(load), gain
        check(lib.shard_blocks(self._struct, array_in(price), size, width, cells, work, *columns))
        return float(gain[0])


class Softened:
    """Messages of a network in floating point, under a softened minimum; they prove nothing by themselves.

    ``cost``     shape (rows,), float64: of every value, messages included
    ``message``  shape (network.message[-1],), float64: what values were given of the tables
    ``belief``   shape (rows,), float64: ``exp(-belief / softness)`` is a value's weight, after the last `sweep`
    """

    def __init__(self, network: CostNetwork, cost: Floats) -> None:
        rows, columns = (np.diff(network.start)[ends] for ends in (network.tail, network.head))
        self._place = np.zeros(len(rows) + 1, dtype=np.int64)
        np.cumsum(rows * _filled(columns) + columns * _filled(rows), out=self._place[1:])
        self._network = network  # keeps alive what the struct points to
        self._table = np.empty(int(self._place[-1]), dtype=np.float32)
        self.cost, self.belief = cost.copy(), np.zeros(len(cost))
        self.message = np.zeros(int(network.message[-1]))
        check(lib.shard_soft_tables(network.struct, array_in(self._place), array_out(self._table)))

    def sweep(self, count: int, softness: float) -> None:
        """Pass messages so many times over all variables, there and back."""
        columns = (array_out(self.cost), array_out(self.message), array_out(self.belief))
        check(
            lib.shard_soften(
                self._network.struct, array_in(self._place), array_in(self._table), count, softness, *columns
            )
        )

    def round(self) -> Longs:
        """A value for every variable, shape (v,), chosen one after the other by what messages say of those to come."""
        value = np.zeros(len(self._network.start) - 1, dtype=np.int64)
        check(lib.shard_round(self._network.struct, array_in(self.cost), array_in(self.message), array_out(value)))
        return value


def _filled(count: Longs) -> Longs:
    """Rounded up to the number of values that the core computes side by side."""
    return (count + 7) // 8 * 8
