"""The integer program for latency as CP-SAT solves it."""

from __future__ import annotations

from typing import Any

from solvers.placement._latency_ip_program import LatencyProgram
from solvers.placement._latency_ip_task import LatencyTask

#: CP-SAT's main strategies; fewer workers run only some of them unless they take turns.
STRATEGIES = 8
#: More than any sum of the program.
FAR = 2**62


def solve(task: LatencyTask, program: LatencyProgram) -> bool:
    """Search until the task's time is over; False if there is no placement."""
    from ortools.sat.python import cp_model_helper as cp_sat

    wrapper, parameters = cp_sat.SolveWrapper(), cp_sat.SatParameters()
    parameters.num_workers = task.run.cores
    parameters.random_seed = task.run.seed % 2**31
    parameters.interleave_search = task.run.cores < STRATEGIES
    parameters.linearization_level = 2
    model = _model(cp_sat, task, program)
    parameters.max_time_in_seconds = task.remaining()
    wrapper.set_parameters(parameters)

    class Listener(cp_sat.SolutionCallback):
        def OnSolutionCallback(self) -> None:  # noqa: N802
            task.offer(*program.placement(list(self.Response().solution)))

    listener = Listener()
    wrapper.add_solution_callback(listener)
    wrapper.add_best_bound_callback(lambda bound: task.prove(0, program.proved(bound)))
    response = wrapper.solve(model)
    wrapper.clear_solution_callback(listener)
    if response.status == cp_sat.MODEL_INVALID:
        raise RuntimeError(response.solution_info)
    if response.status == cp_sat.INFEASIBLE:
        return False
    task.prove(0, program.proved(response.inner_objective_lower_bound))
    return True


def _model(cp_sat: Any, task: LatencyTask, program: LatencyProgram) -> Any:
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
