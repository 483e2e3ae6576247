"""The one place that imports the compiled core: its kernels as typed functions over NumPy arrays."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from instances.graph import Graph, Index, csr, find_cycle
from instances.pipeline import Instance
from instances.scheduling import Instance as System

try:
    from solvers._core import ffi, lib
except ImportError as error:
    raise ImportError(
        f"the compiled core solvers._core cannot be imported ({error}): run `make setup`, or `pip install -e .`"
    ) from error

Floats = NDArray[np.float64]
Longs = NDArray[np.int64]
Words = NDArray[np.uint64]

#: The cost, in a network of cost functions, of what is not allowed.
NEVER = 2**60

#: Elements of what the threads of one search share.
SHARED: int = 2 * lib.SHARD_TRUNK

_REASONS = {
    lib.SHARD_CYCLE: "expected a graph without cycles",
    lib.SHARD_BAD_ORDER: "expected a topological order: every node once, every edge forwards",
    lib.SHARD_NAN: "expected numbers, found NaN",
}


@dataclass(frozen=True)
class Slicing:
    """An order cut into at most k blocks.

    ``cost``  greatest cost of a block (Equation 3)
    ``cut``   shape (min(k, n) + 1,), or (2,) without nodes, int32: block b holds the positions ``cut[b]`` to
              ``cut[b + 1] - 1``; empty blocks come last
    """

    cost: float
    cut: Index


@dataclass(frozen=True)
class Annealing:
    """How to anneal a partition; the energy is what its blocks cost more than a target, summed.

    ``moves``      moves to try
    ``seed``       of the random numbers, 0 to 2^64 - 1
    ``hot``        temperature at the first move, as a share of the cost begun with, > 0
    ``cold``       temperature at the last one, > 0
    ``margin``     the target is the least cost so far less this share, at least 0 and below 1
    ``squared``    whether the excesses are squared, and divided by the target
    ``enough``     stop at a partition that costs no more
    """

    moves: int
    seed: int
    hot: float
    cold: float
    margin: float
    squared: bool
    enough: float = 0.0


def kahn(graph: Graph, priority: ArrayLike) -> Index:
    """Topological order, shape (n,), int32: at every step the ready node of greatest priority, ties by smallest index.

    ``priority`` has shape (n,) and holds no NaN, else ValueError. Archer et al. 2024, Algorithm 3, O(n log n + m).
    """
    start, head = graph.out_csr
    order = np.empty(graph.nodes, dtype=np.int32)
    keys = _floats(priority, (graph.nodes,))
    _check(lib.shard_kahn(graph.nodes, _in(start), _in(head), _in(keys), _out(order)))
    return order


class PipelineCore:
    """A pipeline instance as the core sees it; every call releases the interpreter lock.

    ``stop``  shape (1,), int32: while another thread makes it 1, `slice` and `decode` end soon with what they know by
              then, and orders that are not begun cost infinity, also in `arrange`
    """

    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        self.blocks = max(1, min(instance.stages, instance.nodes))  # more would stay empty
        graph = instance.graph
        columns = (*graph.out_csr, *graph.in_csr, instance.work, instance.output_size, instance.param_size)
        self._columns = [_in(np.ascontiguousarray(column)) for column in columns]  # kept alive beside the struct
        memory = math.inf if instance.memory is None else instance.memory
        scalars = (instance.nodes, self.blocks)
        self.stop = np.zeros(1, dtype=np.int32)
        self._problem = ffi.new(
            "struct shard_pipeline *",
            (*scalars, *self._columns, float(instance.bandwidth), float(memory), _in(self.stop)),
        )

    @property
    def anneal_mib(self) -> float:
        """MiB that `anneal` takes, about: a count for each node and block."""
        return 4.0 * self.instance.nodes * (self.blocks + 12) / 2**20

    def slice(self, order: ArrayLike, upper: float = math.inf) -> Slicing | None:
        """The best way to cut ``order``, shape (n,), into at most k blocks; None if none costs less than ``upper``.

        Raises ValueError unless ``order`` is a topological order. Archer et al. 2024, Algorithm 1.
        """
        cost = np.empty(1)
        cut = np.empty(self.blocks + 1, dtype=np.int32)
        _check(lib.shard_slice(self._problem, _in(self._order(order)), upper, _out(cost), _out(cut)))
        return Slicing(float(cost[0]), cut) if math.isfinite(cost[0]) else None

    def decode(self, priorities: ArrayLike, upper: float = math.inf) -> Floats:
        """Cost of the best slicing of each row's Kahn order, shape (rows,); infinite where it is not below ``upper``.

        ``priorities`` has shape (rows, n) and holds no NaN, else ValueError. Archer et al. 2024, Algorithm 2.
        """
        rows = np.shape(priorities)[0]
        keys = _floats(priorities, (rows, self.instance.nodes))
        costs = np.empty(rows)
        _check(lib.shard_decode(self._problem, rows, _in(keys), upper, _out(costs)))
        return costs

    def arrange(self, priorities: ArrayLike, *, weighted: bool) -> Floats:
        """Length of each row's Kahn order as a linear arrangement, shape (rows,): summed distances of the edges' ends.

        ``weighted``: each times the time that the tensor takes. ``priorities`` has shape (rows, n) and holds no NaN,
        else ValueError. Archer et al. 2024, Appendix C.1.
        """
        rows = np.shape(priorities)[0]
        keys = _floats(priorities, (rows, self.instance.nodes))
        lengths = np.empty(rows)
        _check(lib.shard_arrange(self._problem, rows, _in(keys), weighted, _out(lengths)))
        return lengths

    def anneal(self, order: ArrayLike, cut: ArrayLike, annealing: Annealing, stop: Index) -> tuple[Index, Slicing]:
        """An order and its slicing, better than those begun with or the same, found by moving nodes between blocks.

        ``order`` has shape (n,) and is topological, ``cut`` as in `Slicing`, else ValueError. ``stop``, shape (1,),
        int32, ends the search soon after another thread makes it 1.
        """
        nodes, cuts = self._order(order).copy(), np.array(cut, dtype=np.int32)
        _shaped(cuts, (self.blocks + 1,))
        cost = np.empty(1)
        options = ffi.new("struct shard_annealing *", dataclasses.astuple(annealing))
        _check(lib.shard_anneal(self._problem, options, _in(stop), _out(nodes), _out(cuts), _out(cost)))
        return nodes, Slicing(float(cost[0]), cuts)

    def segment_costs(self, order: ArrayLike, right: int) -> Floats:
        """Costs of the blocks at positions l to right - 1 of ``order`` for every l, shape (right,)."""
        if not 0 <= right <= self.instance.nodes:
            raise ValueError(f"right: expected 0 to {self.instance.nodes}, found {right}")
        costs = np.empty(right)
        _check(lib.shard_segment_costs(self._problem, _in(self._order(order)), right, _out(costs)))
        return costs

    def _order(self, order: ArrayLike) -> Index:
        return _shaped(np.ascontiguousarray(order, dtype=np.int32), (self.instance.nodes,))


@dataclass(frozen=True)
class Cheapest:
    """What a search for the cheapest convex set found out, in the units of its `BlockCosts`.

    ``cost``    of the set found; the limit if none was found
    ``proved``  no set that was asked for costs less than this or the limit
    ``member``  shape (n,), bool: the set found
    ``cuts``    minimum cuts computed
    """

    cost: int
    proved: int
    member: NDArray[np.bool_]
    cuts: int


class BlockCosts:
    """What convex sets of nodes cost, as integers that are never more than `scale` times Equation (3).

    ``work``, ``size``  shape (n,), int64: of each node and of sending its tensor, together at most 2^50
    ``below``           shape (n, words), uint64: bit w of row v says that w descends from v
    ``above``           shape (n, words), uint64: bit w of row v says that v descends from w
    ``pair``            shape (n, n), int64: a lower bound on the cost of a block with both nodes
    """

    def __init__(
        self, graph: Graph, work: Longs, size: Longs, below: Words, above: Words, pair: Longs | None = None
    ) -> None:
        if min(work.min(initial=0), size.min(initial=0)) < 0 or int(work.sum()) + int(size.sum()) > 2**50:
            raise ValueError("expected work and sizes of at most 2^50 together, none negative")
        self.nodes = graph.nodes
        words = (self.nodes, (self.nodes + 63) // 64)
        columns: list[NDArray[Any]] = [
            *graph.out_csr,
            *graph.in_csr,
            _shaped(work, (self.nodes,)),
            _shaped(size, (self.nodes,)),
        ]
        columns += [_shaped(below, words), _shaped(above, words)]
        self._columns = [_in(column) for column in columns]
        self._columns += [ffi.NULL if pair is None else _in(_shaped(pair, (self.nodes, self.nodes)))]
        self._blocks = ffi.new("struct shard_blocks *", (self.nodes, *self._columns))

    def cheapest(
        self,
        weight: Longs,
        need: int,
        limit: int,
        *,
        cuts: int,
        fixed: NDArray[np.int8] | None = None,
        any_set: bool = False,
        seconds: float = math.inf,
        shared: Index | None = None,
        stop: Index | None = None,
    ) -> Cheapest:
        """The cheapest convex set of weight ``need`` or more, or any such set, that costs less than ``limit``.

        ``weight`` has shape (n,), int64, none negative, at most 2^50 in all; ``fixed`` has shape (n,): 1 for nodes of
        the set, -1 for others, 0 where that is open. At most ``cuts`` minimum cuts are computed, within ``seconds``.

        Threads that search for the same, any set, share the work by one ``shared``, shape (SHARED,), zeros to begin
        with, and are called off by one ``stop``, shape (1,): no such set costs less than the least of what they prove.
        """
        member = np.zeros(self.nodes, dtype=np.int8)
        fixed = np.zeros(self.nodes, dtype=np.int8) if fixed is None else _shaped(fixed, (self.nodes,))
        spent, cost, proved = ffi.new("int64_t *", cuts), ffi.new("int64_t *"), ffi.new("int64_t *")
        stop = np.zeros(1, dtype=np.int32) if stop is None else _shaped(stop, (1,))
        common = ffi.NULL if shared is None else _out(_shaped(shared, (SHARED,)))
        given = (*self._demand(weight, need), _in(fixed), limit, any_set, seconds, common, _out(stop))
        _check(lib.shard_cheapest(self._blocks, *given, spent, cost, proved, _out(member)))
        return Cheapest(cost[0], proved[0], member.astype(bool), spent[0])

    def hunt(
        self, weight: Longs, need: int, limit: int, begin: NDArray[np.bool_], *, moves: int, hot: float, seed: int
    ) -> Cheapest:
        """Some convex set of weight ``need`` or more that costs less than ``limit``, by annealing; proves nothing.

        ``begin``, shape (n,), is a convex set to begin with, which may cost or weigh anything; see `cheapest`.
        """
        member, cost = begin.astype(np.int8), ffi.new("int64_t *")
        given = (*self._demand(weight, need), limit, moves, hot, seed)
        _check(lib.shard_hunt(self._blocks, *given, _out(_shaped(member, (self.nodes,))), cost))
        return Cheapest(cost[0], 0, member.astype(bool), 0)

    def _demand(self, weight: Longs, need: int) -> tuple[Any, int]:
        if weight.min(initial=0) < 0 or int(weight.sum()) > 2**50 or need < 1:
            raise ValueError("expected weights of at most 2^50 together, none negative, and a need of at least 1")
        return _in(_shaped(weight, (self.nodes,))), need


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
    pointers = [_in(column) for column in (*columns, _shaped(target, (len(tail),)))]
    _check(lib.shard_contract(len(tail), *pointers, forbidden, _out(new_cell), _out(row)))
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
        columns = (start, tail, head, cell_start, _shaped(cell, (int(cell_start[-1]),)), self.message, arc_start, arc)
        self._columns = [_in(np.ascontiguousarray(column, dtype=np.int64)) for column in columns]
        self.struct = ffi.new("struct shard_network *", (len(sizes), len(tail), *self._columns))

    def undominated(self, cost: Longs, usage_start: Longs, usage: Longs, keep: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Values, shape (rows,), that remain when those go that others replace, at no more cost and memory.

        ``cost``         shape (rows,): of every value; all costs together stay below 2^58
        ``usage_start``  shape (v + 1,): value k of variable i uses, in w spans of time, the memory
        ``usage``        ``usage[usage_start[i] + k * w:][:w]``
        ``keep``         shape (v,): variables to be left alone
        """
        value = np.ones(len(cost), dtype=np.int8)
        columns = (_in(cost), _in(usage_start), _in(usage), _in(keep.astype(np.int8)))
        _check(lib.shard_dominate(self.struct, *columns, _out(value)))
        return value.astype(bool)

    def followers(self, cost: Longs, usage_start: Longs, usage: Longs, keep: NDArray[np.bool_]) -> tuple[Longs, Longs]:
        """``(follow, choice)``: variables of one pair whose best value is a function of the other end's; see above.

        ``follow``  shape (v,): the other end, which follows nobody, or -1
        ``choice``  shape (message[-1],): at the values of the end that is followed, the value that goes with each
        """
        follow = np.empty(len(self.start) - 1, dtype=np.int64)
        choice = np.full(int(self.message[-1]), -1, dtype=np.int64)
        columns = (_in(cost), _in(usage_start), _in(usage), _in(keep.astype(np.int8)))
        _check(lib.shard_follow(self.struct, *columns, _out(follow), _out(choice)))
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
        self.cost = np.where(_shaped(cost, (int(start[-1]),)) < top, cost, NEVER)
        self._sent = np.zeros(int(self.message[-1]), dtype=np.int64)
        self._cells = len(cell)

    def sweep(self, count: int) -> None:
        """Raise ``bound`` by so many passes over all variables, there and back."""
        bound = ffi.new("int64_t *", self.bound)
        _check(lib.shard_messages(self.struct, self.top, count, _out(self.cost), _out(self._sent), bound))
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
        self._sent = _shaped(message, self._sent.shape).copy()
        _check(lib.shard_adopt(self.struct, self.top, _out(self.cost), _out(self._sent), constant))
        self.bound = constant[0]

    def prune(self, top: int | None = None) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """``(values, cells)``, shapes (rows,) and (cells,): what an assignment below ``top`` may contain.

        ``top`` may be lower than the network's own, but is above ``bound``.
        """
        top = self.top if top is None else top
        values, cells = np.empty(len(self.cost), dtype=np.int8), np.empty(self._cells, dtype=np.int8)
        columns = _in(self.cost), _in(self._sent), self.bound, _out(values), _out(cells)
        _check(lib.shard_prune(self.struct, top, *columns))
        return values.astype(bool), cells.astype(bool)


class Effort(NamedTuple):
    """How large a neighbourhood is: variables, cells of a table that is eliminated, cells of all its tables."""

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
        cell = _floats(cell, (int(cell_start[-1]),))
        left, right = ([_in(np.ascontiguousarray(column, dtype=np.int64)) for column in part] for part in longs)
        self._columns = [
            _in(np.ascontiguousarray(start)),
            _in(_floats(cost, (int(start[-1]),))),
            *left,
            _in(cell),
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
            _floats(price, (self.rows,)),
            _shaped(value, (self.variables,)),
            _shaped(load, (self.steps,)),
        )
        columns = _out(random), _out(value), _out(load), gain
        _check(lib.shard_blocks(self._struct, _in(price), size, width, cells, work, *columns))
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
        _check(lib.shard_soft_tables(network.struct, _in(self._place), _out(self._table)))

    def sweep(self, count: int, softness: float) -> None:
        """Pass messages so many times over all variables, there and back."""
        columns = (_out(self.cost), _out(self.message), _out(self.belief))
        _check(lib.shard_soften(self._network.struct, _in(self._place), _in(self._table), count, softness, *columns))

    def round(self) -> Longs:
        """A value for every variable, shape (v,), chosen one after the other by what messages say of those to come."""
        value = np.zeros(len(self._network.start) - 1, dtype=np.int64)
        _check(lib.shard_round(self._network.struct, _in(self.cost), _in(self.message), _out(value)))
        return value


@dataclass(frozen=True)
class Ideals:
    """All ideals of a graph, subsets first; the first one is empty, the last one is the whole graph.

    ``start``  shape (ideals + 1,), int64: the maximal nodes of ideal i are ``node[start[i]:start[i + 1]]``, ascending
    ``node``   shape (links,), int32
    ``less``   shape (links,), int32: the ideal without that node
    """

    start: Longs
    node: Index
    less: Index

    def __len__(self) -> int:
        return len(self.start) - 1


class IdealsCore:
    """The ideals of a graph whose edges lead to greater numbers, else ValueError; see ``ideals.h``.

    ``stop``  shape (1,), int32: made 1 by another thread, it ends counting and listing with what has been found
    """

    def __init__(self, graph: Graph, stop: Index) -> None:
        self._columns = [_in(column) for column in (*graph.out_csr, *graph.in_csr)]
        self._order = ffi.new("struct shard_order *", (graph.nodes, *self._columns))
        self._stop = _in(_shaped(stop, (1,)))

    def count(self, most: int, most_links: int) -> tuple[int, int]:
        """Numbers of ideals and of their maximal nodes, both as far as neither exceeds what is allowed by much."""
        ideals, links = ffi.new("int64_t *"), ffi.new("int64_t *")
        _check(lib.shard_count_ideals(self._order, most, most_links, self._stop, ideals, links))
        return ideals[0], links[0]

    def list(self, count: int, links: int) -> Ideals:
        """The ideals, of these numbers, below 2^31; only the first ones if stopped."""
        listed = ffi.new("int64_t *")
        start = np.empty(count + 1, dtype=np.int64)
        node, less = np.empty(links, dtype=np.int32), np.empty(links, dtype=np.int32)
        columns = _out(start), _out(node), _out(less)
        _check(lib.shard_list_ideals(self._order, count, self._stop, listed, *columns))
        end = int(start[listed[0]])
        return Ideals(start[: listed[0] + 1], node[:end], less[:end])


@dataclass(frozen=True)
class Nets:
    """Sets of nodes; an accelerator pays for each of which it has some nodes and not all.

    ``start``    shape (n + 1,), int64: node v is on the nets ``of[start[v]:start[v + 1]]``
    ``of``       shape (pins,), int32
    ``cost``     shape (nets,), float64
    ``members``  shape (nets,), int32: number of nodes
    """

    start: Longs
    of: Index
    cost: Floats
    members: Index


@dataclass(frozen=True)
class Devices:
    """Numbers of accelerators, with memory, and of CPUs, and what nodes cost on them: arrays of shape (n,), float64.

    ``accelerator_time`` is infinite where a node is not supported.
    """

    accelerators: int
    cpus: int
    memory: float
    accelerator_time: Floats
    cpu_time: Floats
    size: Floats
    nets: Nets

    @property
    def row_bytes(self) -> int:
        """Bytes that `IdealSplitter.plain` takes for an ideal, beside those for its links."""
        return 12 * (self.accelerators + 1) * (self.cpus + 1) + 16


@dataclass(frozen=True)
class Sharing:
    """What loads are made of beyond their sums (Tarnawski et al. 2020, Appendix H).

    ``maker``      shape (nets,), int32: the node that makes each net's tensor
    ``overlap``    "none", "half" or "full"
    ``bandwidth``  size per time at which the devices of a stage synchronise; 0 if a stage has one
    """

    maker: Index
    overlap: str
    bandwidth: float


@dataclass(frozen=True)
class Clusters:
    """So many clusters of as many accelerators as `Devices` has, and one of ``rest``, if that is not 0."""

    equal: int
    rest: int
    slowdown: float


@dataclass(frozen=True)
class IdealSplit:
    """A chain of ideals, each one's nodes without those of the next one on a stage of their own.

    ``cost``      the greatest load
    ``device``    shape (n,), int32: accelerators 0, 1, ..., then CPUs; the first one of a node's stage
    ``replicas``  shape (n,), int32: devices of a node's stage
    ``pairs``     pairs of ideals that were looked at
    """

    cost: float
    device: Index
    replicas: Index
    pairs: int


class IdealSplitter:
    """The best splits of a graph along chains of its ideals; see ``ideals_split.h`` and ``ideals_stages.h``.

    ``stop``    shape (1,), int32: ends a search soon after another thread makes it 1
    """

    def __init__(self, devices: Devices, ideals: Ideals, stop: Index) -> None:
        self._struct, self._columns = _struct_of(devices)  # of which the latter have to stay alive
        self._devices, self._ideals, self._stop = devices, ideals, _shaped(stop, (1,))
        self._rows = (devices.accelerators + 1) * (devices.cpus + 1) * len(ideals)

    def plain(self, limit: float, relief: Floats) -> IdealSplit | None:
        """The best split whose loads are below ``limit``; None if there is none, or if stopped.

        ``relief``  shape (cpus + 1,): the accelerator time of all supported nodes that 0, 1, ... CPUs can take over at
                    most with loads below the limit
        """
        return self._split(lib.shard_split_ideals, (), limit, relief, (), ())

    def shared(self, sharing: Sharing, limit: float, relief: Floats) -> IdealSplit | None:
        """The same with loads as ``sharing`` has them."""
        replicas = np.ones(len(self._devices.size), dtype=np.int32)
        share = np.empty(self._rows if sharing.bandwidth else 0, dtype=np.int32)
        struct, _maker = self._sharing(sharing)
        found = self._split(lib.shard_split_stages, (struct,), limit, relief, (_out(share),), (_out(replicas),))
        return None if found is None else dataclasses.replace(found, replicas=replicas)

    def clustered(self, sharing: Sharing, clusters: Clusters, limit: float, relief: Floats) -> IdealSplit | None:
        """The same with each cluster on a part of the chain, its devices numbered one after the other."""
        outer = np.empty(len(self._ideals) * (self._devices.cpus + 1) * (clusters.equal + 1) * 2)
        struct, _maker = self._sharing(sharing)
        given = struct, ffi.new("struct shard_clusters *", dataclasses.astuple(clusters))
        return self._split(lib.shard_split_clusters, given, limit, relief, (_out(outer),), ())

    def _sharing(self, sharing: Sharing) -> tuple[Any, Any]:
        overlap = getattr(lib, f"SHARD_OVERLAP_{sharing.overlap.upper()}")
        maker = _in(_shaped(sharing.maker, (len(self._devices.nets.cost),)))
        return ffi.new("struct shard_sharing *", (maker, overlap, sharing.bandwidth)), maker

    def _split(
        self, kernel: Any, given: tuple[Any, ...], limit: float, relief: Floats, scratch: Any, more: Any
    ) -> IdealSplit | None:
        devices, ideals = self._devices, self._ideals
        best, cost, device = np.empty(self._rows), np.empty(1), np.empty(len(devices.size), np.int32)
        pairs, relief = ffi.new("int64_t *"), _floats(relief, (devices.cpus + 1,))
        links = len(ideals), _in(ideals.start), _in(ideals.node), _in(ideals.less)
        found = _out(cost), _out(device), *more, pairs
        _check(kernel(self._struct, *given, *links, limit, _in(relief), _in(self._stop), _out(best), *scratch, *found))
        if not math.isfinite(cost[0]):
            return None
        return IdealSplit(float(cost[0]), device, np.ones_like(device), pairs[0])


@dataclass(frozen=True, eq=False)
class IdealTasks:
    """What is scheduled along chains of ideals: nodes on CPUs and sets of nodes on accelerators.

    ``accelerators``      each takes one set of whole units; -1: any number of sets, of any nodes
    ``memory``            that the units of the nodes of a set fit
    ``accelerator_time``  shape (n,): infinite where not supported; ``cpu_time``: infinite where there are no CPUs
    ``tail``              shape (n,): from when a node begins to when all end, at least
    ``unit``              shape (n,), int32: the unit of each node; ``size``: shape (units,)
    ``transfer``          shape (tensors,): time to move each
    ``made``              shape (n + 1,), int64: node v makes the tensors ``made[v]`` to ``made[v + 1] - 1``
    ``reader_start``      shape (tensors + 1,), int64: the nodes ``reader[reader_start[t]:reader_start[t + 1]]``, int32,
                          read tensor t, none twice, nor its maker
    """

    accelerators: int
    memory: float
    accelerator_time: Floats
    cpu_time: Floats
    tail: Floats
    unit: Index
    size: Floats
    transfer: Floats
    made: Longs
    reader_start: Longs
    reader: Index


def schedule_ideals(
    graph: Graph, tasks: IdealTasks, ideals: Ideals, limit: float, most: int, stop: Index
) -> tuple[float, Index]:
    """When the first schedule along a chain of ideals ends, and the set of each node, shape (n,), -1 on CPUs.

    Infinite if none ends before ``limit``, NaN if ``stop``, shape (1,), int32, has ended it; MemoryError beyond
    ``most`` bytes. See ``ideals_schedule.h``.
    """
    owner = np.repeat(np.arange(len(tasks.transfer), dtype=np.int32), np.diff(tasks.reader_start))
    columns: list[NDArray[Any]] = [
        *(tasks.accelerator_time, tasks.cpu_time, tasks.tail, tasks.unit),
        np.bincount(tasks.unit, minlength=len(tasks.size)).astype(np.int32),
        *(tasks.size, tasks.transfer, tasks.made, *csr(graph.nodes, tasks.reader, owner)),
        *(tasks.reader_start, tasks.reader),
    ]
    edges = [_in(column) for column in (*graph.out_csr, *graph.in_csr)]
    order = ffi.new("struct shard_order *", (graph.nodes, *edges))
    scalars = len(tasks.transfer), len(tasks.size), tasks.accelerators, tasks.memory
    struct = ffi.new("struct shard_tasks *", (*scalars, *[_in(column) for column in columns]))
    end, chosen = np.empty(1), np.full(graph.nodes, -1, dtype=np.int32)
    links = len(ideals), _in(ideals.start), _in(ideals.node), _in(ideals.less)
    found = _out(end), _out(chosen)
    _check(lib.shard_schedule_ideals(order, struct, *links, limit, most, _in(_shaped(stop, (1,))), *found))
    return float(end[0]), chosen


@dataclass(frozen=True)
class Cooling:
    """How to anneal a placement; the energy is what devices take longer than a target, summed.

    ``moves``      moves to try
    ``hot, cold``  temperatures at the first and at the last move, in the unit of loads, > 0
    ``margin``     the target is the least greatest load so far less this share, at least 0 and below 1
    ``squared``    whether the excesses are squared, and divided by the target
    """

    moves: int
    hot: float
    cold: float
    margin: float
    squared: bool


@dataclass(frozen=True, eq=False)
class Rules:
    """How times of devices become loads, and whether devices follow one another; see ``placing.h``.

    ``overlap``    0, 1 or 2: none, half, full
    ``cluster``    accelerators of a cluster; 0: all
    ``slowdown``   what transfers between clusters take longer, at least 1
    ``maker``      shape (nets,), int32: the node that makes each net; all -1 if it does not matter who does
    ``passed``     shape (nets,), int32: 1 of the backward pass, else 0; None if loads are of both passes
    ``backward``   what nodes take for the backward pass on accelerators, and on CPUs, each of shape (n,), float64; None
                   if loads are of both passes
    ``order``      nodes with an edge between them are on one device, or on one and a later one; None: no matter
    """

    overlap: int
    cluster: int
    slowdown: float
    maker: Index
    passed: Index | None = None
    backward: tuple[Floats, Floats] | None = None
    order: Graph | None = None

    @property
    def passes(self) -> int:
        """Loads of a device."""
        return 1 if self.backward is None else 2


class Placing:
    """A placement that searches change; every call releases the interpreter lock. See ``placing.h``.

    ``device``  shape (n,), int32: where it is now; accelerators 0, 1, ..., then CPUs
    ``best``    shape (n,), int32: the best placement so far, and ``cost`` the sum of its greatest loads, infinite at
                first
    ``load``    shape (accelerators + cpus, passes): of each device, by ``device``, after `anneal`
    """

    def __init__(self, devices: Devices, rules: Rules, device: Index, seed: int) -> None:
        """Begin with a placement that supports, memories and order allow.

        ``seed``, 0 to 2^64 - 1, is of random numbers.
        """
        count, n = devices.accelerators + devices.cpus, len(devices.size)
        if n and not 0 <= device.min() <= device.max() < count:
            raise ValueError(f"expected devices 0 to {count - 1}")
        self.device, self.best = _shaped(device, (n,)).astype(np.int32), np.zeros(n, dtype=np.int32)
        self.cost, self.load = math.inf, np.zeros((count, rules.passes))
        self._struct, self._columns = _struct_of(devices)
        self._rules, self._more_columns = _struct_of_rules(devices, rules)
        self._rank = _ranks(count, self.device, rules.order)
        self._random = np.array([seed], dtype=np.uint64)

    def anneal(self, cooling: Cooling) -> None:
        """Try so many moves of nodes, alone or together, and swaps."""
        options, cost = ffi.new("struct shard_cooling *", dataclasses.astuple(cooling)), ffi.new("double *", self.cost)
        columns = _out(self._random), _out(self._rank), _out(self.device), _out(self.best), cost, _out(self.load)
        _check(lib.shard_place(self._struct, self._rules, options, *columns))
        self.cost = cost[0]

    def weigh(self) -> None:
        """Take the placement for the best one if it is better."""
        self.anneal(Cooling(moves=0, hot=1.0, cold=1.0, margin=0.0, squared=False))

    def descend(self, steps: int) -> bool:
        """Make at most so many of the best moves of a node between accelerators; whether it has made them all.

        The placement is taken for the best one. For rules of one pass without clusters and order, else ValueError.
        """
        if self._rules.passes > 1 or self._rules.cluster or self._rules.ordered:
            raise ValueError("expected rules of one pass without clusters and order")
        cost, made = ffi.new("double *"), ffi.new("int64_t *")
        _check(lib.shard_descend(self._struct, self._rules, steps, _out(self.device), cost, made))
        self.cost, self.best = cost[0], self.device.copy()
        return bool(made[0] == steps)


def _ranks(count: int, device: Index, order: Graph | None) -> Index:
    """Places of devices that follow one another as edges do, shape (count,), int32; ValueError if none do."""
    rank = np.arange(count, dtype=np.int32)
    if order is not None:
        ends = np.unique(np.column_stack([device[order.tail], device[order.head]]), axis=0)
        ends = ends[ends[:, 0] != ends[:, 1]]
        if find_cycle(count, *ends.T):
            raise ValueError("expected devices that follow one another")
        rank[Graph(count, *ends.T).topological_order] = np.arange(count)
    return rank


def _struct_of_rules(devices: Devices, rules: Rules) -> tuple[Any, list[Any]]:
    """Rules as the core sees them, and what has to stay alive as long as that."""
    n, nets = len(devices.size), len(devices.nets.cost)
    passed = np.zeros(nets, dtype=np.int32) if rules.passed is None else rules.passed
    backward = rules.backward or (np.zeros(0), np.zeros(0))
    order = rules.order or Graph(n, np.zeros(0, dtype=np.int32), np.zeros(0, dtype=np.int32))
    columns = [_shaped(rules.maker, (nets,)), _shaped(passed, (nets,)), *backward, *order.out_csr, *order.in_csr]
    pointers = [_in(column) for column in columns]
    loads = rules.overlap, rules.passes, rules.cluster, rules.slowdown
    ordered = int(rules.order is not None)
    return ffi.new("struct shard_rules *", (*loads, *pointers[:4], ordered, *pointers[4:])), pointers


@dataclass(frozen=True)
class Execution:
    """One iteration of a data flow graph on its devices.

    ``makespan``   when the last vertex has finished; infinite if some wait for each other and never run
    ``start``      shape (n,), ``finish`` the same: times of each vertex, infinite for those that never run
    ``arrival``    shape (m,): when the tensor of each edge is where it is read
    ``sequence``   shape (n,) or less, int32: the vertices as they start
    """

    makespan: float
    start: Floats
    finish: Floats
    arrival: Floats
    sequence: Index


class Simulator:
    """Runs the vertices of an instance on their devices; see ``simulate.h``.

    Everywhere ``device`` has shape (n,), and ``rank``, shape (n,), decides between equals, the least first; by default
    that is the number of the vertex.
    """

    LINKS: ClassVar = {"independent": lib.SHARD_INDEPENDENT, "queue": lib.SHARD_QUEUE, "share": lib.SHARD_SHARE}

    def __init__(self, system: System) -> None:
        graph = system.graph
        self._by_tail = np.argsort(graph.tail, kind="stable")
        self._numbers = np.arange(system.nodes, dtype=np.int32)
        floats = [system.size[self._by_tail], system.complexity, system.speed, system.bandwidth.ravel()]
        columns: list[NDArray[Any]] = [*graph.out_csr, *floats]
        self._columns = [_in(column) for column in columns]
        sizes = system.nodes, system.devices
        self._system = ffi.new("struct shard_system *", (*sizes, *self._columns, self.LINKS[system.links]))
        self.instance = system

    def in_order(self, device: ArrayLike, order: ArrayLike) -> Execution:
        """Each device runs its vertices as they stand in ``order``, shape (n,): those of device 0, then of 1, ..."""
        return self._run(device, lib.SHARD_IN_ORDER, order=order)

    def by_priority(self, device: ArrayLike, priority: ArrayLike, rank: ArrayLike | None = None) -> Execution:
        """An idle device starts the executable vertex of the greatest priority, shape (n,); or the longest one."""
        return self._run(device, lib.SHARD_BY_PRIORITY, priority=priority, rank=rank)

    def by_successors(self, device: ArrayLike, weights: ArrayLike, rank: ArrayLike | None = None) -> Execution:
        """An idle device starts the vertex of the greatest score of Equation (13), ``weights`` alpha to delta."""
        return self._run(device, lib.SHARD_BY_SUCCESSORS, weights=weights, rank=rank)

    def heft(self, order: Index) -> Index:
        """The device of each vertex, shape (n,), in a topological order each where it finishes earliest: ``heft.h``."""
        n = len(self._numbers)
        device = np.full(n, -1, dtype=np.int32)
        groups, _columns = self._groups()
        _check(lib.shard_heft(self._system, groups, _in(self._column(order, n)), _out(device), _out(np.empty(n))))
        return device

    def earliest(self, order: Index, window: int) -> Floats:
        """A time before which no schedule starts each vertex on each device, shape (n, k): ``earliest.h``."""
        start = np.empty((len(self._numbers), self.instance.devices))
        groups, _columns = self._groups()
        first = _in(self._column(order, len(self._numbers)))
        _check(lib.shard_earliest(self._system, groups, first, window, _out(start)))
        return start

    def _groups(self) -> tuple[Any, list[Any]]:
        """What vertices read and what must share a device, as the core sees it, and what has to stay alive as long."""
        instance, choices = self.instance, self.instance.unit_choices
        graph, units = instance.graph, len(instance.unit_choice)
        inputs = self._by_tail[np.argsort(graph.head[self._by_tail], kind="stable")]
        listed = np.concatenate([*choices, np.zeros(0)]).astype(np.int32)
        read = np.bincount(instance.unit[graph.head], weights=instance.size, minlength=units)
        columns: list[NDArray[Any]] = [
            graph.in_csr[0],
            graph.tail[inputs],
            instance.size[inputs],
            instance.unit.astype(np.int32),
            instance.unit_choice.astype(np.int32),
            np.cumsum([0, *map(len, choices)], dtype=np.int64),
            listed,
            _floats(read, (units,)),
            instance.memory,
        ]
        pointers = [_in(column) for column in columns]
        return ffi.new("struct shard_groups *", pointers), pointers

    def _run(
        self,
        device: ArrayLike,
        rule: int,
        *,
        order: ArrayLike | None = None,
        priority: ArrayLike | None = None,
        rank: ArrayLike | None = None,
        weights: ArrayLike = (0, 0, 0, 0),
    ) -> Execution:
        n, m = len(self._numbers), len(self._by_tail)
        where = self._column(device, self.instance.devices)
        order = self._numbers if order is None else self._column(order, n)
        rank = self._numbers if rank is None else self._column(rank, None)
        keys = _in(order), _in(_floats(np.zeros(n) if priority is None else priority, (n,))), _in(rank)
        choice = ffi.new("struct shard_choice *", (rule, *keys, _floats(weights, (4,)).tolist()))
        start, finish, arrival, sequence = np.empty(n), np.empty(n), np.empty(m), np.empty(n, np.int32)
        ran = ffi.new("int32_t *")
        columns = (_out(column) for column in (start, finish, arrival, sequence))
        _check(lib.shard_simulate(self._system, choice, _in(where), *columns, ran))
        of_edges = np.empty(m)
        of_edges[self._by_tail] = arrival
        makespan = float(finish.max(initial=0.0)) if ran[0] == n else math.inf
        return Execution(makespan, start, finish, of_edges, sequence[: ran[0]])

    def _column(self, values: ArrayLike, below: int | None) -> Index:
        """A column of numbers, one a vertex; ValueError if one is negative or not ``below`` a limit."""
        column = _shaped(np.ascontiguousarray(values, dtype=np.int32), self._numbers.shape)
        if below is not None and len(column) and not 0 <= column.min() <= column.max() < below:
            raise ValueError(f"expected numbers from 0 to {below - 1}")
        return column


class Rearranging:
    """A partition and priorities that a search improves; every call releases the interpreter lock: ``rearrange.h``.

    ``best_device, best_priority``  shape (n,), int32 and float64: the best so far, and ``best`` its makespan
    """

    def __init__(self, simulator: Simulator, device: ArrayLike, priority: ArrayLike, seed: int) -> None:
        n = simulator.instance.nodes
        self.device = _shaped(np.array(device, dtype=np.int32), (n,))
        self.priority = _floats(np.array(priority), (n,))
        self.best_device, self.best_priority, self.best = self.device.copy(), self.priority.copy(), math.inf
        self._simulator, (self._groups, self._columns) = simulator, simulator._groups()
        self._random = np.array([seed], dtype=np.uint64)

    def search(self, moves: int, temperature: float) -> None:
        """Try so many moves; longer makespans are accepted by their difference over ``temperature``."""
        makespan, best = ffi.new("double *", math.inf), ffi.new("double *", self.best)
        now = _out(self._random), _out(self.device), _out(self.priority), makespan
        found = _out(self.best_device), _out(self.best_priority), best
        _check(lib.shard_rearrange(self._simulator._system, self._groups, moves, temperature, *now, *found))
        self.best = best[0]


def _struct_of(devices: Devices) -> tuple[Any, list[Any]]:
    """Devices as the core sees them, and what has to stay alive as long as that."""
    n, nets = len(devices.size), devices.nets
    times = (_floats(column, (n,)) for column in (devices.accelerator_time, devices.cpu_time, devices.size))
    columns: list[NDArray[Any]] = [*times, nets.start, nets.of, nets.cost, nets.members]
    pointers = [_in(column) for column in columns]
    sizes = (n, len(nets.cost), devices.accelerators, devices.cpus)
    return ffi.new("struct shard_devices *", (*sizes, devices.memory, *pointers)), pointers


def anchor(nets: Nets, cost: Longs, work: Longs, floor: int, stop: Index) -> Longs:
    """What the cheapest set with each node costs, shape (n,), where that is more than ``floor``; else 0.

    A set costs the ``work`` of its nodes, shape (n,), int64, -1 where no set may have the node, and the ``cost``, shape
    (nets,), int64, of each net of which it has some nodes and not all, instead of ``nets.cost``; all together at most
    2^50. ``stop``, shape (1,), int32, ends the search soon after another thread makes it 1: what is not known then is
    0. See ``anchor.h``.
    """
    n, columns = len(work), (nets.start, nets.of, nets.members, _shaped(cost, (len(nets.cost),)), work)
    pointers = [_in(column) for column in columns]
    graph, cuts = ffi.new("struct shard_hypergraph *", (n, len(nets.cost), *pointers)), ffi.new("int64_t *")
    least = np.zeros(n, dtype=np.int64)
    _check(lib.shard_anchor(graph, floor, _in(_shaped(stop, (1,))), _out(least), cuts))
    return least


@dataclass(frozen=True)
class Tasks:
    """What calls of accelerators and a pool of CPUs are to do; see ``struct shard_workload`` in ``invoking.h``.

    ``many``              whether an accelerator has any number of calls, or one, or one of either pass
    ``memory``            of each of the ``accelerators``
    ``fee``               added to the latency for every node of the pool
    ``graph``             n nodes, each waits for those before it
    ``unit``              shape (n,): nodes of a number, 0 to u - 1, share a device
    ``backward``          shape (n,), bool
    ``accelerator_time``  shape (n,); infinite for all nodes of a unit that must be in the pool
    ``cpu_time``          shape (n,)
    ``size``              shape (u,)
    ``maker``             shape (nets,), ascending: the node that makes each net
    ``transfer``          shape (nets,): time to move each
    ``net, reader``       shape (pins,): a node that reads a net, by nets
    """

    many: bool
    accelerators: int
    memory: float
    fee: float
    graph: Graph
    unit: Longs
    backward: NDArray[np.bool_]
    accelerator_time: Floats
    cpu_time: Floats
    size: Floats
    maker: Longs
    transfer: Floats
    net: Longs
    reader: Index

    @property
    def calls(self) -> int:
        """Most calls at a time."""
        return self.graph.nodes + 1 if self.many else 2 * self.accelerators

    @cached_property
    def ahead(self) -> Floats:
        """Shape (n,): least time from when each node can begin to the end of all."""
        start, head = (column.tolist() for column in self.graph.out_csr)
        least = np.minimum(self.accelerator_time, self.cpu_time).tolist()
        for v in self.graph.topological_order[::-1].tolist():
            least[v] += max((least[w] for w in head[start[v] : start[v + 1]]), default=0.0)
        return np.array(least) * (1 - 1e-12)  # sums of another order may be less

    @cached_property
    def core(self) -> tuple[Any, list[Any]]:
        """These tasks as the core sees them, and what has to stay alive as long as that."""
        n, units, nets = self.graph.nodes, len(self.size), len(self.transfer)
        columns: list[NDArray[Any]] = [
            self.unit.astype(np.int32),
            self.backward.astype(np.int32),
            *(_floats(column, (n,)) for column in (self.accelerator_time, self.cpu_time, self.ahead)),
            *self.graph.in_csr,
            *self.graph.out_csr,
            csr(n, self.maker, self.maker)[0],
            _floats(self.transfer, (nets,)),
            *csr(nets, self.net, self.reader),
            *csr(n, self.reader, self.net.astype(np.int32)),
            _floats(self.size, (units,)),
            *csr(units, self.unit, np.arange(n, dtype=np.int32)),
        ]
        pointers = [_in(column) for column in columns]
        sizes = n, units, nets, self.accelerators, self.calls, self.many, self.memory, self.fee
        return ffi.new("struct shard_workload *", (*sizes, *pointers)), pointers


@dataclass(frozen=True)
class Invocation:
    """A placement for `Tasks`; see ``struct shard_invocation`` in ``invoking.h``.

    ``call``   shape (n,), int32: the call of each node, -1 in the pool
    ``owner``  shape (calls,), int32: the accelerator of each call
    ``delay``  shape (calls,): of calls that wait for an accelerator that goes first which is ready soonest, this added
    ``mixed``  shape (accelerators,), int32: whether both passes are in one call, where there are not many
    """

    call: Index
    owner: Index
    delay: Floats
    mixed: Index

    def copy(self) -> Invocation:
        """The same in other arrays."""
        return Invocation(*(column.copy() for column in vars(self).values()))


@dataclass(frozen=True)
class Schedule:
    """When what a placement has ends.

    ``cost``    latency and fees
    ``finish``  shape (n,)
    ``turn``    shape (n,), int32: the place of each node's call in the order in which calls begin, -1 in the pool
    """

    cost: float
    finish: Floats
    turn: Index


@dataclass(frozen=True)
class Chill:
    """How to anneal a placement for latency; the energy is the latency, and the mean end of the nodes with a weight.

    ``moves``      moves to try
    ``hot, cold``  temperatures at the first and at the last move, in the unit of times, > 0
    ``calm``       weight of the mean end, at least 0
    """

    moves: int
    hot: float
    cold: float
    calm: float


class Invoking:
    """A placement whose latency moves lessen; every call releases the interpreter lock. See ``invoking.h``.

    ``now``   where it is now
    ``best``  the best placement so far, and ``cost`` its latency and fees, infinite at first
    """

    def __init__(self, tasks: Tasks, now: Invocation, seed: int) -> None:
        """Begin with a placement that memories allow; ``seed``, 0 to 2^64 - 1, is of random numbers."""
        self.now, self.best, self.cost = now.copy(), now.copy(), math.inf
        self._tasks, self._random = tasks, np.array([seed], dtype=np.uint64)

    def anneal(self, chill: Chill) -> None:
        """Try so many moves of nodes, alone or together, and of calls."""
        options, cost = ffi.new("struct shard_chill *", dataclasses.astuple(chill)), ffi.new("double *", self.cost)
        placements = _invocation_of(self.now), _invocation_of(self.best)
        _check(lib.shard_invoke(self._tasks.core[0], options, _out(self._random), *placements, cost))
        self.cost = cost[0]


def schedule(tasks: Tasks, placement: Invocation) -> Schedule | None:
    """When everything ends; None if calls wait for one another."""
    n = tasks.graph.nodes
    finish, turn, cost = np.zeros(n), np.zeros(n, dtype=np.int32), np.zeros(1)
    status = lib.shard_schedule(tasks.core[0], _invocation_of(placement), _out(finish), _out(turn), _out(cost))
    if status == lib.SHARD_CYCLE:
        return None
    _check(status)
    return Schedule(float(cost[0]), finish, turn)


def _invocation_of(placement: Invocation) -> Any:
    return ffi.new("struct shard_invocation *", [_out(column) for column in vars(placement).values()])


def _filled(count: Longs) -> Longs:
    """Rounded up to the number of values that the core computes side by side."""
    return (count + 7) // 8 * 8


def _floats(values: ArrayLike, shape: tuple[int, ...]) -> Floats:
    return _shaped(np.ascontiguousarray(values, dtype=np.float64), shape)


def _shaped(array: NDArray[Any], shape: tuple[int, ...]) -> NDArray[Any]:
    if array.shape != shape:
        raise ValueError(f"expected an array of shape {shape}, found {array.shape}")
    return array


_POINTER = {
    np.dtype(np.int8): "int8_t[]",
    np.dtype(np.int32): "int32_t[]",
    np.dtype(np.int64): "int64_t[]",
    np.dtype(np.uint64): "uint64_t[]",
    np.dtype(np.float32): "float[]",
    np.dtype(np.float64): "double[]",
}


def _in(array: NDArray[Any]) -> Any:
    return ffi.from_buffer(_POINTER[array.dtype], array)


def _out(array: NDArray[Any]) -> Any:
    return ffi.from_buffer(_POINTER[array.dtype], array, require_writable=True)


def _check(status: int) -> None:
    if status == lib.SHARD_NO_MEMORY:
        raise MemoryError("the compiled core could not allocate its workspace")
    if status != lib.SHARD_OK:
        raise ValueError(_REASONS[status])
