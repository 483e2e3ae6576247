"""An instance of ``intraop`` as costs of values and of pairs of variables, and what of it a proof has not ruled out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shardmark.harness.verify.certificates import Clock, Unproven
from shardmark.harness.verify.certificates.intraop.wide_costs import MOST_CELLS, Wide, in_pairs, over
from shardmark.instances.files.columns import Ints
from shardmark.instances.intraop import Instance

Mask = NDArray[np.bool_]
#: Sums below this are computed in 64 bits, others in Python integers.
SMALL = 1 << 60
#: Entries that are computed at once.
BLOCK = 1 << 20


class NothingLeft(Exception):
    """A variable or a pair has nothing left that a solution below the cut-off can contain."""


def offsets(counts: Ints) -> Ints:
    """Return the first place of each of several rows that stand one after another, and the end of the last."""
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)


def places(first: Ints, counts: Ints) -> Ints:
    """Return the places first[i], first[i] + 1, ... of each row i, of these lengths."""
    ends = offsets(counts)
    return np.arange(ends[-1]) + np.repeat(first - ends[:-1], counts)


class Network:
    """Variables with values, and what may still be part of a solution below the cut-off. At first, nodes are variables.

    ``least``           what every solution costs in any case
    ``room``            what a solution below the cut-off may cost beyond the least costs of all nodes and edges
    ``start``           rows of the values of each variable, and the number of rows
    ``cost``, ``alive``  cost of every row, and whether it is left
    ``tail``, ``head``   ends of every pair, the lower first; pairs are sorted, and each occurs once
    ``first``           place of the first entry of every pair, row-major, and the number of entries
    ``cell``, ``open``   cost of every entry, and whether it is left
    ``wide``            costs of three variables or more, as far as pairs do not express them
    ``most``            sum of the greatest costs of all variables, pairs and wide tables
    ``owner``           variable of every node whose memory depends on its value
    ``since``, ``until``  steps in which it is live, as numbers in ``step``
    ``used``, ``usage``  place of its memory under the first value, and memory under all values
    ``step``            times with a maximal set of live nodes; ``fixed``: memory of all other nodes there
    """

    def __init__(self, instance: Instance, cutoff: int, clock: Clock) -> None:
        self.clock, self.limit = clock, instance.usage_limit or 0
        self.least = instance.cheapest_parts()
        self.room = cutoff - self.least
        self.start, sizes = instance.strategy_start, instance.strategies
        self.cost, self.alive = _differences(instance.node_cost, self.start, self.room)
        cell, open_ = _differences(instance.table, instance.table_start, self.room)
        scopes, ends = instance.scope_start, instance.table_start
        others = np.flatnonzero(np.diff(scopes) != 2).tolist()
        low = {edge: int(instance.table[ends[edge] : ends[edge + 1]].min()) for edge in others}
        self.least -= sum(low.values())  # these tables keep all their costs
        self.most = _most(self.cost, self.start) + _most(cell, ends) + sum(low.values())
        if self.most >= SMALL:
            self.cost, cell = self.cost.astype(object), cell.astype(object)
        self.wide = []
        for edge in others:
            scope, part = instance.scope[scopes[edge] : scopes[edge + 1]], slice(ends[edge], ends[edge + 1])
            scope = np.concatenate([scope[:1], scope[1:][sizes[scope[1:]] > 1]])  # numpy has at most 64 axes
            costs, shape = cell[part] + low[edge], sizes[scope]
            self.wide.append(Wide(tuple(scope.tolist()), costs.reshape(shape), open_[part].reshape(shape)))
        pairs = np.flatnonzero(np.diff(scopes) == 2)
        self.tail, self.head = instance.scope[scopes[pairs]], instance.scope[scopes[pairs] + 1]
        self.first = offsets(np.diff(ends)[pairs])
        at = slice(None) if len(pairs) == instance.edges else places(ends[pairs], np.diff(ends)[pairs])
        self.cell, self.open = cell[at], open_[at]
        self._set_memory(instance)
        self.contract(np.arange(instance.nodes), np.arange(len(self.cost)), sizes)

    def _set_memory(self, instance: Instance) -> None:
        """Take the memory of nodes that are live at some time; what exceeds the limit counts as one byte above it."""
        live = np.flatnonzero((instance.end > instance.begin) & (instance.usage_limit is not None))
        counts = instance.strategies[live]
        self.owner, self.used = live, offsets(counts)
        most = min(self.limit + 1, 2**63 - 1)
        usage = np.minimum(instance.usage[places(self.start[live], counts)], most)
        self.usage = usage if most * len(live) < SMALL else usage.astype(object)
        begins = np.unique(instance.begin[live])
        since, until = (np.searchsorted(begins, ends[live]) for ends in (instance.begin, instance.end))
        last = np.zeros(len(begins) + 1, dtype=bool)
        last[until] = True  # some node ends before the next one begins; others are live at the next step, too
        self.step, before = begins[last[1:]], offsets(last[1:])
        self.since, self.until = before[since], before[until]
        self.fixed = np.zeros(len(self.step), dtype=self.usage.dtype)

    def copy(self) -> Network:
        """Return a network of which more can be left out without a change of this one."""
        other = object.__new__(Network)
        other.__dict__ |= self.__dict__
        other.alive, other.open = self.alive.copy(), self.open.copy()
        return other

    @property
    def sizes(self) -> Ints:
        """Number of values of every variable."""
        return np.diff(self.start)

    def variable(self) -> Ints:
        """Return the variable of every row."""
        return np.repeat(np.arange(len(self.start) - 1), self.sizes)

    def index(self, pairs: Ints) -> tuple[Ints, Ints, Ints]:
        """Return the place, and the rows of the tail and of the head, of every entry of some pairs."""
        sizes, tail, head = self.sizes, self.tail[pairs], self.head[pairs]
        columns = np.repeat(sizes[head], sizes[tail])
        row = np.repeat(places(self.start[tail], sizes[tail]), columns)
        column = places(np.repeat(self.start[head], sizes[tail]), columns)
        return places(self.first[pairs], sizes[tail] * sizes[head]), row, column

    def propagate(self) -> None:
        """Leave out entries of values that are left out, and values without an entry in some pair, until none is."""
        pairs, entries = np.arange(len(self.tail)), np.diff(self.first)
        while len(pairs):
            dead = np.zeros(len(self.alive), dtype=bool)
            for some in self.blocks(pairs, entries[pairs]):
                cells, row, column = self.index(some)
                open_ = self.open[cells] & self.alive[row] & self.alive[column]
                self.open[cells] = open_
                for ends, rows in ((self.tail, row), (self.head, column)):
                    first, counts = self.start[ends[some]], self.sizes[ends[some]]
                    mine, shift = places(first, counts), np.repeat(offsets(counts)[:-1] - first, entries[some])
                    supported = np.zeros(len(mine), dtype=bool)
                    supported[(rows + shift)[open_]] = True
                    dead[mine[~supported]] = True
            dead &= self.alive
            self.alive &= ~dead
            changed = np.zeros(len(self.start) - 1, dtype=bool)
            changed[self.variable()[dead]] = True
            pairs = np.flatnonzero(changed[self.tail] | changed[self.head])
        if len(self.alive) and not np.logical_or.reduceat(self.alive, self.start[:-1]).all():
            raise NothingLeft

    def blocks(self, pairs: Ints, entries: Ints) -> Iterator[Ints]:
        """Divide pairs into parts of not many entries."""
        for some in np.split(pairs, np.flatnonzero(np.diff(np.cumsum(entries) // BLOCK)) + 1):
            self.clock.tick()
            yield some

    def contract(self, root: Ints, taken: Ints, sizes: Ints) -> None:
        """Replace each variable v by another one, ``root[v]``, that decides its value.

        ``sizes`` are the numbers of values of the new variables. ``taken`` has, for every old variable and every
        value of its root, the old row.
        """
        start, count = offsets(sizes), sizes[root]
        rows, local, of = places(start[root], count), taken - np.repeat(self.start[:-1], count), offsets(count)
        cost, alive = np.zeros(start[-1], dtype=self.cost.dtype), np.ones(start[-1], dtype=bool)
        np.add.at(cost, rows, self.cost[taken])
        alive[rows[~self.alive[taken]]] = False
        wide, narrow = in_pairs(over(self.wide, root, of, local, sizes), self.clock)
        ends = np.sort(root[np.stack([self.tail, self.head])], axis=0)
        joins = (ends[0] != ends[1]) & (sizes[ends] > 1).all(axis=0)
        told = np.array([each.scope for each in narrow if len(each.scope) == 2], dtype=np.int64).reshape(-1, 2)
        keys = np.concatenate([ends[0] * len(sizes) + ends[1], told @ np.array([len(sizes), 1])])
        kept = np.unique(keys[np.concatenate([joins, np.ones(len(told), dtype=bool)])])
        tail, head = np.divmod(kept, max(1, len(sizes)))
        first = offsets(sizes[tail] * sizes[head])
        if first[-1] > MOST_CELLS:
            raise Unproven(f"proof.steps.merged: expected at most {MOST_CELLS} entries of pairs, found {first[-1]}")
        target = np.where(
            joins, first[np.searchsorted(kept, keys[: len(joins)]) % max(1, len(kept))] if len(kept) else 0, -1
        )
        cell, open_ = np.zeros(first[-1], dtype=self.cell.dtype), np.ones(first[-1], dtype=bool)
        x, y = root[self.tail], root[self.head]
        height, width, columns = sizes[x], sizes[y], self.sizes[self.head]
        entries = np.where(x == y, height, height * width)
        for some in self.blocks(np.arange(len(x)), entries):
            pair, at = np.repeat(some, entries[some]), places(np.zeros(len(some), dtype=np.int64), entries[some])
            i, j = np.divmod(at, width[pair])
            same = (x == y)[pair]
            i, j = np.where(same, at, i), np.where(same, at, j)
            old = self.first[pair] + local[of[self.tail[pair]] + i] * columns[pair] + local[of[self.head[pair]] + j]
            value, shut = self.cell[old], ~self.open[old]
            joined = target[pair] >= 0
            new = target[pair] + np.where((x < y)[pair], i * width[pair] + j, j * height[pair] + i)
            np.add.at(cell, new[joined], value[joined])
            open_[new[joined & shut]] = False
            row = np.where((height > 1)[pair] | same, start[x[pair]] + i, start[y[pair]] + j)
            np.add.at(cost, row[~joined], value[~joined])
            alive[row[shut & ~joined]] = False
        for each in narrow:
            if len(each.scope) == 2:
                at = first[np.searchsorted(kept, each.scope[0] * len(sizes) + each.scope[1])]
                cell[at : at + each.cost.size] += each.cost.ravel()
                open_[at : at + each.cost.size] &= each.open.ravel()
            else:
                at = start[each.scope[0]]
                cost[at : at + each.cost.size] += each.cost.ravel()
                alive[at : at + each.cost.size] &= each.open.ravel()
        self._contract_memory(root, of, local, count)
        self.start, self.alive, self.tail, self.head, self.first, self.open = start, alive, tail, head, first, open_
        self.cost, self.cell = np.where(alive, cost, 0), np.where(open_, cell, 0)
        self.most = _most(self.cost, start) + _most(self.cell, first) + sum(int(each.cost.max()) for each in wide)
        kind = np.int64 if self.most < SMALL else object  # each entry of a next network is at most this sum
        self.cost, self.cell = self.cost.astype(kind, copy=False), self.cell.astype(kind, copy=False)
        self.wide = [each._replace(cost=each.cost.astype(kind, copy=False)) for each in wide]

    def _contract_memory(self, root: Ints, of: Ints, local: Ints, count: Ints) -> None:
        """Take the memory of every node under the values of its new variable; what is the same under all is fixed."""
        if not len(self.owner):
            return
        counts = count[self.owner]
        usage = self.usage[np.repeat(self.used[:-1], counts) + local[places(of[self.owner], counts)]]
        used = offsets(counts)
        low = np.minimum.reduceat(usage, used[:-1])
        varies = np.maximum.reduceat(usage, used[:-1]) > low
        self.fixed = self.fixed + self.profile(np.where(varies, 0, low))
        self.owner, self.since, self.until = root[self.owner[varies]], self.since[varies], self.until[varies]
        self.usage, self.used = usage[np.repeat(varies, counts)], offsets(counts[varies])

    def profile(self, of_node: Any) -> Any:
        """Return the sum at every step of an amount of every node that is live there."""
        change = np.zeros(len(self.step) + 1, dtype=self.usage.dtype)
        np.add.at(change, self.since, of_node)
        np.subtract.at(change, self.until, of_node)
        return np.cumsum(change)[:-1]

    def may_exceed(self) -> Mask:
        """Return the mask of the steps at which the greatest memory of all nodes exceeds the limit."""
        most = self.fixed
        if len(self.owner):
            rows = places(self.start[self.owner], np.diff(self.used))
            usage = np.where(self.alive[rows], self.usage, 0)
            most = most + self.profile(np.maximum.reduceat(usage, self.used[:-1]))
        exceeds: Mask = (most > self.limit).astype(bool)
        return exceeds

    def memory(self, step: int) -> Any:
        """Return the memory that every row adds to the fixed one at a step."""
        live = np.flatnonzero((self.since <= step) & (step < self.until))
        counts = np.diff(self.used)[live]
        result = np.zeros(len(self.cost), dtype=self.usage.dtype)
        np.add.at(result, places(self.start[self.owner[live]], counts), self.usage[places(self.used[live], counts)])
        return result


def _differences(costs: Ints, start: Ints, room: int) -> tuple[Any, Mask]:
    """Return what costs exceed the least of their node or edge by, 0 from ``room`` on, and what is below it."""
    if not len(costs):
        return costs, np.zeros(0, dtype=bool)
    result = costs - np.repeat(np.minimum.reduceat(costs, start[:-1]), np.diff(start))
    left = result < max(room, 0) if room < 2**63 else np.ones(len(costs), dtype=bool)
    return np.where(left, result, 0), left


def _most(costs: Any, start: Ints) -> int:
    """Return the sum of the greatest costs of all parts."""
    return sum(np.maximum.reduceat(costs, start[:-1]).tolist()) if len(costs) else 0
