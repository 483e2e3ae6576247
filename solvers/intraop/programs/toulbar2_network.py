"""A model as a cost function network of toulbar2, minimised under penalties on values."""

from __future__ import annotations

import contextlib
import signal
import time
from enum import IntEnum
from typing import NamedTuple

import numpy as np

from shardmark.instances.files.columns import Ints
from shardmark.solvers.intraop.network.model import LARGEST_TOTAL, Model
from shardmark.solvers.intraop.network.ragged import argmin
from shardmark.solvers.intraop.programs.floating_point import integer_below

#: Largest sum of costs, and of penalties: together they stay below toulbar2's greatest cost, 5 * 10^17.
BUDGET = LARGEST_TOTAL
#: Costs are scaled up to about this, so that small penalties are not rounded away.
FINE = 2**40
#: Discrepancies of the contest winner's search.
DISCREPANCIES = 4
#: Shortest timer; 0 would disable it.
LEAST_SECONDS = 0.01
#: toulbar2's default: no message passing, which fails on networks without tables of two variables.
NO_MESSAGES = -1.0


class Status(IntEnum):
    """Status of a minimisation."""

    NOTHING_YET = 0  # interrupted before it had an assignment
    IMPOSSIBLE = 1  # every assignment is forbidden
    BEST_SO_FAR = 2
    OPTIMAL = 3


class Minimum(NamedTuple):
    """Result of a minimisation: ``value``, shape (v,), and a proven lower bound, in costs of the network."""

    status: Status
    value: Ints | None = None
    bound: int = 0


class Network:
    """The variables of a model that share a table with others, and their tables, posted to toulbar2 once.

    toulbar2 keeps its options and memory in globals, and a solve consumes the network: call `minimise` once, in a
    forked child. Costs of the network are those of the model times ``scale``.
    """

    def __init__(self, model: Model) -> None:
        import pytoulbar2.pytb2 as tb2

        self.model = model
        self.scale = 2 ** max(0, FINE.bit_length() - model.forbidden.bit_length())
        self._toulbar2 = tb2
        tb2.init()
        tb2.reinit()
        tb2.option.verbose = -1
        self._solver = tb2.Solver(2 * BUDGET + 1)
        self._post_variables()
        self._post_tables()

    def cost(self, value: Ints, penalty: Ints) -> int:
        """Cost of an assignment, shape (v,), under penalties, shape (rows,)."""
        return self.model.cost(value) * self.scale + sum(penalty[self.model.start[:-1] + value].tolist())

    def _post_variables(self) -> None:
        model = self.model
        joined = np.zeros(model.variables, dtype=bool)
        joined[model.tail] = joined[model.head] = True
        for scope, _ in model.wide:
            joined[list(scope)] = True
        self._joined = np.flatnonzero(joined)
        self._index = np.cumsum(joined) - 1
        for index, size in enumerate(model.sizes[self._joined].tolist()):
            self._solver.wcsp.makeEnumeratedVariable(str(index), 0, size - 1)

    def _scaled(self, costs: Ints) -> Ints:
        """Costs of the network for costs of the model: forbidden ones are toulbar2's greatest."""
        return np.where(costs >= self.model.forbidden, self._toulbar2.MAX_COST, costs * self.scale)

    def _post_tables(self) -> None:
        """Post the tables; one call for all pairs of the same shape."""
        model = self.model
        rows, columns = model.sizes[model.tail], model.sizes[model.head]
        order = np.lexsort((columns, rows))
        cuts = np.flatnonzero(np.diff(rows[order]) | np.diff(columns[order])) + 1
        for pairs in np.split(order, cuts) if len(order) else []:
            shape = int(rows[pairs[0]]), int(columns[pairs[0]])
            cells = model.cell[model.cell_start[pairs][:, None] + np.arange(shape[0] * shape[1])]
            scopes = np.stack([self._index[model.tail[pairs]], self._index[model.head[pairs]]], axis=1)
            self._solver.wcsp.postMultBinaryVecConstraints(scopes, self._scaled(cells).reshape(-1, *shape))
        for scope, cost in model.wide:
            self._post_wide(self._index[list(scope)].tolist(), self._scaled(cost))

    def _post_wide(self, scope: list[int], cost: Ints) -> None:
        wcsp = self._solver.wcsp
        table = wcsp.postNaryConstraintBegin(scope, 0, int(np.count_nonzero(cost)))
        for place in np.argwhere(cost).tolist():
            wcsp.postNaryConstraintTuple(table, place, int(cost[tuple(place)]))
        wcsp.postNaryConstraintEnd(table)

    def minimise(
        self,
        penalty: Ints,
        seconds: float,
        until: float,
        *,
        discrepancies: int = DISCREPANCIES,
        accuracy: float = NO_MESSAGES,
    ) -> Minimum:
        """Search for an assignment of least cost for some CPU seconds; a SIGINT at the time ``until`` ends the search.

        Limited discrepancy search with up to ``discrepancies``, then hybrid best-first search. If given, ``accuracy``
        adds tree-reweighted message passing beforehand, while an iteration gains more than that fraction. ``penalty``,
        shape (rows,), is added to the network's costs of values.
        """
        solver, options = self._solver, self._toulbar2.option
        rows = np.minimum(self._scaled(self.model.unary) + penalty, self._toulbar2.MAX_COST)
        if not len(self._joined):
            return self._minimum(rows, complete=True)
        self._post_unary(rows)
        options.lds = discrepancies
        options.trwsAccuracy = accuracy if len(self.model.tail) else NO_MESSAGES
        self._toulbar2.check()
        solver.timer(int(seconds) + 1)  # installs the handlers of SIGINT and of the timer, which takes whole seconds
        signal.setitimer(signal.ITIMER_VIRTUAL, max(seconds, LEAST_SECONDS))
        with contextlib.suppress(self._toulbar2.Contradiction):
            solver.wcsp.sortConstraints()
            solver.solve()
        complete = signal.getitimer(signal.ITIMER_VIRTUAL)[0] > 0 and time.monotonic() < until
        return self._minimum(rows, complete)

    def _post_unary(self, rows: Ints) -> None:
        """Post the costs of values less each variable's minimum; one call for all variables of the same size."""
        start, sizes = self.model.start[self._joined], self.model.sizes[self._joined]
        for size in np.unique(sizes).tolist():
            index = np.flatnonzero(sizes == size)
            costs = rows[start[index][:, None] + np.arange(size)]
            self._solver.wcsp.postUnaryVecConstraints(index, costs - costs.min(axis=1, keepdims=True))

    def _minimum(self, rows: Ints, complete: bool) -> Minimum:
        """Combine toulbar2's assignment with the best value of every variable that it does not contain."""
        value = argmin(rows, self.model.start)
        bound = sum(rows[self.model.start[:-1] + value].tolist())
        found = not len(self._joined)
        if not found:
            bound += integer_below(self._solver.getDDualBound())
            found = bool(len(self._solver.solutions()))
            value[self._joined] = self._solver.solution() if found else 0
        if found and self.model.cost(value) < self.model.forbidden:
            return Minimum(Status.OPTIMAL if complete else Status.BEST_SO_FAR, value, bound)
        return Minimum(Status.IMPOSSIBLE if complete else Status.NOTHING_YET, bound=bound)
