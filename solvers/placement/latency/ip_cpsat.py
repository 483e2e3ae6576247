"""The integer program for latency as CP-SAT solves it."""

from __future__ import annotations

from typing import Any

from solvers._cpsat import HIGHEST, LOWEST, add_hint, add_row, core
from solvers.placement.ip.engine_cpsat import search
from solvers.placement.latency.ip_program import LatencyProgram
from solvers.placement.latency.ip_task import LatencyTask


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
    model = core().CpModelProto()
    for top in program.top:
        model.variables.add().domain.extend((0, top))
    for row in program.rows:
        least, most = (LOWEST if row.least is None else row.least), (HIGHEST if row.most is None else row.most)
        columns, factors = [at for _, at in row.terms], [factor for factor, _ in row.terms]
        add_row(model, columns, factors, least, most).enforcement_literal.extend(row.when)
    model.objective.vars.append(program.total)
    model.objective.coeffs.append(1)
    if len(task.device):
        add_hint(model, program.places(task.device, task.slot))
    return model
