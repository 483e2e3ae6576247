"""Memory rows of a program: one per given time step, or all that may bind, in a sparse form."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from shardmark.instances.files.columns import Ints
from shardmark.solvers.intraop.network.dominance import may_bind
from shardmark.solvers.intraop.network.ragged import offsets, spread
from shardmark.solvers.intraop.network.reduced_problem import Problem

#: Upper bound on the sum of all uses, so that engines can sum them in 64 bits.
LARGEST_USE = 2**60


@dataclass(frozen=True, eq=False)
class MemoryRows:
    """Weighted sums of columns with an upper bound each; all arrays int64.

    ``start, column, use``  row i sums ``use[j]`` times column ``column[j]`` for j from ``start[i]`` on; columns ascend
    ``room``                shape (rows,): upper bound of the sum, in units of ``unit`` bytes like all memory here
    ``most``                shape (sums,): maxima of the extra columns that represent memory sums
    """

    start: Ints
    column: Ints
    use: Ints
    room: Ints
    most: Ints
    unit: int

    @classmethod
    def of(cls, row: Ints, column: Ints, use: Ints, room: Ints, most: Ints, unit: int) -> MemoryRows:
        """Build rows from entries ``use[j]`` at row ``row[j]`` and column ``column[j]``, summing duplicates."""
        order = np.lexsort((column, row))
        row, column = row[order], column[order]
        first = np.flatnonzero((np.diff(row, prepend=-1) != 0) | (np.diff(column, prepend=-1) != 0))
        total = np.add.reduceat(use[order], first) if len(first) else use[:0]
        start = offsets(np.bincount(row[first], minlength=len(room)))
        return cls(start, column[first], total, room, most, unit)


@dataclass(frozen=True, eq=False)
class _Uses:
    """Memory of values above the least of their node: shapes (uses,), nodes of the footprint in ascending order.

    ``amount``, ``most`` (maximum per node) and ``room`` (shape (steps,), memory above the least of all nodes) are in
    units of ``unit`` bytes, rounded down: what fits in bytes fits in units. Only huge numbers are rounded.
    """

    node: Ints
    row: Ints
    amount: Ints
    room: Ints
    most: Ints
    unit: int

    @classmethod
    def of(cls, problem: Problem) -> _Uses:
        """The uses of a problem."""
        row, usage, start = problem.usages
        least, most = (pick.reduceat(usage, start[:-1]) if len(usage) else usage for pick in (np.minimum, np.maximum))
        node = np.repeat(np.arange(len(start) - 1), np.diff(start))
        amount = usage - least[node]
        some = np.flatnonzero(amount)
        unit = int(np.gcd.reduce(amount, initial=0)) or 1
        while float(amount.sum(dtype=np.float64)) / unit >= LARGEST_USE:
            unit *= 2
        room = (problem.room - problem.profile(least)) // unit
        return cls(node[some], row[some], amount[some] // unit, room, (most - least) // unit, unit)


def memory_of_steps(problem: Problem, steps: Iterable[int]) -> MemoryRows:
    """One memory row per given step, over the values."""
    chosen, foot, uses = list(steps), problem.footprint, _Uses.of(problem)
    begin, end = foot.begin[uses.node], foot.end[uses.node]
    live = [np.flatnonzero((begin <= step) & (step < end)) for step in chosen]
    row = np.repeat(np.arange(len(chosen)), [len(part) for part in live])
    use = np.concatenate([row[:0], *live])
    return MemoryRows.of(row, uses.row[use], uses.amount[use], uses.room[chosen], row[:0], uses.unit)


def memory_of_all_steps(problem: Problem, first_sum: int) -> MemoryRows:
    """Rows of all steps in which memory can exceed the limit; columns from ``first_sum`` on are partial sums.

    Dense rows would have hundreds of millions of entries on the contest's instances. The steps are therefore the leaves
    of a binary tree, and the interval of a node is divided into subtrees, at most two per level. The memory of the
    nodes of a subtree is summed once, in an extra column if that saves entries, and the row of a step sums the subtrees
    that contain it. The feasible assignments are the same; XLA also shortens its rows by sums.
    """
    matters = may_bind(problem.footprint)
    tree, uses = _Tree(int(matters.sum())), _Uses.of(problem)
    some = offsets(matters.astype(np.int64))
    place, node = tree.cut(some[problem.footprint.begin], some[problem.footprint.end])
    row, column, amount, most = tree.rows(place, node, uses, first_sum)
    room = np.concatenate([np.zeros(len(most), dtype=np.int64), uses.room[matters]])
    return MemoryRows.of(row, column, amount, room, most, uses.unit)


class _Tree:
    """A binary tree over time steps: the root is number 1, the children of p are 2 p and 2 p + 1."""

    def __init__(self, steps: int) -> None:
        self.steps = steps
        self.depth = max(0, steps - 1).bit_length()

    def cut(self, begin: Ints, end: Ints) -> tuple[Ints, Ints]:
        """Return ``(place, interval)``: the subtrees that partition the intervals [begin, end)."""
        left, right = begin + (1 << self.depth), end + (1 << self.depth)
        place, interval = [left[:0]], [left[:0]]
        while (left < right).any():
            for odd, chosen in ((left & 1, left), (right & 1, right - 1)):
                at = np.flatnonzero((odd == 1) & (left < right))
                place.append(chosen[at])
                interval.append(at)
            left, right = (left + 1) >> 1, right >> 1
        return np.concatenate(place), np.concatenate(interval)

    def leaves(self, place: Ints) -> tuple[Ints, Ints]:
        """First step and number of steps below each tree node."""
        below = self.depth + 1 - np.frexp(place.astype(np.float64))[1]
        first = (place << below) - (1 << self.depth)
        return first, np.minimum(first + (1 << below), self.steps) - first

    def rows(self, place: Ints, node: Ints, uses: _Uses, first_sum: int) -> tuple[Ints, Ints, Ints, Ints]:
        """Return ``(row, column, use, most)``: entries of the rows, one per sum, then one per step.

        Node ``node[i]`` uses memory in all steps below the tree node ``place[i]``. Sums are the columns from
        ``first_sum`` on; ``most`` has their maxima.
        """
        places, at = np.unique(place, return_inverse=True)
        entry = np.searchsorted(uses.node, np.stack([node, node + 1]))
        term, term_at = spread(entry[0], entry[1] - entry[0]), np.repeat(at, entry[1] - entry[0])
        first, steps = self.leaves(places)
        terms = np.bincount(term_at, minlength=len(places))
        worth = terms + 1 + steps < terms * steps
        number = np.cumsum(worth) - 1
        inside, direct = term[worth[term_at]], term[~worth[term_at]]
        summed = np.arange(worth.sum())
        where = np.concatenate([term_at[~worth[term_at]], np.flatnonzero(worth)])  # of uses, then of sums
        what = np.concatenate([uses.row[direct], first_sum + summed])
        much = np.concatenate([uses.amount[direct], np.ones_like(summed)])
        rows = [number[term_at[worth[term_at]]], summed, len(summed) + spread(first[where], steps[where])]
        columns = [uses.row[inside], first_sum + summed, np.repeat(what, steps[where])]
        amounts = [uses.amount[inside], -np.ones_like(summed), np.repeat(much, steps[where])]
        most = np.zeros_like(summed)
        np.add.at(most, number[at[worth[at]]], uses.most[node[worth[at]]])
        return np.concatenate(rows), np.concatenate(columns), np.concatenate(amounts), most
