"""Local search by single moves, with up-to-date costs of all moves and memory profile."""

from __future__ import annotations

import time

import numpy as np

from shardmark.instances.files.columns import Floats, Ints
from shardmark.solvers.intraop.network.memory import Footprint
from shardmark.solvers.intraop.network.model import Model, Wide
from shardmark.solvers.intraop.network.ragged import offsets, spread

#: Moves that a repair chooses at once, as a fraction of those made before.
AT_ONCE = 0.1


class Search:
    """A value for every variable of a model.

    ``value``    shape (v,): the assignment
    ``local``    shape (rows,): cost of each value given the present values of all other variables
    ``profile``  shape (steps,): memory in use
    """

    def __init__(self, footprint: Footprint, value: Ints) -> None:
        self.footprint, self.model, self.limit = footprint, footprint.clipped, footprint.timeline.limit
        self.adjacency = footprint.adjacency
        self._first = self.model.start.tolist()
        self.reset(value)

    def reset(self, value: Ints) -> None:
        """Take another assignment, shape (v,)."""
        self.value = value.astype(np.int64)
        self.profile = self.footprint.profile(self.value)
        self.local = conditional_costs(self.model, self.value)

    def _add_wide(self, index: int, variable: int, sign: int) -> None:
        rows = self.rows(variable)
        rows += sign * _slice(self.model.wide[index], variable, self.value)

    def rows(self, variable: int) -> Ints:
        """The entries of ``local`` of a variable, shape (its size,), as a view."""
        return self.local[self._first[variable] : self._first[variable + 1]]

    def feasible(self) -> bool:
        """True if memory suffices in every time step."""
        return bool((self.profile <= self.limit).all())

    def _change(self, variable: int, value: int) -> tuple[int, Ints]:
        """Return ``(step, change)``: the change of the profile by a move, from ``step`` on."""
        foot = self.footprint
        low, high = int(foot.start[variable]), int(foot.start[variable + 1])
        difference = foot.of(variable, value) - foot.of(variable, int(self.value[variable]))
        if high - low == 1:
            return int(foot.begin[low]), np.repeat(difference, int(foot.end[low] - foot.begin[low]))
        moved = np.flatnonzero(difference)
        if not len(moved):
            return 0, difference[:0]
        begin, end, difference = foot.begin[low:high][moved], foot.end[low:high][moved], difference[moved]
        step = int(begin.min())
        change = np.zeros(int(end.max()) - step + 1, dtype=np.int64)
        np.add.at(change, begin - step, difference)
        np.add.at(change, end - step, -difference)
        return step, np.cumsum(change)[:-1]

    def fits(self, variable: int, value: int) -> bool:
        """True if a move overloads no step in which it adds memory."""
        step, change = self._change(variable, value)
        after = self.profile[step : step + len(change)] + change
        return not ((after > self.limit) & (change > 0)).any()

    def move(self, variable: int, value: int) -> None:
        """Give a variable another value."""
        step, change = self._change(variable, value)
        self.profile[step : step + len(change)] += change
        old, pairs = int(self.value[variable]), self.adjacency
        for i in pairs.at(variable):
            rows = self.rows(pairs.other[i])
            table = pairs.table(i)
            rows += table[value]
            rows -= table[old]
        self._move_wide(variable, value)
        self.value[variable] = value

    def _move_wide(self, variable: int, value: int) -> None:
        old = int(self.value[variable])
        for index in self.adjacency.wide.get(variable, ()):
            for other in self.model.wide[index].scope:
                if other != variable:
                    self._add_wide(index, other, -1)
                    self.value[variable] = value
                    self._add_wide(index, other, 1)
                    self.value[variable] = old

    def descend(self, until: float) -> None:
        """Make improving moves that fit, first improvement first, to a local optimum or until a time."""
        while time.monotonic() < until and self._sweep(until):
            pass

    def _sweep(self, until: float) -> bool:
        """Try each variable with an improving value, then the neighbours of those that moved."""
        model = self.model
        gains = self.local - np.repeat(self.local[model.start[:-1] + self.value], model.sizes)
        promising = np.flatnonzero(gains < 0)
        queue = np.unique(np.searchsorted(model.start, promising, side="right") - 1).tolist()
        waiting, moved = set(queue), False
        for variable in queue:  # grows while it is read
            if time.monotonic() > until:
                break
            waiting.discard(variable)
            if self._improve(variable):
                moved = True
                fresh = [other for other in dict.fromkeys(self.adjacency.neighbours(variable)) if other not in waiting]
                queue += fresh
                waiting.update(fresh)
        return moved

    def _improve(self, variable: int) -> bool:
        """Give a variable its best fitting value, if that improves the cost."""
        local = self.rows(variable)
        better = np.flatnonzero(local < local[self.value[variable]])
        for value in better[np.argsort(local[better], kind="stable")].tolist():
            if self.fits(variable, value):
                self.move(variable, value)
                return True
        return False

    def repair(self, until: float) -> bool:
        """Move single variables until no step is overloaded; False if time is up before, or no move helps.

        Fitting moves are made in order of cost per memory freed in overloaded steps; the order is recomputed whenever
        the number of moves has grown by the fraction `AT_ONCE`.
        """
        moves = 0
        while not self.feasible():
            if time.monotonic() > until or not (made := self._relieve(1 + int(AT_ONCE * moves))):
                return False
            moves += made
        return True

    def _relieve(self, most: int) -> int:
        """Make up to ``most`` moves that free memory in overloaded steps; return their number."""
        row, freed = self._freed()
        variable = np.searchsorted(self.model.start, row, side="right") - 1
        cost = self.local[row] - self.local[self.model.start[variable] + self.value[variable]]
        moved: set[int] = set()
        for i in np.argsort(cost / freed, kind="stable").tolist():
            one, value = int(variable[i]), int(row[i]) - self._first[variable[i]]
            if one not in moved and self._frees(one, value) and self.fits(one, value):
                self.move(one, value)
                moved.add(one)
                if len(moved) == most:
                    break
        return len(moved)

    def _frees(self, variable: int, value: int) -> bool:
        """True if a move frees memory in an overloaded time step."""
        step, change = self._change(variable, value)
        return bool(((self.profile[step : step + len(change)] > self.limit) & (change < 0)).any())

    def _freed(self) -> tuple[Ints, Floats]:
        """Return ``(row, freed)``: values that free memory in overloaded steps, and how much in total."""
        foot, sizes = self.footprint, self.model.sizes
        over = offsets((self.profile > self.limit).astype(np.int64))
        steps = over[foot.end] - over[foot.begin]
        node = np.flatnonzero(steps)
        variable = foot.variable[node]
        count = sizes[variable]
        place = foot.usage_start[variable] + node - foot.start[variable]
        now = foot.usage[place + self.value[variable] * foot.nodes[variable]]
        then = foot.usage[strided(place, foot.nodes[variable], count)]
        freed = np.zeros(len(self.local))
        np.add.at(
            freed,
            spread(self.model.start[variable], count),
            np.repeat(steps[node].astype(np.float64), count) * (np.repeat(now, count) - then),
        )
        row = np.flatnonzero(freed > 0)
        return row, freed[row]


def conditional_costs(model: Model, value: Ints) -> Ints:
    """Cost of each value of every variable if all other variables keep their value in an assignment; shape (rows,)."""
    result = model.unary.copy()
    rows, columns = model.sizes[model.tail], model.sizes[model.head]
    for variable, count, cell in (
        (model.tail, rows, strided(model.cell_start[:-1] + value[model.head], columns, rows)),
        (model.head, columns, spread(model.cell_start[:-1] + value[model.tail] * columns, columns)),
    ):
        np.add.at(result, spread(model.start[variable], count), model.cell[cell])
    for table in model.wide:
        for one in table.scope:
            result[model.start[one] : model.start[one + 1]] += _slice(table, one, value)
    return result


def _slice(table: Wide, variable: int, value: Ints) -> Ints:
    """Costs of one variable's values in a wide table, its other variables fixed."""
    return table.cost[tuple(slice(None) if one == variable else int(value[one]) for one in table.scope)]


def strided(first: Ints, stride: Ints, counts: Ints) -> Ints:
    """The integers first[i] + stride[i] * (0..counts[i]-1) of each row i, concatenated."""
    start = offsets(counts)
    place = np.arange(start[-1]) - np.repeat(start[:-1], counts)
    return np.repeat(first, counts) + place * np.repeat(stride, counts)
