"""The integer program for latency as CP-SAT solves it."""

from __future__ import annotations

from typing import Any

from solvers.placement._cpsat import search
from solvers.placement._latency_ip_program import LatencyProgram
from solvers.placement._latency_ip_task import LatencyTask

#: More than any sum of the program.
FAR = 2**62


def solve(task: LatencyTask, program: LatencyProgram) -> bool:
    """Search until the task's time is over; False if there is no placement."""
    model = _model(task, program)
    return search(
        model,
        task.run,
        task.remaining(),
        lambda value: task.offer(*program.placement(value)),
        lambda bound: task.prove(0, program.proved(bound)),
    )


def _model(task: LatencyTask, program: LatencyProgram) -> Any:
    from ortools.sat.python import cp_model_helper as cp_sat

    model = cp_sat.CpModelProto()
    for top in program.top:
        model.variables.add().domain.extend((0, top))
    for row in program.rows:
        constraint = model.constraints.add()
        constraint.enforcement_literal.extend(row.when)
        constraint.linear.vars.extend([at for _, at in row.terms])
        constraint.linear.coeffs.extend([factor for factor, _ in row.terms])
        least, most = (-FAR if row.least is None else row.least), (FAR if row.most is None else row.most)
        constraint.linear.domain.extend((least, most))
    model.objective.vars.append(program.total)
    model.objective.coeffs.append(1)
    if len(task.device):
        start = program.places(task.device, task.slot)
        model.solution_hint.vars.extend(list(start))
        model.solution_hint.values.extend(list(start.values()))
    return model
