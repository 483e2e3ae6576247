"""Kernels of the C core for networks of cost functions: contraction, elimination, message passing, large blocks."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from shardmark.solvers.intraop.network.ragged import offsets
from shardmark.solvers.native import Floats, Longs, array_in, array_out, check, ffi, floats, lib, shaped

#: Cost of a forbidden value or cell in the core.
FORBIDDEN = 2**60
#: Stands for the bound if costs of values are so low that their sum might need more than 64 bits.
NO_USE = -(2**63)


def contract_tables(
    old: tuple[Longs, Longs, Longs, Longs, Longs],
    roots: tuple[Longs, Longs, Longs, Longs],
    target: Longs,
    cells: int,
    forbidden: int,
) -> tuple[Longs, Longs]:
    """Return ``(cell, row)``: costs of new pairs' cells and of new variables' values, summed over old pairs.

    ``old``        ``(start, tail, head, cell_start, cell)``, as in `CostNetwork`, but pairs may recur
    ``roots``      ``(start, root, value_start, value)``: first rows of the w new variables, shape (w + 1,); the new
                   variable of each old one x, and the value of x for each value of that, ``value[value_start[x]:]``
    ``target``     shape (p,): first new cell of each pair, row-major over its new variables, lower index first; -1 if
                   the pair's costs go to values
    ``cells``      number of new cells
    ``forbidden``  costs and sums from here on become this; all other costs together are less
    """
    start, tail, head, cell_start, cell = (np.ascontiguousarray(column) for column in old)
    new_start, root, value_start, value = (np.ascontiguousarray(column) for column in roots)
    new_cell, row = np.zeros(cells, dtype=np.int64), np.zeros(int(new_start[-1]), dtype=np.int64)
    columns = (tail, head, cell_start, cell, np.diff(start), root, value_start, value, np.diff(new_start), new_start)
    pointers = [array_in(column) for column in (*columns, shaped(target, (len(tail),)))]
    check(lib.shard_contract(len(tail), *pointers, forbidden, array_out(new_cell), array_out(row)))
    return new_cell, row


class CostNetwork:
    """Variables with domains, and cost tables of pairs of variables, in the layout of the core.

    ``start``       shape (v + 1,): the values of variable i are the rows ``start[i]:start[i + 1]``
    ``tail, head``  shape (p,): pair e joins two variables, ``tail[e] < head[e]``, at most one pair per two variables
    ``cell``        costs of all pairs, row-major, the head's value running fastest; `FORBIDDEN` if not allowed
    ``message``     shape (p + 1,): first message of each pair; it has one per value of its tail, then of its head

    All int64, and no cost is negative.
    """

    def __init__(self, start: Longs, tail: Longs, head: Longs, cell: Longs) -> None:
        sizes = np.diff(start)
        ends, others = np.concatenate([tail, head]), np.concatenate([head, tail])
        self.start, self.tail, self.head, self.cells = start, tail, head, len(cell)
        self.message = offsets(sizes[tail] + sizes[head])
        arc_start, cell_start = offsets(np.bincount(ends, minlength=len(sizes))), offsets(sizes[tail] * sizes[head])
        arc = np.lexsort((others, ends)) % max(1, len(tail))
        columns = (start, tail, head, cell_start, shaped(cell, (int(cell_start[-1]),)), self.message, arc_start, arc)
        self._columns = [array_in(np.ascontiguousarray(column, dtype=np.int64)) for column in columns]
        self.struct = ffi.new("struct shard_network *", (len(sizes), len(tail), *self._columns))

    def consistent(self, alive: NDArray[np.bool_], forbidden: int) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Return ``(alive, determines)``: arc consistency on cells of ``forbidden`` or more.

        ``alive``       shape (rows,): the possible values; the remaining ones have an allowed cell in every pair
        ``determines``  shape (2, p): every remaining value of the tail (the head) allows at most one value of the other
                        end
        """
        left, determines = alive.astype(np.int8), np.zeros((2, len(self.tail)), dtype=np.int8)
        check(lib.shard_arc_consistency(self.struct, forbidden, array_out(left), array_out(determines.reshape(-1))))
        return left.astype(bool), determines.astype(bool)

    def function_maps(
        self, alive: NDArray[np.bool_], forbidden: int, pairs: Longs, by_tail: NDArray[np.bool_], length: int
    ) -> Longs:
        """For each pair in order: the rank of the child's remaining value for each remaining value of the parent.

        ``alive``    shape (rows,): as returned by `consistent`
        ``pairs``    numbers of pairs whose parent, the tail if ``by_tail``, determines the child
        ``length``   number of remaining values of all parents
        """
        rank = np.empty(length, dtype=np.int64)
        masks = array_in(alive.astype(np.int8)), array_in(by_tail.astype(np.int8))
        columns = (masks[0], len(pairs), array_in(np.ascontiguousarray(pairs)), masks[1], array_out(rank))
        check(lib.shard_function_maps(self.struct, forbidden, *columns))
        return rank

    def undominated(
        self, cost: Longs, usage_start: Longs, usage: Longs, skip: NDArray[np.bool_]
    ) -> tuple[NDArray[np.bool_], Longs]:
        """Return ``(mask, log)``: the values, shape (rows,), that survive dead-end elimination by cost and memory.

        ``log``, shape (removed, 2), has the other rows in order, each with the row that replaces it, -1 if some pair
        forbids it altogether.

        ``cost``         shape (rows,): cost of each value; all costs together stay below 2^58
        ``usage_start``  shape (v + 1,): first element of each variable in ``usage``
        ``usage``        memory of value k of variable i in w spans of time: ``usage[usage_start[i] + k * w:][:w]``
        ``skip``         shape (v,): variables to leave alone
        """
        value = np.ones(len(cost), dtype=np.int8)
        log, logged = np.empty((len(cost), 2), dtype=np.int64), ffi.new("int64_t *")
        columns = (array_in(cost), array_in(usage_start), array_in(usage), array_in(skip.astype(np.int8)))
        out = array_out(value), array_out(log.reshape(-1)), logged
        check(lib.shard_dead_end_elimination(self.struct, *columns, *out))
        return value.astype(bool), log[: logged[0]]

    def functional_leaves(
        self, cost: Longs, usage_start: Longs, usage: Longs, skip: NDArray[np.bool_]
    ) -> tuple[Longs, Longs]:
        """Return ``(parent, response)``: variables of one pair whose best value depends on the other end's value alone.

        ``parent``    shape (v,): the other end, itself not such a leaf; -1 for all other variables
        ``response``  shape (message[-1],): at the positions of the messages to the parent: the leaf's value for each
                      value of the parent

        Parameters as for `undominated`.
        """
        parent = np.empty(len(self.start) - 1, dtype=np.int64)
        response = np.full(int(self.message[-1]), -1, dtype=np.int64)
        columns = (array_in(cost), array_in(usage_start), array_in(usage), array_in(skip.astype(np.int8)))
        check(lib.shard_leaf_elimination(self.struct, *columns, array_out(parent), array_out(response)))
        return parent, response


class Trws(CostNetwork):
    """Sequential tree-reweighted message passing (Kolmogorov, PAMI 2006 and 2015), exact in integers.

    ``cost``   shape (rows,), int64, not negative at first: reparametrised cost of each value
    ``bound``  lower bound on the part of the cost that ``cost`` does not contain; ``top`` if no assignment costs less

    Costs from ``top`` on, which is at most 2^56, are `FORBIDDEN`.
    """

    def __init__(self, start: Longs, tail: Longs, head: Longs, cell: Longs, cost: Longs, top: int) -> None:
        if not 0 <= top <= 2**56:
            raise ValueError(f"top: expected 0 to 2^56, found {top}")
        super().__init__(start, tail, head, np.where(cell < top, cell, FORBIDDEN))
        self.top, self.bound = top, 0
        self.cost = np.where(shaped(cost, (int(start[-1]),)) < top, cost, FORBIDDEN)
        self._sent = np.zeros(int(self.message[-1]), dtype=np.int64)

    def sweep(self, count: int) -> None:
        """Raise ``bound`` by ``count`` sweeps over all variables, up and down.

        If the costs are so negative that the bound would be below -2^60, it becomes `NO_USE`, and the costs do not
        change.
        """
        bound = ffi.new("int64_t *", self.bound)
        check(lib.shard_trws(self.struct, self.top, count, array_out(self.cost), array_out(self._sent), bound))
        self.bound = bound[0]

    def round(self) -> Longs:
        """Assignment, shape (v,), by the rule of `SoftTrws.round`."""
        return _rounded(self, self.cost.astype(np.float64), self._sent.astype(np.float64))

    @property
    def state(self) -> tuple[Longs, Longs, int]:
        """A copy of everything that `sweep` and `reparametrise` change; assign it to restore it."""
        return self.cost.copy(), self._sent.copy(), self.bound

    @state.setter
    def state(self, state: tuple[Longs, Longs, int]) -> None:
        self.cost, self._sent, self.bound = state

    def reparametrise(self, cost: Longs, bound: int, message: Longs) -> None:
        """Restart from costs of values, shape (rows,), and ``bound``, reparametrised by messages.

        ``message``  shape (message[-1],), each at most 2^58 in absolute value: cost to move from tables to values

        ``bound`` is `NO_USE` afterwards if it would be below -2^60.
        """
        self.cost, constant = cost.copy(), ffi.new("int64_t *", max(bound, NO_USE))
        self._sent = shaped(message, self._sent.shape).copy()
        arrays = array_out(self.cost), array_out(self._sent)
        check(lib.shard_trws_reparametrise(self.struct, self.top, *arrays, constant))
        self.bound = constant[0]

    def prune(self, top: int | None = None) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Return masks ``(values, cells)``, shapes (rows,) and (cells,), of what assignments below ``top`` can contain.

        ``top`` may be lower than the network's, but must exceed ``bound``, which must not be `NO_USE`.
        """
        top = self.top if top is None else top
        values, cells = np.empty(len(self.cost), dtype=np.int8), np.empty(self.cells, dtype=np.int8)
        columns = array_in(self.cost), array_in(self._sent), self.bound, array_out(values), array_out(cells)
        check(lib.shard_trws_prune(self.struct, top, *columns))
        return values.astype(bool), cells.astype(bool)


class SoftTrws:
    """TRW-S with a soft minimum, in floating point; its messages alone prove nothing.

    ``cost``    shape (rows,), float64: cost of each value, without messages
    ``belief``  shape (rows,), float64: after `sweep`, ``exp(-belief / softness)`` is a value's weight
    """

    def __init__(self, network: CostNetwork, cost: Floats) -> None:
        self._network = network  # owns the arrays that the struct points to
        sizes, lanes = np.diff(network.start), lib.SHARD_LANES
        degree = np.bincount(np.concatenate([network.tail, network.head]), minlength=len(sizes))
        self._slot = np.empty(len(sizes) + 1, dtype=np.int64)
        self._arc = np.empty((2 * len(network.tail), 4), dtype=np.int64)
        self._table = np.empty(2 * network.cells + lanes, dtype=np.float32)
        self._range = np.empty(2 * int(network.message[-1]), dtype=np.float32)
        self._message = np.zeros(int((degree * -(-sizes // lanes) * lanes).sum()), dtype=np.float32)
        self.cost, self.belief = cost.copy(), np.zeros(len(cost))
        arc = ffi.from_buffer("struct shard_soft_arc[]", self._arc, require_writable=True)
        columns = array_out(self._slot), arc, array_out(self._table), array_out(self._range)
        check(lib.shard_soft_trws_tables(network.struct, *columns))
        self._struct, self._columns = ffi.new("struct shard_soft *", columns), columns

    def sweep(self, count: int, softness: float, *, lanes: int = lib.SHARD_LANES) -> None:
        """Pass messages in ``count`` sweeps over all variables, up and down, up to ``lanes`` values at once."""
        columns = array_in(self.cost), array_out(self._message), array_out(self.belief)
        check(lib.shard_soft_trws(self._network.struct, self._struct, lanes, count, softness, *columns))

    def reparametrised(self) -> tuple[Floats, Floats]:
        """Return ``(cost, message)``: costs including messages, (rows,), and the messages, (network.message[-1],)."""
        cost, message = self.cost.copy(), np.empty(int(self._network.message[-1]))
        columns = array_in(self._message), array_out(cost), array_out(message)
        lib.shard_soft_trws_messages(self._network.struct, self._struct, *columns)
        return cost, message

    def round(self) -> Longs:
        """Assignment, shape (v,): each variable in order takes its best value given messages and earlier variables."""
        return _rounded(self._network, *self.reparametrised())


def _rounded(network: CostNetwork, cost: Floats, message: Floats) -> Longs:
    value = np.zeros(len(network.start) - 1, dtype=np.int64)
    check(lib.shard_soft_trws_round(network.struct, array_in(cost), array_in(message), array_out(value)))
    return value


class BlockLimits(NamedTuple):
    """Largest size of a block: variables, cells of one elimination's table, cells of all its tables."""

    size: int
    width: float
    cells: float


class MemoryNetwork:
    """A network of cost functions whose values use memory over time; ``large_neighbourhood.h`` has the layout.

    ``start``   shape (v + 1,): the values of variable i are the rows ``start[i]:start[i + 1]``
    ``cost``    shape (rows,), float64: cost of each value
    ``tables``  ``(scope_start, scope, cell)``: table f is over the variables ``scope[scope_start[f]:scope_start[f +
                1]]``, all distinct; costs of all tables one after another, the last variable running fastest
    ``memory``  ``(node_start, begin, end, usage_start, usage)``: the nodes of each variable, the steps in which each
                is in memory, and what each uses under every value
    ``room``    shape (steps,): available memory
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
        count, sizes = len(scope_start) - 1, np.diff(start)
        self.rows, self.variables = len(cost), len(sizes)
        cells: Longs = np.multiply.reduceat(sizes[scope], scope_start[:-1]) if count else sizes[:0]
        cell_start = offsets(cells)
        arc_start = offsets(np.bincount(scope, minlength=len(sizes)))
        arc = np.repeat(np.arange(count), np.diff(scope_start))[np.argsort(scope, kind="stable")]
        self._columns = [
            _longs(start),
            array_in(floats(cost, (int(start[-1]),))),
            *map(_longs, (scope_start, scope, cell_start)),
            array_in(floats(cell, (int(cell_start[-1]),))),
            *map(_longs, (arc_start, arc, *memory, room)),
        ]
        struct = (len(sizes), count, len(room), *self._columns)
        self._struct = ffi.new("struct shard_memory_network *", struct)

    def improve(
        self, price: Floats, value: Longs, load: Longs, limits: BlockLimits, work: float, random: NDArray[np.uint64]
    ) -> float:
        """Improve an assignment in place by large neighbourhoods; return the decrease of cost plus price.

        ``price``   shape (rows,): price of the memory of each value
        ``value``   shape (v,): the assignment
        ``load``    shape (steps,): memory in use, kept up to date
        ``work``    approximate number of table cells to compute
        ``random``  shape (1,): state of the random numbers
        """
        gain = ffi.new("double *")
        price, value = floats(price, (self.rows,)), shaped(value, (self.variables,))
        columns = array_out(random), array_out(value), array_out(load), gain
        check(lib.shard_large_neighbourhood(self._struct, array_in(price), *limits, work, *columns))
        return float(gain[0])


def _longs(column: Longs) -> Any:
    return array_in(np.ascontiguousarray(column, dtype=np.int64))
