"""The integer program solved by CP-SAT: integer rows, huge costs rounded down."""

from __future__ import annotations

import numpy as np

from instances.intraop import Instance
from solvers._cpsat import add_hint, answer, core, set_up
from solvers.intraop.programs.baseline import Task, solve
from solvers.intraop.programs.cpsat import columns, costs, equations, memory
from solvers.intraop.programs.floating_point import integer_below
from solvers.registry import Run, solver

#: Bytes that CP-SAT needs per entry of the program, presolve included (measured: 960).
BYTES = 1000


@solver(track="intraop", source="XLA auto-sharding's integer program; Perron and Didier, CP-SAT", deterministic=False)
def ilp_cpsat(instance: Instance, run: Run) -> None:
    """Solve the integer program of XLA's auto-sharding on the instance as it is, from a greedy solution (CP-SAT).

    Only time steps are reduced (see `programs.integer_program`), edges between the same nodes are merged, and entries
    of 10^17 or more have no column if all others together cost less. If writing the program would take too much memory,
    or half of the time, only the greedy solution is reported.

    Bounds are CP-SAT's, whose search is not checked; nor is its word that nothing fits, unless a solution is known.
    """
    solve(instance, run, _engine, reduced=False)


def _engine(task: Task) -> bool:
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
