"""An instance of ``intraop`` as costs of strategies and of pairs of nodes, and what of it a proof has not ruled out."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from shardmark.harness.verify.certificates import Clock
from shardmark.instances.files.columns import Ints
from shardmark.instances.intraop import Instance

Mask = NDArray[np.bool_]
#: A greater entry of a table counts as this.
LARGEST = 1 << 61


class Network:
    """Costs of strategies and of pairs of nodes, and what may still be part of a solution below the cut-off.

    ``cost``    cost of every strategy, exact: of its node, of edges of that node alone, and of settled pairs
    ``others``  sum of the least costs of edges of three nodes or more
    ``ends``    places in ``cost`` of the strategies of the lower and of the higher node of every pair
    ``table``   costs of every pair, by these strategies
    ``kept``    which strategies are kept; ``cells`` says so of the entries of every pair that is not settled

    All edges between two nodes are one pair, and pairs are sorted by their lower, then by their higher node. A pair is
    settled once one of its ends has a single strategy left: the other end has taken its costs.
    """

    def __init__(self, instance: Instance, clock: Clock) -> None:
        self.instance, self.clock = instance, clock
        start = instance.strategy_start.tolist()
        self.menu = [slice(first, last) for first, last in pairwise(start)]
        self.cost = instance.node_cost.astype(object)
        self.others = 0
        tables: dict[tuple[int, int], Ints] = {}
        for scope, costs in _edges(instance, clock):
            if len(set(scope)) == 1 and len(scope) <= 2:
                self.cost[self.menu[scope[0]]] += (costs if costs.ndim == 1 else costs.diagonal()).astype(object)
            elif len(scope) == 2:
                low, high = sorted(scope)
                clipped = np.minimum(costs if low == scope[0] else costs.T, LARGEST)
                before = tables.get((low, high))
                tables[low, high] = clipped if before is None else np.minimum(before + clipped, LARGEST)
            else:
                self.others += int(costs.min())
        self.ends = [(self.menu[low], self.menu[high]) for low, high in sorted(tables)]
        self.table = [tables[pair] for pair in sorted(tables)]
        self.kept: Mask = np.ones(len(self.cost), dtype=bool)
        self.cells: dict[int, Mask] = {pair: np.ones(table.shape, dtype=bool) for pair, table in enumerate(self.table)}

    def copy(self) -> Network:
        """Return a network of which more can be left out without a change of this one."""
        other = object.__new__(Network)
        other.__dict__ |= self.__dict__
        other.cost, other.kept, other.cells = self.cost.copy(), self.kept.copy(), dict(self.cells)
        return other

    @property
    def left(self) -> int:
        """Number of strategies and of entries of pairs that are kept."""
        return int(self.kept.sum()) + sum(int(cells.sum()) for cells in self.cells.values())

    def settle(self) -> None:
        """Leave out entries of strategies that are left out; move the costs of pairs with an end of one strategy."""
        for pair, cells in list(self.cells.items()):
            self.clock.tick()
            rows, columns = self.ends[pair]
            cells = cells & self.kept[rows][:, None] & self.kept[columns][None, :]
            self.cells[pair] = cells
            if int(self.kept[rows].sum()) == 1:
                at = int(self.kept[rows].argmax())
                self._take(columns, self.table[pair][at], cells[at])
                del self.cells[pair]
            elif int(self.kept[columns].sum()) == 1:
                at = int(self.kept[columns].argmax())
                self._take(rows, self.table[pair][:, at], cells[:, at])
                del self.cells[pair]

    def _take(self, strategies: slice, costs: Ints, allowed: Mask) -> None:
        self.cost[strategies] += costs.astype(object)
        self.kept[strategies] &= allowed


def _edges(instance: Instance, clock: Clock) -> Iterator[tuple[list[int], Ints]]:
    """Yield the nodes of every edge, and its costs with an axis per node."""
    sizes, scopes, tables = instance.strategies, instance.scope_start.tolist(), instance.table_start.tolist()
    for edge in range(instance.edges):
        clock.tick()
        scope = instance.scope[scopes[edge] : scopes[edge + 1]]
        yield scope.tolist(), instance.table[tables[edge] : tables[edge + 1]].reshape(sizes[scope])
