"""Cells of positions, and what is certain of the ideals in each."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shardmark.instances.files.columns import Floats, Ints
from shardmark.instances.graph import Index
from shardmark.solvers.hybrid.positions.order import Order
from shardmark.solvers.native import array_in, array_out, check, ffi, lib

#: Sum of all prices, at most so many.
TOTAL = 2**28


@dataclass(frozen=True, eq=False)
class Cells:
    """Positions from 0 to the sum of all prices, in ascending intervals, and the ideals of narrow blocks.

    An ideal that is the end of a block, or one of few in a block, has a cell of its own.

    ``price``  shape (n,), int64, positive, in the numbers of the order
    ``low`` ``high``  shape (cells,), int64: first and last position
    ``cell`` ``member``  shape (members,), int64: the nodes of ideals in cells of their own, besides earlier blocks
    ``listed`` shape (cells,), bool: the cell is that of one ideal
    ``span``   shape (spans,), int64: distances of two cells for which transfers are known, ascending from 0
    """

    order: Order
    price: Ints
    low: Ints
    high: Ints
    cell: Ints
    member: Ints
    listed: NDArray[np.bool_]
    span: Ints

    @staticmethod
    def of(order: Order, price: Floats, count: int, span: Floats) -> Cells:
        """Cells for prices in proportion to ``price``, rounded to integers; about ``count`` for wide blocks.

        ``span`` gives distances as shares of the sum.
        """
        share = np.minimum(price, 1e300) / max(float(price.max()), 1e-300)
        whole = np.maximum(share / max(float(share.sum()), 1.0) * TOTAL, 1).astype(np.int64)
        build = _Builder(order, whole, count)
        spans = np.unique((np.append(0, span) * int(whole.sum())).astype(np.int64))
        return Cells(order, whole, *build.columns(), spans)

    def __len__(self) -> int:
        return len(self.low)

    @property
    def widest(self) -> float:
        """Greatest share of the prices in a block of many ideals."""
        sums = [self.price[block].sum() for block, ideals in self.order.blocks if ideals is None]
        return float(max(sums, default=0) / self.high[-1])

    @cached_property
    def certain(self) -> tuple[Ints, Ints]:
        """See `Order.certain`."""
        return self.order.certain(self.price)

    @cached_property
    def columns(self) -> list[NDArray[Any]]:
        """The arrays of the struct."""
        since, until = self.certain
        settled = np.argsort(since, kind="stable")
        counts = np.searchsorted(since[settled], self.low, side="right")
        places = settled.astype(np.int32), counts.astype(np.int32)
        return [self.price, self.low, self.high, *places, *self._open(since, until), self.span]

    def _open(self, since: Ints, until: Ints) -> tuple[Ints, Index]:
        """The nodes that an ideal of each cell may have or not, or that the only one has, but not all of others."""
        # Node v is open in the cells with low < since[v] and high > until[v].
        first = np.searchsorted(self.high, until, side="right")
        lengths = np.maximum(np.searchsorted(self.low, since, side="left") - first, 0)
        node = np.repeat(np.arange(len(since)), lengths)
        cell = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths) + first[node]
        wide, own = ~self.listed[cell], since[self.member] > self.low[self.cell]
        cell, node = np.append(cell[wide], self.cell[own]), np.append(node[wide], self.member[own])
        start = np.concatenate([[0], np.cumsum(np.bincount(cell, minlength=len(self)))])
        return start, node[np.argsort(cell, kind="stable")].astype(np.int32)

    @cached_property
    def struct(self) -> Any:
        """The cells for the kernels."""
        price, low, high, settled, counts, start, nodes, span = (array_in(column) for column in self.columns)
        counted = (
            (len(self.price), price),
            (len(self), low, high, settled, counts, start, nodes),
            (len(self.span), span),
        )
        return ffi.new("struct shard_cells *", sum(counted, ()))

    def borders(self, leaving: Floats, entering: Floats) -> tuple[Floats, Floats]:
        """Least seconds of transfers on either side of each cell, shape (spans, cells); given those of edges."""
        found = np.empty((2, len(self.span), len(self)))
        since, until = self.certain
        graph = self.order.graph
        given = [array_in(column) for column in (graph.tail, graph.head, since, until, leaving, entering)]
        sides = array_out(found[0]), array_out(found[1])
        check(lib.shard_hybrid_borders(self.struct, graph.edges, *given, *sides))
        return found[0], found[1]


class _Builder:
    """Collects cells block by block."""

    def __init__(self, order: Order, price: Ints, count: int) -> None:
        self.price = price
        self.per_price = count / int(price.sum())
        self.low: list[Ints] = []
        self.high: list[Ints] = []
        self.cell: list[Ints] = [np.empty(0, dtype=np.int64)]
        self.member: list[Ints] = [np.empty(0, dtype=np.int64)]
        self.listed: list[bool] = []
        blocks = iter(order.blocks)
        ends = np.append(0, np.cumsum(price))[order.start]
        for i, nodes in enumerate(np.diff(order.start).tolist()):
            self._add(ends[i : i + 1], ends[i : i + 1], listed=True)
            if nodes > 1:
                block, ideals = next(blocks)
                if ideals is None:
                    self._add_intervals(int(ends[i]) + 1, int(ends[i + 1]))
                else:
                    self._add_ideals(int(ends[i]), block, ideals)
        self._add(ends[-1:], ends[-1:], listed=True)

    def columns(self) -> tuple[Ints, Ints, Ints, Ints, NDArray[np.bool_]]:
        """The fields of `Cells` from ``low`` to ``listed``."""
        found = (np.concatenate(column) for column in (self.low, self.high, self.cell, self.member))
        return *found, np.array(self.listed)  # type: ignore[return-value]

    def _add(self, low: Ints, high: Ints, *, listed: bool) -> None:
        self.low.append(low)
        self.high.append(high)
        self.listed += [listed] * len(low)

    def _add_intervals(self, first: int, beyond: int) -> None:
        if first < beyond:
            pieces = min(beyond - first, 2 + round((beyond - first) * self.per_price))
            cuts = np.linspace(first, beyond, pieces + 1).astype(np.int64)
            self._add(cuts[:-1], cuts[1:] - 1, listed=False)

    def _add_ideals(self, position: int, block: slice, ideals: NDArray[np.bool_]) -> None:
        positions = position + ideals @ self.price[block]
        order = np.argsort(positions, kind="stable")
        row, column = np.nonzero(ideals[order])
        self.cell.append(row + len(self.listed))
        self.member.append(column + block.start)
        self._add(positions[order], positions[order], listed=True)
