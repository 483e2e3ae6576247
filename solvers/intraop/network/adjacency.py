"""Adjacency of a model: the pairs and wide tables of each variable, with each table seen from that variable."""

from __future__ import annotations

import numpy as np

from shardmark.instances.files.columns import Ints
from shardmark.solvers.intraop.network.model import Model
from shardmark.solvers.intraop.network.ragged import offsets


class Adjacency:
    """The pairs and wide tables of every variable.

    The pairs of variable v are numbered ``at(v)``; pair i joins v to ``other[i]``. ``wide[v]``, if present, lists the
    indices of the wide tables of v.
    """

    def __init__(self, model: Model) -> None:
        self._model = model
        ends = np.concatenate([model.tail, model.head])
        order = np.argsort(ends, kind="stable")
        self._start = offsets(np.bincount(ends, minlength=model.variables)).tolist()
        self._own = model.sizes[ends[order]].tolist()
        self._cell = np.tile(model.cell_start[:-1], 2)[order].tolist()
        self._is_tail = np.repeat([True, False], len(model.tail))[order].tolist()
        self.other: list[int] = np.concatenate([model.head, model.tail])[order].tolist()
        self.wide: dict[int, list[int]] = {}
        for index, table in enumerate(model.wide):
            for variable in table.scope:
                self.wide.setdefault(variable, []).append(index)

    def at(self, variable: int) -> range:
        """Numbers of the pairs of a variable."""
        return range(self._start[variable], self._start[variable + 1])

    def table(self, pair: int) -> Ints:
        """Costs of a pair, shape (size of the variable, size of the other), as a view."""
        other = int(self._model.start[self.other[pair] + 1] - self._model.start[self.other[pair]])
        cells = self._model.cell[self._cell[pair] : self._cell[pair] + self._own[pair] * other]
        return cells.reshape(self._own[pair], other) if self._is_tail[pair] else cells.reshape(other, -1).T

    def neighbours(self, variable: int) -> list[int]:
        """Variables that share a table with this one; may contain duplicates, and the variable itself."""
        near = [self.other[pair] for pair in self.at(variable)]
        return near + [one for index in self.wide.get(variable, ()) for one in self._model.wide[index].scope]
