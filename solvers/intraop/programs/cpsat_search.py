"""The integer program of a task by CP-SAT: integer rows, huge costs rounded down."""

from __future__ import annotations

import numpy as np

from shardmark.solvers._cpsat import add_hint, answer, core, set_up
from shardmark.solvers.intraop.programs.baseline import Engine, Task
from shardmark.solvers.intraop.programs.cpsat import columns, costs, equations, memory
from shardmark.solvers.intraop.programs.floating_point import integer_below

#: Bytes that CP-SAT needs per entry of the program, presolve included (measured: 960).
BYTES = 1000


def search(task: Task) -> bool:
    """Search until the task's time is over; False if CP-SAT proves that nothing fits."""
    program = task.program(BYTES)
    if program is None:
        return True
    cp_sat = core()
    model, parameters = cp_sat.CpModelProto(), cp_sat.SatParameters()
    if not task.write(columns(model, program), equations(model, program), memory(model, program.memory)):
        return True
    unit = costs(model, program.cost, task.top)
    if task.start is not None:
        add_hint(model, dict(enumerate(program.columns(task.start).tolist())))
    set_up(parameters, task.run.cores, task.run.seed, task.remaining() - program.notice(task.remaining()))
    parameters.linearization_level = 2  # linearise all rows
    response = answer(
        model,
        parameters,
        lambda column: task.offer(program.values(np.array(column))),
        lambda bound: task.prove(integer_below(bound) * unit),
    )
    task.ended = response.status.name
    if response.status == cp_sat.INFEASIBLE:
        return False
    task.prove(response.inner_objective_lower_bound * unit)
    return True


def confirmed(engine: Engine) -> Engine:
    """The engine, whose word that nothing fits counts only if no assignment is known, and CP-SAT agrees."""
    return lambda task: engine(task) or task.start is not None or search(task)
