"""The problem as a cost function network with knapsack constraints, solved exactly by toulbar2."""

from __future__ import annotations

import dataclasses
import time
from itertools import pairwise

import numpy as np

from shardmark.instances.files.columns import Ints
from shardmark.instances.intraop import Instance
from shardmark.solvers.intraop.network.model import Model
from shardmark.solvers.intraop.network.ragged import offsets
from shardmark.solvers.intraop.network.reduced_problem import worst_steps
from shardmark.solvers.intraop.programs.baseline import Task, solve
from shardmark.solvers.intraop.programs.child_processes import GRACE
from shardmark.solvers.intraop.programs.cpsat_search import confirmed
from shardmark.solvers.intraop.programs.memory_rows import MemoryRows, memory_of_steps
from shardmark.solvers.intraop.programs.toulbar2 import minimum
from shardmark.solvers.intraop.programs.toulbar2_network import Minimum, Network, Status
from shardmark.solvers.registry import Run, solver

#: Knapsack constraints added at once.
MORE_ROWS = 5
#: Message passing before the search continues while an iteration gains more than this fraction.
ACCURACY = 0.001


@solver(
    track="intraop",
    source="Montalbano, de Givry and Katsirelos 2022, knapsack constraints of toulbar2",
    deterministic=False,
)
def toulbar2_exact(instance: Instance, run: Run) -> None:
    """Solve the reduced network exactly, adding knapsack constraints for overloaded time steps (toulbar2).

    Starts without memory constraints and adds those that a minimum violates, on maximal live sets. A minimum that
    violates none is optimal; each earlier one is a bound. The network is reduced as for `cfn-penalty`.

    toulbar2 computes its bounds in integers; its search is not checked. Its claim that nothing fits counts only if
    CP-SAT agrees and no solution is known.
    """
    solve(instance, run, confirmed(_engine), reduced=True)


def _engine(task: Task) -> bool:
    steps: list[int] = []
    while task.remaining() > GRACE:
        found = _minimise(task, memory_of_steps(task.problem, steps))
        if found is None:
            return True
        if found.status == Status.IMPOSSIBLE:
            return False
        task.prove(found.bound)
        if found.value is None:
            return True
        task.offer(found.value)
        if found.status != Status.OPTIMAL:
            return True
        task.prove(task.problem.model.cost(found.value))
        fresh = worst_steps(task.problem.overload(found.value), MORE_ROWS, steps)
        if not fresh:
            return True
        steps += fresh
    return True


def _minimise(task: Task, rows: MemoryRows) -> Minimum | None:
    """Minimise with knapsack constraints in a child process until the end; None if it does not answer."""
    model, until = task.problem.model, task.until - GRACE
    nothing = np.zeros(len(model.unary), dtype=np.int64)

    def job() -> Minimum:
        from pytoulbar2.pytb2 import Contradiction

        try:
            network = _Knapsacks(model, rows)
        except Contradiction:
            return Minimum(Status.IMPOSSIBLE)
        found = network.minimise(nothing, until - time.monotonic(), until, accuracy=ACCURACY)
        return found._replace(bound=-(-found.bound // network.scale))  # whole costs: round up

    return minimum(job, until)


class _Knapsacks(Network):
    """A network with a knapsack constraint per memory row."""

    def __init__(self, model: Model, rows: MemoryRows) -> None:
        super().__init__(_with_every_variable_joined(model, rows))
        start, column, use = model.start, rows.column, rows.use
        variable = np.searchsorted(start, column, side="right") - 1
        for (begin, end), room in zip(pairwise(rows.start.tolist()), rows.room.tolist(), strict=True):
            terms = slice(begin, end)
            self._post(variable[terms], column[terms] - start[variable[terms]], use[terms], room)

    def _post(self, variable: Ints, value: Ints, use: Ints, room: int) -> None:
        """Require that the chosen values use at most ``room``; negated, as toulbar2 has lower limits only."""
        scope, first, count = np.unique(variable, return_index=True, return_counts=True)
        words = [str(-room)]
        for begin, many in zip(first.tolist(), count.tolist(), strict=True):
            words.append(str(many))
            words += [
                f"{one} {-much}"
                for one, much in zip(value[begin:][:many].tolist(), use[begin:][:many].tolist(), strict=True)
            ]
        self._solver.wcsp.postKnapsackConstraint(self._index[scope].tolist(), " ".join(words), kp=True)


def _with_every_variable_joined(model: Model, rows: MemoryRows) -> Model:
    """Add zero tables so that every variable of a row is in a table, as toulbar2 drops the others."""
    alone = np.zeros(model.variables, dtype=bool)
    alone[np.searchsorted(model.start, rows.column, side="right") - 1] = True
    alone[model.tail] = alone[model.head] = False
    for scope, _ in model.wide:
        alone[list(scope)] = False
    first = np.flatnonzero(alone)[::2]  # each with the next one, the last with any variable
    if not len(first) or model.variables == 1:
        return model
    others = np.append(np.flatnonzero(alone)[1::2], (first[-1] + 1) % model.variables)[: len(first)]
    low, high = np.sort([first, others], axis=0)
    cells = np.zeros(int((model.sizes[low] * model.sizes[high]).sum()), dtype=np.int64)
    tail, head = np.concatenate([model.tail, low]), np.concatenate([model.head, high])
    cell_start = offsets(model.sizes[tail] * model.sizes[head])
    return dataclasses.replace(
        model, tail=tail, head=head, cell_start=cell_start, cell=np.concatenate([model.cell, cells])
    )
