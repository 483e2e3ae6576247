"""The integer program solved by CP-SAT: integer rows, huge costs rounded down."""

from __future__ import annotations

from itertools import chain
from typing import Any

import numpy as np

from instances.intraop import Instance
from solvers._cpsat import add_hint, answer, core, set_up
from solvers.intraop.programs.baseline import Task, solve
from solvers.intraop.programs.cpsat import columns, costs, equations, memory
from solvers.intraop.programs.floating_point import integer_below
from solvers.intraop.programs.integer_program import IntegerProgram
from solvers.registry import Run, solver

#: Bytes that CP-SAT needs per entry of the program, presolve included (measured: 960).
BYTES = 1000
#: Rows written between two checks of the clock.
CLOCK = 1000


@solver(track="intraop", source="XLA auto-sharding's integer program; Perron and Didier, CP-SAT", deterministic=False)
def ilp_cpsat(instance: Instance, run: Run) -> None:
    """Solve the integer program of XLA's auto-sharding on the instance as it is, from a greedy solution (CP-SAT).

    Only time steps are reduced (see `programs.integer_program`), edges between the same nodes are merged, and entries
    of 10^17 or more have no column if all others together cost less. If writing the program would take too much memory,
    or half of the time, only the greedy solution is reported.
    """
    solve(instance, run, _engine, reduced=False)


def _engine(task: Task) -> bool:
    program = task.program(BYTES)
    if program is None:
        return True
    cp_sat = core()
    writer = _Writer(cp_sat.CpModelProto(), program, task)
    if not writer.write():
        return True
    parameters = cp_sat.SatParameters()
    set_up(parameters, task.run.cores, task.run.seed, task.remaining() - program.notice(task.remaining()))
    parameters.linearization_level = 2  # linearise all rows
    response = answer(
        writer.model,
        parameters,
        lambda column: task.offer(program.values(np.array(column))),
        lambda bound: task.prove(writer.unscaled(integer_below(bound))),
    )
    task.ended = response.status.name
    if response.status == cp_sat.INFEASIBLE:
        return False
    task.prove(writer.unscaled(response.inner_objective_lower_bound))
    return True


class _Writer:
    """Writes a program for CP-SAT, its costs in a ``unit``."""

    def __init__(self, model: Any, program: IntegerProgram, task: Task) -> None:
        self.model, self._program, self._task, self.unit = model, program, task, 1

    def unscaled(self, bound: int) -> int:
        """Convert a bound of CP-SAT to costs of the model."""
        return bound * self.unit

    def write(self) -> bool:
        """Write the whole program; False if that takes too long."""
        proto, program, task = self.model, self._program, self._task
        parts = columns(proto, program), equations(proto, program), memory(proto, program.memory)
        for number, _ in enumerate(chain(*parts)):
            if number % CLOCK == 0 and task.late():
                return False
        self.unit = costs(proto, program.cost, task.top)
        if task.start is not None:
            column = program.columns(task.start)
            add_hint(proto, dict(enumerate(column.tolist())))
        return True
