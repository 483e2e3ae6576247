"""The integer programs of placement as CP-SAT solves them: in integers, times rounded down, so that bounds hold."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from solvers.placement._ideals import rounding
from solvers.placement._ip_dual import relax
from solvers.placement._ip_program import Program
from solvers.placement._ip_task import STEP, Task

#: The cost of the placement known, in units of CP-SAT's; and the memory, where sizes are not whole anyway.
FINE, FINE_MEMORY = 2.0**30, 2.0**40
#: Where sizes are whole and the memory is less, they are left as they are.
WHOLE = 2**50

#: Share of the time that is left for the linear relaxation, of which CP-SAT has less precise ones.
RELAXATION = 0.1

#: CP-SAT's main strategies; fewer workers run only some of them unless they take turns.
STRATEGIES = 8


def solve(task: Task, program: Program, part: int, until: float) -> bool:
    """Search until a time, ``part`` says which bound is proved; False if there are no solutions."""
    from ortools.sat.python import cp_model_helper as cp_sat

    relax(task, program, part, RELAXATION * task.remaining())
    if task.best <= task.proved[part] * (1 + STEP):
        return True
    unit = max(2.0 ** (math.frexp(program.upper)[1]) / FINE, math.ulp(0.0))
    model = _model(cp_sat, task, program, unit, task.proved[part])
    wrapper, parameters = cp_sat.SolveWrapper(), cp_sat.SatParameters()
    parameters.num_workers = task.run.cores
    parameters.random_seed = task.run.seed % 2**31
    parameters.interleave_search = task.run.cores < STRATEGIES
    parameters.linearization_level = 2
    parameters.max_time_in_seconds = max(0.0, until - task.until + task.remaining())
    wrapper.set_parameters(parameters)
    callback = _listener(cp_sat, lambda value: task.offer(program.device(value)))
    wrapper.add_solution_callback(callback)
    wrapper.add_best_bound_callback(lambda bound: task.prove(part, _proved(bound, unit)))
    response = wrapper.solve(model)
    wrapper.clear_solution_callback(callback)
    if response.status == cp_sat.INFEASIBLE:
        return False
    task.prove(part, _proved(response.inner_objective_lower_bound, unit))
    return True


def _proved(bound: float, unit: float) -> float:
    """What a bound means for times that were rounded down: no more than they are."""
    return bound * unit * (1 - 1e-12)


def _model(cp_sat: Any, task: Task, program: Program, unit: float, least: float) -> Any:
    model = cp_sat.CpModelProto()
    lowest, highest = math.floor(least / unit), math.ceil(program.upper / unit) + 1
    for column in range(len(program.whole)):
        top = highest if column in program.loads else 1
        model.variables.add().domain.extend((lowest if program.loads == range(column, column + 1) else 0, top))
    for columns, factors, least, most in program.rows:
        _add(model, columns, factors, least, most)
    for columns, times, load in program.busy:
        whole = [int(min(time / unit, 2 * highest)) for time in times]
        _add(model, [*columns, load], [*whole, -1], -sum(whole) - highest, 0)
    for columns, sizes in program.rooms:
        whole, room = _sizes(sizes, task.instance.capacity, rounding(task.instance))
        _add(model, columns, whole, 0, room)
    model.objective.vars.extend(program.loads)
    model.objective.coeffs.extend([1] * len(program.loads))
    start = program.values(task.device) if len(task.device) else None
    if start is not None:
        places = range(program.loads.start)
        model.solution_hint.vars.extend(places)
        model.solution_hint.values.extend(start[: program.loads.start])
    return model


def _add(model: Any, columns: list[int], factors: list[int], least: int, most: int) -> None:
    linear = model.constraints.add().linear
    linear.vars.extend(columns)
    linear.coeffs.extend(factors)
    linear.domain.extend((least, most))


def _sizes(sizes: list[float], capacity: float, off: float) -> tuple[list[int], int]:
    """Whole sizes, and a memory, that every set fits which fits in truth; sizes are sums that are rounded this much."""
    if capacity < WHOLE and all(size == int(size) for size in sizes):
        return [int(size) for size in sizes], math.floor(capacity)
    fine = FINE_MEMORY / capacity
    return [math.floor(size * fine * (1 - 2 * off)) for size in sizes], math.ceil(FINE_MEMORY)


def _listener(cp_sat: Any, found: Any) -> Any:
    class Listener(cp_sat.SolutionCallback):
        def OnSolutionCallback(self) -> None:  # noqa: N802
            found(np.array(self.Response().solution))

    return Listener()
